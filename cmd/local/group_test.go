package local

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/membus"
	"souk/bus/natsauth"
	"souk/market"
)

// A client is in the group that it was put into last, and of a key with a budget the client that it is, as
// long as there is such a key. Nothing else moves a client: not another key, and not one that could not be
// made. No client and group have one name, whoever comes first.
func TestCacheGroupsOfKeys(t *testing.T) {
	ctx, r := t.Context(), membus.New(1).Registry()
	bank := func(err error) Treasurer {
		return func(context.Context, string, string, string, market.Credits) error { return err }
	}
	ended, broken := bank(nil), bank(bus.ErrNoResponders)
	budget := func(id string) bus.APIKey {
		return bus.APIKey{ID: id, Client: "ann", Budget: &bus.KeyBudget{Of: "ann", Amount: 5}}
	}
	want := func(when string, want map[string]string) {
		t.Helper()
		if got, err := Groups(ctx, r); err != nil || !maps.Equal(got, want) {
			t.Errorf("%s: %v, %v, want %v", when, got, err, want)
		}
	}
	make := func(bank Treasurer, k bus.APIKey, group string) error {
		_, err := NewKeyIn(ctx, r, bank, k, group)
		return err
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	must(make(nil, bus.APIKey{ID: "k1", Client: "ann"}, ""))
	want("a key of no group", map[string]string{})
	must(make(nil, bus.APIKey{ID: "k2", Client: "ann"}, "team"))
	must(make(nil, bus.APIKey{ID: "k3", Client: "ann"}, ""))
	must(make(nil, bus.APIKey{ID: "k4", Client: "ann"}, "team"))
	must(make(ended, budget("k5"), "team"))
	must(make(ended, budget("k6"), ""))
	all := map[string]string{"ann": "team", "ann-k5": "team"}
	want("keys of one", all)
	for _, c := range []struct {
		name string
		err  error
		says string
	}{
		{"of another group", make(nil, bus.APIKey{ID: "k7", Client: "ann"}, "other"),
			"in cache group team, and stays there: `souk key group ann other` moves it"},
		{"of an id that there is", make(nil, bus.APIKey{ID: "k1", Client: "bob"}, "team"), "k1"},
		{"without the treasury", make(broken, budget("k8"), "team"), "no key is made"},
		{"of a group that is a client", make(nil, bus.APIKey{ID: "k9", Client: "bob"}, "ann"),
			"there is a client ann"},
		{"of one that is a budget's", make(nil, bus.APIKey{ID: "k9", Client: "bob"}, "ann-k6"),
			"there is a client ann-k6"},
		{"of a client that is a group", make(nil, bus.APIKey{ID: "k9", Client: "team"}, ""),
			"there is a cache group team"},
		{"of no name", make(nil, bus.APIKey{ID: "k9", Client: "bob"}, "a/b"), `cache group: "a/b" is not an id`},
		{"of no client", make(nil, bus.APIKey{ID: "k9", Client: "a b"}, "team"), "client"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.name, c.err, c.says)
		}
		want(c.name, all)
	}
	if keys, _ := Keys(ctx, r); len(keys) != 6 {
		t.Errorf("%d keys", len(keys))
	}

	// A client that has creds and no key may be in one, too.
	must(second(JoinGroup(ctx, r, "carl", "others", true)))
	if was, err := JoinGroup(ctx, r, "ann", "others", true); was != "team" || err != nil {
		t.Error(was, err)
	}
	want("moved", map[string]string{"ann": "others", "ann-k5": "team", "carl": "others"})
	if err := make(nil, bus.APIKey{ID: "k9", Client: "bob"}, "carl"); !errors.Is(err, ErrNamed) {
		t.Errorf("a group that is called as a client is who is in one: %v", err)
	}
	if was, err := LeaveGroup(ctx, r, "ann"); was != "others" || err != nil {
		t.Error(was, err)
	}
	if was, err := LeaveGroup(ctx, r, "ann"); was != "" || err != nil {
		t.Error(was, err)
	}
	must(RevokeKey(ctx, r, ended, "k2"))
	must(RevokeKey(ctx, r, ended, "k5"))
	want("revoked", map[string]string{"carl": "others"})
}

func second[T any](_ T, err error) error { return err }

// Nor is a group called as a client that has creds and no key.
func TestACacheGroupThatIsAClientWithCreds(t *testing.T) {
	r := Reach{Data: t.TempDir()}
	if err := r.MayBeGroup("dora"); err != nil {
		t.Errorf("where there are no keys: %v", err)
	}
	keys, err := natsauth.Init(natsauth.Dir(r.Data))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := keys.Ensure(bus.RoleClient, bus.IDs{Name: "dora"}, time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := r.MayBeGroup("dora"); !errors.Is(err, ErrNamed) {
		t.Error(err)
	}
	if err := r.MayBeGroup("team"); err != nil {
		t.Error(err)
	}
}
