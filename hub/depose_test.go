package hub

import (
	"errors"
	"testing"
	"time"

	"souk/bus"
	"souk/ledger"
	"souk/market"
)

// A hub that was deposed takes no more tasks, and settles those that it had awarded: their money is held in
// its journal alone.
func TestADeposedHubSettlesWhatItAwarded(t *testing.T) {
	h, d := oneRunning(t)
	h.accept(d)
	h.must(h.step(h.task("bob", "t2")))
	other := h.take("bob", "t2")
	h.accept(other)
	served := completion(h.agentOf(d), d, market.Usage{Prompt: 100, Output: 10})
	h.n.Depose(h.now)
	h.run()
	if err := h.step(h.task("ann", "t3")); !errors.Is(err, ErrNotLeading) {
		t.Errorf("a task is taken: %v", err)
	}
	h.must(h.step(served))
	if h.replica.Ended(d.Hold) != ledger.KindCapture || h.ack(d.Hold) != "ack " {
		t.Errorf("%s", h.ack(d.Hold))
	}
	h.must(h.step(served))
	if h.ack(d.Hold) != "ack " {
		t.Errorf("the repeat gets %s", h.ack(d.Hold))
	}
	if h.wake.IsZero() || h.wake.After(h.n.holds[other.Hold].expires) {
		t.Errorf("it wakes at %v", h.wake)
	}
	// Its reader gives up on the agent, and the agent fails: no other gets the task from a hub that leads
	// nothing.
	h.must(h.step(&bus.Completion{Agent: h.agentOf(other), Boot: 1, Hold: other.Hold, Client: "bob",
		Task: "t2", Outcome: bus.OutcomeFailed, Code: bus.CodeEngineFailed, Unsaid: true, Inbox: "x"}))
	if h.replica.Ended(other.Hold) != ledger.KindVoid || h.running() != "" || h.replica.OpenCount() != 0 {
		t.Errorf("running %q, %d holds", h.running(), h.replica.OpenCount())
	}
	h.must(h.n.Lead(h.now, 9)) // and its frames were those of the epoch that it led
	h.run()
}

// Whoever waits is told, also a task whose money came free because another was sent away.
func TestEverybodyIsSentAway(t *testing.T) {
	for name, away := range map[string]func(h *house){
		"unavailable": func(h *house) { h.n.Depose(h.now) },
		"draining":    func(h *house) { h.n.Drain(h.now) },
		"disk full":   func(h *house) { h.n.Room(false) },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, nil)
			h.join("a-1", "llama", 1, 0.9, card(1, 1, 4))
			h.must(h.step(h.task("bob", "busy")))
			h.accept(h.take("bob", "busy"))
			h.prepaid["ann"] = 10 * market.Credit // for one task
			h.must(h.step(h.task("ann", "t1", worth(10*market.Credit))))
			h.silent = true
			h.must(h.step(h.task("ann", "t2", worth(10*market.Credit))))
			h.must(h.step(h.task("ann", "t3", worth(market.Credit))))
			if st := h.n.Stats(); st.Waiting != 1 || st.Open != 4 {
				t.Fatalf("%d of %d tasks wait: the test's money is wrong", st.Waiting, st.Open)
			}
			away(h)
			h.run()
			for _, id := range []string{"t1", "t2", "t3"} {
				if h.answerTo("inbox.ann."+id) == "" {
					t.Errorf("task %s was told nothing", id)
				}
			}
			if st := h.n.Stats(); st.Waiting != 0 || st.Open != 1 {
				t.Errorf("%d tasks wait, %d are open", st.Waiting, st.Open)
			}
		})
	}
}

// An epoch that was called for by a hub that leads is not recorded by one that does not.
func TestADeposedHubRecordsNoEpoch(t *testing.T) {
	o := newOwners(t, nil)
	o.joinOwner("a-1", "one", 10_000)
	o.joinOwner("a-2", "two", 20_000)
	o.mute["a-2"] = true
	o.pass(gather)
	o.answer()
	if o.n.sales["h200"].phase != sealing || len(o.n.sales["h200"].said) != 1 {
		t.Fatal("no sealing is on its way")
	}
	before := len(o.frames)
	o.n.Depose(o.now)
	o.run()
	o.wait(3 * time.Second)
	if len(o.frames) != before {
		t.Errorf("a %s was recorded", o.frames[before].Records[0].Kind)
	}
}

// What nobody reports ends by its own time, also at a hub that is deposed, or that was started again and
// waits.
func TestHoldsOfADeposedHubEnd(t *testing.T) {
	h, d := oneRunning(t)
	h.accept(d)
	h.n.Depose(h.now)
	h.run()
	again, err := NewNode(testConfig(), [32]byte{2})
	h.must(err)
	for _, f := range h.frames {
		h.must(again.Replay(f))
	}
	h.must(again.Recall())
	for _, n := range []*Node{h.n, again} {
		h.n, h.replica = n, ledger.NewBook()
		for _, f := range h.frames {
			h.must(h.replica.ApplyFrame(f))
		}
		frames := h.frames
		h.run()
		if h.wake.IsZero() {
			t.Fatal("it never wakes")
		}
		h.pass(h.wake.Sub(h.now))
		for h.replica.OpenCount() > 0 && !h.wake.IsZero() {
			h.pass(h.wake.Sub(h.now))
		}
		if h.replica.Ended(d.Hold) != ledger.KindVoid {
			t.Error("its hold has not ended")
		}
		h.now, h.frames = start, frames
	}
}

// A completion on a hold of another hub is not for us to answer: that hub has its money.
func TestAnotherHubsHold(t *testing.T) {
	h, d := oneRunning(t)
	c := completion("a-1", d, market.Usage{Prompt: 100, Output: 10})
	c.Hold = "hub-other/1/0"
	if err := h.step(c); err == nil || h.ack(c.Hold) != "none" {
		t.Errorf("%v, %s", err, h.ack(c.Hold))
	}
}
