package hub_test

import (
	"testing"
	"time"

	"souk/bus"
	"souk/hub"
	"souk/market"
)

// A round that cannot be recorded is a fault, and is not held again and again in the same moment.
func TestARoundThatCannotBeRecordedIsHeldOnce(t *testing.T) {
	h := newHouse(t, func(c *hub.Config) { c.Prewarm.Every = 0 })
	h.join("a-1", "llama", 8, 0.9, card(1, 1, 4))
	worth := 100 * market.Credit
	long := func(m *bus.Task) { m.Prompt.Tokens, m.Prompt.Bytes, m.Terms.Worth = 2000, 8000, &worth }
	h.must(h.step(h.task("ann", "t0", long)))
	h.serve(h.take("ann", "t0"), market.Usage{Prompt: 2000, Output: 10})
	h.pass(time.Second)
	solves := 0
	h.n.Limit = func() func() bool {
		if solves++; solves > 1000 {
			panic("rounds are held without an end")
		}
		return nil
	}
	h.must(h.n.Step(h.now, h.task("ann", "t1", long)))
	h.n.Unwritable()
	h.run()
	if solves != 1 || len(h.faults) != 1 || h.n.Stats().Waiting != 1 {
		t.Errorf("%d rounds, %d faults, %d wait", solves, len(h.faults), h.n.Stats().Waiting)
	}
}

// A task that leaves an agent which hangs does so as soon as that can be recorded.
func TestAVoidThatCannotBeRecordedIsTriedAgain(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-1", "llama", 1, 0.9, card(1, 1, 4))
	h.join("a-2", "llama", 1, 0.5, card(1, 1, 4))
	speak := func(seconds int, ids ...string) {
		for range seconds {
			h.pass(time.Second)
			for _, id := range ids {
				h.must(h.summary(id, nil))
			}
		}
	}
	speak(11, "a-1", "a-2") // a hub that has just come hears agents late
	h.must(h.step(h.task("ann", "t1")))
	d := h.take("ann", "t1")
	if a := h.agentOf(d); a != "a-1" {
		t.Fatalf("it is at %s", a)
	}
	speak(6, "a-2")
	mend := h.n.Unwritable()
	speak(2, "a-2")
	if len(h.faults) == 0 || h.running() != "" || len(h.n.HoldsAt("a-1")) != 1 {
		t.Fatalf("%d faults, %s is handed out, %d holds at a-1", len(h.faults), h.running(), len(h.n.HoldsAt("a-1")))
	}
	mend()
	speak(2, "a-2")
	if a := h.agentOf(h.take("ann", "t1")); a != "a-2" {
		t.Errorf("it is at %s", a)
	}
}

// An agent that fell silent, and whose reader has given it up, loses its task as soon as that can be
// recorded.
func TestASilentAgentIsLookedAtUntilItsHoldHasEnded(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-1", "llama", 1, 0.9, card(1, 1, 4))
	h.pass(11 * time.Second) // a hub that has just come hears agents late
	h.must(h.summary("a-1", nil))
	h.must(h.step(h.task("ann", "t1")))
	h.accept(h.take("ann", "t1"))
	h.pass(7 * time.Second)
	mend := h.n.Unwritable()
	h.must(h.step(h.task("ann", "t1", func(m *bus.Task) {
		m.Attempt, m.Inbox, m.Resume = 1, "rest", &bus.Resume{Agent: "a-1", Seq: 3}
	})))
	h.pass(time.Second)
	if len(h.faults) == 0 || len(h.n.HoldsAt("a-1")) != 1 {
		t.Fatalf("%d faults, %d holds at a-1", len(h.faults), len(h.n.HoldsAt("a-1")))
	}
	mend()
	h.pass(time.Second)
	if len(h.n.HoldsAt("a-1")) != 0 {
		t.Errorf("its hold is open a second after it could be ended: the rest is answered %q", h.answerTo("rest"))
	}
}
