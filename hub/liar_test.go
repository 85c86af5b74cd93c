package hub_test

import (
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/tip"
	"souk/hub/account"
	"souk/hub/settle"
	"souk/ledger"
	"souk/market"
)

// A hub that ends asks to be ended only once nothing that it asked for can still be granted to it: requests
// overtake one another on their way.
func TestAHubDoesNotEndBeforeItsRequests(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-1", "llama", 1, 0.8, card(1, 1, 4))
	h.silent = true
	h.must(h.step(h.task("ann", "t")))
	if len(h.pending) == 0 || h.pending[len(h.pending)-1].Op != bus.OpAllot {
		t.Fatalf("asked %+v", h.pending)
	}
	allot := h.pending[len(h.pending)-1]
	h.n.Close(h.now)
	h.pass(0)
	for _, f := range h.pending {
		if f.Op == bus.OpClose {
			t.Fatalf("it asks for its end while %s is under way", allot.Request.ID)
		}
	}
	// the answer comes, with money: it goes back before the end
	h.silent = false
	h.must(h.step(h.treasury(allot)))
	for range 2 {
		h.pass(2*account.TreasuryTimeout + time.Second) // nothing that it asked can be answered any more
	}
	if !h.n.Book().Closed("hub-math") || h.prepaid["ann"] != 1000*market.Credit ||
		h.replica.Avail("ann") > 0 {
		t.Errorf("closed: %v; ann has %s; waits for %s", h.n.Book().Closed("hub-math"), h.prepaid["ann"],
			h.n.Money().Waits())
	}
}

// A distribution in the midst of everything else moves surplus alone.
func TestADistributionWhileARoundIsCleared(t *testing.T) {
	h := newHouse(t, nil)
	contest(h)
	all := h.replica.Balance(ledger.Surplus)
	h.must(h.n.Step(h.now, h.task("ann", "t3", worth(9*market.Credit))))
	h.must(h.n.Step(h.now, h.task("bob", "t3", worth(5*market.Credit))))
	h.must(h.n.Step(h.now, &bus.Recall{ID: "r", Hub: "hub-math", Client: "hub-math", Look: true,
		Order: &tip.Ordered{Kind: "distribute", Number: 1, Amount: all, Client: "nobody"},
		Inbox: "inbox.bank"}))
	h.run()
	h.pass(h.n.Config().Batch.MaxWait)
	if h.replica.Balance(ledger.Surplus) != h.n.Book().Balance(ledger.Surplus) {
		t.Error("the replica says other")
	}
	if last := h.replica.LastOrder("hub-math"); last.Number != 1 || last.Client != "nobody" ||
		last.Amount != all {
		t.Error(last)
	}
	for _, n := range []uint64{0, 1, 3, 1<<63 - 1, 1 << 63, 1<<64 - 1} {
		for _, amount := range []market.Credits{-1 << 63, -1, 0, 1, market.MaxCredits, market.MaxCredits + 1,
			1<<63 - 1} {
			for _, payee := range []string{"", "a b", strings.Repeat("x", 65), "hub-math", "treasury"} {
				before := h.replica.Balance(ledger.Surplus)
				for _, kind := range []string{"distribute", "remit", "refund", "deposit", ""} {
					for _, o := range []*tip.Order{nil, {}, {Agent: "a-1", Receipt: "hub-math/1/0", Ref: "r",
						From: "agent"},
						{Rule: "agents"}, {Capture: &tip.Captured{Held: n, Seq: n, Paid: amount}}} {
						_ = h.step(&bus.Recall{ID: "r", Hub: "hub-math", Client: "hub-math", Granted: n,
							Order: &tip.Ordered{Kind: kind, Number: n, Amount: amount, Client: payee,
								Order: o}, // may be refused
							Inbox: "inbox.bank"})
					}
				}
				if h.replica.Balance(ledger.Surplus) != before {
					t.Error(n, amount, payee)
				}
			}
		}
	}
	if len(h.faults) > 0 {
		t.Error(h.faults)
	}
}

// An agent that was silent, and whose task another one has, is told so when it wakes: else it would tell the
// task's reader that it failed, beside the one that serves.
func TestAnAgentThatWakesHearsThatItsTaskMoved(t *testing.T) {
	h := newHouse(t, nil)
	h.pass(3 * h.n.Config().Silence) // it hears whoever speaks
	h.join("a-1", "llama", 1, 0.9, card(1, 1, 4))
	h.join("a-2", "llama", 1, 0.5, card(1, 1, 4))
	h.must(h.step(h.task("ann", "t1")))
	d := h.take("ann", "t1")
	if h.agentOf(d) != "a-1" {
		t.Fatal("a-1 is the better one")
	}
	for i := 0; len(h.dispatched) == 0; i++ {
		if i > 100 {
			t.Fatal("nobody else has the task")
		}
		h.must(h.step(&bus.Summary{Agent: "a-2", Boot: 1, Seq: uint64(i + 1), State: bus.StateReady, Slots: 1,
			Price: card(1, 1, 4)}))
		h.pass(settle.DispatchTimeout / 2)
	}
	other := h.take("ann", "t1")
	if other.Hold == d.Hold || other.Task.Attempt != 1 {
		t.Fatalf("dispatched %+v", other)
	}
	h.accept(other)
	for range 2 { // its first acknowledgement was lost
		h.must(h.step(&bus.Completion{Agent: "a-1", Boot: 1, Hold: d.Hold, Client: "ann", Task: "t1",
			Outcome: bus.OutcomeFailed, Code: bus.CodeAgentFailed, Unsaid: true, Inbox: "ack." + d.Hold}))
		if got := h.ack(d.Hold); got != "ack moved" {
			t.Errorf("it hears %q", got)
		}
	}
	h.must(h.step(completion("a-2", other, market.Usage{Prompt: 100, Output: 50})))
	if got := h.ack(other.Hold); got != "ack " {
		t.Errorf("who served hears %q", got)
	}
}
