package serve_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/bustest"
	"souk/bus/tip"
	"souk/market"
)

// copied copies a journal with all that is in it, as backups do.
func copied(t testing.TB, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "journal", "treasury")
	if out, err := exec.Command("sh", "-c", "mkdir -p "+filepath.Dir(to)+" && cp -a "+dir+" "+to).
		CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return to
}

// word sends a hub's regular word on the treasury's journal.
func (h *house) word(hub string, lead bus.Leadership, known *tip.Mark) bus.FundsReply {
	return h.ask(bus.OpAllotted, bus.FundsRequest{ID: "w", Hub: hub, Epoch: lead.Epoch(), Domain: "maths",
		Known: known})
}

// takesNothing checks that a treasury does nothing at all, and says why.
func (h *house) takesNothing(why string) {
	h.t.Helper()
	before := h.srv.Stats().Records
	for op, q := range map[string]bus.FundsRequest{
		bus.OpDeposit: {ID: "late", Client: "ann", Amount: 5}, bus.OpPayout: {ID: "p", Client: "ann",
			Amount: 5},
		bus.OpMove:       {ID: "m", Client: "ann", To: "bob", Amount: 5},
		bus.OpBudget:     {ID: "b", Client: "ann", To: "key", Amount: 5},
		bus.OpDistribute: {ID: bus.DistributeID("hub-maths", 1), Hub: "hub-maths", Amount: 5},
		bus.OpWriteOff:   {ID: "w", Hub: "hub-maths", Sure: true},
	} {
		if r := h.ask(op, q); r.Code != bus.CodeUnavailable || op != bus.OpWriteOff &&
			!strings.Contains(r.Message, why) {
			h.t.Errorf("%s: %q %s, want %q", op, r.Code, r.Message, why)
		}
	}
	if got := h.srv.Closed(); !strings.Contains(got, why) {
		h.t.Errorf("it is ready, or says why not so: %q, want %q", got, why)
	}
	if after := h.srv.Stats().Records; after != before {
		h.t.Errorf("%d records are made", after-before)
	}
}

// A treasury that is started on an older copy of its journal takes nothing before hubs have said how far it
// was, and nothing after that; nor does it when it is started there again. On the right one it goes on.
func TestAnOldCopyOfTheTreasuryTakesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal", "treasury")
	h := start(t, dir, nil)
	lead := h.elect("maths")
	h.ask(bus.OpDeposit, bus.FundsRequest{ID: "d1", Client: "ann", Amount: 1000})
	h.ask(bus.OpAllot, bus.FundsRequest{ID: "a", Client: "ann", Hub: "hub-maths", Epoch: lead.Epoch(),
		Amount: 100})
	if err := h.stop(); err != nil {
		t.Fatal(err)
	}
	old := copied(t, dir)
	h = start(t, dir, nil)
	lead = h.elect("maths")
	h.ask(bus.OpDeposit, bus.FundsRequest{ID: "d2", Client: "ann", Amount: 5 * market.Credit})
	r := h.word("hub-maths", lead, nil)
	if r.Mark == nil || r.Mark.Journal != r.Journal {
		t.Fatalf("it says nothing of its journal: %+v", r)
	}
	known := *r.Mark
	h.stop()
	for range 2 {
		h = start(t, old, nil, "maths")
		h.takesNothing("waits for the word of hub hub-maths")
		if r := h.word("hub-maths", h.leads["maths"], &known); r.Code != bus.CodeUnavailable ||
			r.Mark != nil {
			t.Errorf("a hub is answered %+v", r)
		}
		h.takesNothing("it is an older copy; bring back the one that has frame")
		if n := strings.Count(h.said.String(), "nothing is taken in, granted or paid out"); n != 2 {
			t.Errorf("its log says so %d times: %s", n, h.said.String())
		}
		h.stop()
	}
	h = start(t, dir, nil, "maths")
	if why := h.srv.Closed(); why != "" {
		t.Errorf("on the right journal: %s", why)
	}
	if r := h.word("hub-maths", h.leads["maths"], &known); r.Mark == nil || r.Code != "" {
		t.Errorf("on the right journal: %+v", r)
	}
	if r := h.ask(bus.OpBalance, bus.FundsRequest{ID: "b", Client: "ann"}); r.Prepaid < 5*market.Credit {
		t.Errorf("ann has %s", r.Prepaid)
	}
}

// A treasury on an empty journal, where the registry names a hub, hears that hub first: it takes nothing if
// the hub holds grants of another journal, and begins if it holds none. Its first frame alone makes the
// journal no other.
func TestATreasuryOnAnEmptyJournalHearsHubsFirst(t *testing.T) {
	foreign := &tip.Mark{Journal: tip.Sum{7}, Seq: 4, Sum: tip.Sum{8}}
	dir := filepath.Join(t.TempDir(), "journal", "treasury")
	for range 2 {
		h := start(t, dir, nil, "maths")
		h.takesNothing("waits for the word of hub hub-maths")
		h.word("hub-maths", h.leads["maths"], foreign)
		h.takesNothing("another was dealt with under its name")
		h.stop()
	}
	h := start(t, dir, nil, "maths")
	h.word("hub-maths", h.leads["maths"], nil)
	if why := h.srv.Closed(); why != "" {
		t.Errorf("it does not begin: %s", why)
	}
}

// Where most hubs hold grants of the treasury's journal, one that holds a mark of what never was harms
// itself: it is refused, and shown; the others are served. Such a mark costs the treasury nothing.
func TestAHubThatContradictsAlone(t *testing.T) {
	h := start(t, t.TempDir(), nil)
	h.ask(bus.OpDeposit, bus.FundsRequest{ID: "d1", Client: "ann", Amount: 1000})
	maths, law := h.elect("maths"), h.elect("law")
	mark := h.word("hub-maths", maths, nil).Mark
	for hub, lead := range map[string]bus.Leadership{"hub-maths": maths, "hub-law": law} {
		h.ask(bus.OpAllotted, bus.FundsRequest{ID: "w", Hub: hub, Epoch: lead.Epoch(), Known: mark})
	}
	rob := h.elect("rob")
	for _, m := range []tip.Mark{{Journal: mark.Journal, Seq: tip.MaxSeq, Sum: mark.Sum},
		{Journal: mark.Journal, Seq: mark.Seq, Sum: tip.Sum{1}}, {Journal: tip.Sum{1}, Seq: 1,
			Sum: mark.Sum}} {
		r := h.ask(bus.OpAllotted, bus.FundsRequest{ID: "w", Hub: "hub-rob", Epoch: rob.Epoch(), Known: &m})
		if r.Code != bus.CodeUnavailable || r.Mark == nil || !strings.Contains(r.Message,
			"hub-rob has dealt with") {
			t.Errorf("it is answered %q %s", r.Code, r.Message)
		}
		if why := h.srv.Closed(); why != "" || !strings.Contains(fmt.Sprint(h.srv.Stats().Denied),
			"hub-rob") {
			t.Errorf("closed: %q; refused: %q", why, h.srv.Stats().Denied)
		}
		if r := h.ask(bus.OpAllotted, bus.FundsRequest{ID: "w", Hub: "hub-law", Epoch: law.Epoch(),
			Known: mark}); r.Code != "" {
			t.Errorf("another hub: %q %s", r.Code, r.Message)
		}
	}
	m := tip.Mark{Journal: mark.Journal, Seq: 1 << 63, Sum: mark.Sum}
	if r := h.word("hub-law", law, &m); r.Code != bus.CodeBadRequest {
		t.Errorf("a mark of 2^63: %q %s", r.Code, r.Message)
	}
	bustest.Eventually(t, "it is well", func() bool { return h.srv.Closed() == "" })
}

// A hub that names another's journal at its own key in etcd keeps that one from being written off. The
// refusal names the key, so that an operator knows whom to stop; then it is done.
func TestAWriteOffSaysWhoNamesTheJournal(t *testing.T) {
	h := start(t, filepath.Join(t.TempDir(), "journal", "treasury"), nil)
	lead := h.elect("maths")
	h.ask(bus.OpDeposit, bus.FundsRequest{ID: "d1", Client: "ann", Amount: 1000})
	h.ask(bus.OpAllot, bus.FundsRequest{ID: "a", Client: "ann", Hub: "hub-maths", Epoch: lead.Epoch(),
		Amount: 100})
	if err := lead.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	entry, err := bus.EncodeEntry(&bus.HubEntry{Domain: "law", Labels: []string{"law"}, Hub: "h",
		Journal: "hub-maths"})
	if err != nil {
		t.Fatal(err)
	}
	liar, err := h.world.Registry().Elect(t.Context(), bus.HubKey("law"), entry, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	writeOff := func() bus.FundsReply {
		return h.ask(bus.OpWriteOff, bus.FundsRequest{ID: "w", Hub: "hub-maths", Sure: true})
	}
	if r := writeOff(); r.Code != bus.CodeBadRequest || !strings.Contains(r.Message, bus.HubKey("law")) ||
		!strings.Contains(r.Message, "shut it out") {
		t.Errorf("it is answered %q %s", r.Code, r.Message)
	}
	if err := liar.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := writeOff(); strings.Contains(r.Message, "leads domain") {
		t.Errorf("once that hub is stopped: %q %s", r.Code, r.Message)
	}
}
