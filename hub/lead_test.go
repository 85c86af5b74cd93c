package hub_test

import (
	"strings"
	"testing"

	"souk/bus"
	"souk/hub"
	"souk/market"
)

// An empty journal is begun only once the treasury has said that it knows none of its name; one with frames
// asks nobody.
func TestAnEmptyJournalIsBegunOnTheTreasurysWord(t *testing.T) {
	n, err := hub.NewNode(testConfig(), [32]byte{1})
	if err != nil {
		t.Fatal(err)
	}
	f, ask := n.Money().First(7)
	if !ask || f.Op != bus.OpAllotted || f.Request.Hub != "hub-math" || f.Request.ID != "hub-math-7-0" ||
		f.Request.Epoch != 7 {
		t.Errorf("it asks %v: %+v", ask, f)
	}
	for _, c := range []struct {
		r      bus.FundsReply
		begins bool
		err    string
	}{
		{bus.FundsReply{}, true, ""},
		{bus.FundsReply{Code: bus.CodeUnavailable}, false, ""},
		{bus.FundsReply{Code: bus.CodeInternal}, false, ""},
		{bus.FundsReply{Code: bus.CodeBadRequest, Message: "no such epoch"}, false,
			"is empty, but no such epoch: bring the journal"},
		{bus.FundsReply{Returned: 2}, false, "has taken 2 returns of it in"},
		{bus.FundsReply{Grants: []bus.Grant{{Number: 1, Client: "ann", Hub: "hub-math",
			Amount: market.Credit}}},
			false, "journal hub-math is empty, but the treasury has allotted money"},
	} {
		begins, err := n.Money().Begin(&c.r)
		if begins != c.begins || (err == nil) != (c.err == "") || err != nil &&
			!strings.Contains(err.Error(), c.err) {
			t.Errorf("%+v: begins %v, %v; want %v, %q", c.r, begins, err, c.begins, c.err)
		}
	}
	if err := n.Lead(start, 7); err != nil {
		t.Fatal(err)
	}
	if _, ask := n.Money().First(8); ask {
		t.Error("a journal with frames asks for leave to begin")
	}
}

// Ready says how many rounds were cleared for it, and that somebody waits for dispatches, not for an
// acknowledgement.
func TestReadyCountsItsRounds(t *testing.T) {
	h, d := oneRunning(t)
	h.accept(d)
	h.must(h.n.Step(h.now, completion(h.agentOf(d), d, market.Usage{Prompt: 100, Output: 10})))
	if r := h.n.Ready(); r.Rounds != 0 || len(r.Frames) == 0 || r.Urgent() {
		t.Errorf("a settlement: %d rounds, %d frames, urgent %v", r.Rounds, len(r.Frames), r.Urgent())
	}
	h.must(h.n.Step(h.now, h.task("ann", "t2")))
	if r := h.n.Ready(); r.Rounds != 1 || len(r.Dispatches) != 1 || !r.Urgent() {
		t.Errorf("a task: %d rounds, %d dispatches, urgent %v", r.Rounds, len(r.Dispatches), r.Urgent())
	}
}
