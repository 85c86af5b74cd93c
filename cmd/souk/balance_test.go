package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/natsauth"
	"souk/cmd/local"
	"souk/market"
)

// A hub that did not answer is in no sum: the most that it can have is named.
func TestBalance(t *testing.T) {
	var out strings.Builder
	err := showBalance(&out, bus.FundsReply{Client: "ann", Prepaid: 5 * market.Credit, Hubs: []bus.HubFunds{
		{Hub: "math", Allotted: 4 * market.Credit, Avail: 2 * market.Credit, Held: market.Credit / 2,
			AtMS: 1_800_000_000_000},
		{Hub: "code", Allotted: 3 * market.Credit, HeardMS: 1_800_000_000_000},
		{Hub: "law", Allotted: market.Credit},
	}})
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	for i, want := range []string{
		"ann has 7.5: 5 at the treasury, 2.5 at hubs, and at most 4 at hubs that did not answer",
		"hub   available  held  spent  as of",
		"math  2          0.5   1.5    2027-01-",
		"code  ?          ?     ?      no answer, last heard 2027-01-",
		"law   ?          ?     ?      no answer, not heard since the treasury's start; at most 1", "",
	} {
		if !strings.HasPrefix(lines[i], want) {
			t.Errorf("line %d is %q, want %q", i, lines[i], want)
		}
	}
	out.Reset()
	if showBalance(&out, bus.FundsReply{Client: "ann",
		Prepaid: 5}); out.String() != "ann has 0.000000005: 0.000000005 at the treasury, 0 at hubs\n" {
		t.Error(out.String())
	}
}

// A treasury does not name more hubs than there is room for: what it has granted to them is not passed over.
func TestBalanceAtHubsThatAreNotNamed(t *testing.T) {
	var out strings.Builder
	err := showBalance(&out, bus.FundsReply{Client: "ann", Prepaid: 5 * market.Credit,
		Allotted: 2 * market.Credit})
	want := "ann has 5: 5 at the treasury, 0 at hubs, and at most 2 at hubs that were not asked\n"
	if err != nil || out.String() != want {
		t.Errorf("%q, %v, want %q", out.String(), err, want)
	}
}

// Of a payout that may have been made it is not said that it was not; how to make it once is.
func TestAPayoutThatFailed(t *testing.T) {
	again := "to make it once, or hear that it was: souk payout ann 2 --id p"
	for _, test := range []struct {
		err       error
		want, not string
	}{
		{&bus.Error{Code: bus.CodeAllotmentPending, Message: "hubs are asked"}, again, "nothing was paid"},
		{&bus.Error{Code: bus.CodeUnavailable}, again, "nothing was paid"},
		{errors.New("treasury: timeout"), again, "nothing was paid"},
		{&bus.Error{Code: bus.CodeInsufficientFunds, Message: "little"},
			"nothing was paid out; souk balance ann", again},
		{&bus.Error{Code: bus.CodeIDConflict, Message: "other"}, "id_conflict: other", again},
		{bus.ErrNoResponders, bus.ErrNoResponders.Error(), again},
	} {
		if got := payoutFailed(test.err, "ann", "2", "p").Error(); !strings.Contains(got, test.want) ||
			strings.Contains(got, test.not) {
			t.Errorf("%s", got)
		}
	}
}

// A deposit that may have been made names its id: who repeats it without would pay in twice.
func TestADepositThatFailed(t *testing.T) {
	again := "; to make it once, or hear that it was: souk fund ann 2 --id p"
	for _, test := range []struct {
		err  error
		says bool
	}{
		{errors.New("treasury: timeout"), true}, {&bus.Error{Code: bus.CodeUnavailable}, true},
		{&bus.Error{Code: bus.CodeIDConflict, Message: "other"}, false}, {bus.ErrNoResponders, false},
	} {
		got := mayBeMade(test.err, "souk fund ann 2 --id p")
		if strings.HasSuffix(got.Error(), again) != test.says || !errors.Is(got, test.err) {
			t.Errorf("%v", got)
		}
	}
}

// And so with a distribution.
func TestADistributionThatFailed(t *testing.T) {
	again := "to make it once, or hear that it was: AGAIN"
	for _, test := range []struct {
		err       error
		want, not string
	}{
		{&bus.Error{Code: bus.CodeUnavailable}, again, "souk fund"},
		{errors.New("treasury: timeout"), again, "souk fund"},
		{&bus.Error{Code: bus.CodeUnknownClient, Message: "who"}, "souk fund bob AMOUNT", again},
		{&bus.Error{Code: bus.CodeIDConflict, Message: "other"}, "id_conflict: other", again},
		{bus.ErrNoResponders, bus.ErrNoResponders.Error(), again},
	} {
		if got := distributeFailed(test.err, "bob", "AGAIN").Error(); !strings.Contains(got, test.want) ||
			strings.Contains(got, test.not) {
			t.Errorf("%s", got)
		}
	}
}

// A client asks for its own money with its own creds from another machine, and for nobody else's.
func TestBalanceOfOnesOwn(t *testing.T) {
	cfg, err := local.ParseConfig("test.yaml", []byte(`
listen: 127.0.0.1:0
domains: [{name: math, general: true, labels: [general, humanities, social, law, medicine, math, science, finance, code]}]
agents: [{id: only, model: gpt-oss-20b, price_row: fireworks/gpt-oss-20b, scores: [{domain: math, score: 0.7}], slots: 2, engine: {profile: steady}}]
clients: {ann: 7, bob: 5}
`))
	if err != nil {
		t.Fatal(err)
	}
	data := t.TempDir()
	m, err := local.Start(t.Context(), local.Options{Dir: data, Config: cfg})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	creds := func(role bus.Role, name string) string {
		path, err := m.Keys.Add(role, bus.IDs{Name: name}, time.Now(), natsauth.Valid)
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	ann, gate := creds(bus.RoleClient, "ann"), creds(bus.RoleGateway, "gate")
	balance := func(of string, creds ...string) (string, error) {
		var out strings.Builder
		c := root()
		c.SetArgs([]string{"balance", of, "--data", t.TempDir(), "--nats", m.State.NATS, "--creds",
			strings.Join(creds, ",")})
		c.SetOut(&out)
		c.SetErr(&out)
		err := c.ExecuteContext(t.Context())
		return out.String(), err
	}
	for _, with := range [][]string{{ann}, {gate, ann}} {
		if said, err := balance("ann", with...); err != nil || !strings.HasPrefix(said, "ann has 7: ") {
			t.Errorf("%q, %v", said, err)
		}
	}
	for _, with := range []string{ann, gate} {
		if said, err := balance("bob", with); !errors.Is(err, natsauth.ErrRole) ||
			!strings.Contains(err.Error(), "creds of client bob are wanted") {
			t.Errorf("bob's money by %s: %q, %v", with, said, err)
		}
	}
	// whoever may be any client has no name to be told
	_, err = local.Reach{NATS: m.State.NATS, Creds: []string{gate}}.Dial(bus.RoleClient, "")
	if err == nil || !strings.Contains(err.Error(), "creds of client are wanted") {
		t.Error(err)
	}
}
