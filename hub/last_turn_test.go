package hub_test

import (
	"fmt"
	"testing"
	"time"

	"souk/bus"
	"souk/market"
)

// The rest of an answer that broke off goes on while others wait for places, though its session's only turn
// has failed and was to be its last.
func TestTheRestOfAnAnswerWaitsForNoPlace(t *testing.T) {
	for _, ends := range []bool{false, true} {
		h := sessionHouse(t, 2, 1, nil)
		turn := func(m *bus.Task) { m.Session, m.SessionEnd = "one", ends }
		h.must(h.step(h.task("ann", "t1", turn)))
		h.turn("bob", "t2", "two")
		h.turn("cyd", "t3", "three")
		h.pass(20 * time.Millisecond)
		d := h.take("ann", "t1")
		h.accept(h.take("bob", "t2"))
		h.accept(d)
		failed := completion(h.agentOf(d), d, market.Usage{})
		failed.Outcome, failed.Code, failed.Relayed = bus.OutcomeFailed, bus.CodeEngineFailed, 40
		rest := h.task("ann", "t1", turn)
		rest.Attempt, rest.Resume = 1, &bus.Resume{Agent: failed.Agent, Seq: 40, Tokens: make([]uint32, 40),
			Text: "so far"}
		h.must(h.step(rest)) // its reader has noticed first
		h.must(h.step(failed))
		h.pass(time.Second)
		if next := h.take("ann", "t1"); h.agentOf(next) == failed.Agent {
			t.Error("the rest goes to the agent that failed")
		}
	}
}

// A last turn that is refused, and is to be sent again, leaves its session its place.
func TestARefusedLastTurnKeepsItsPlace(t *testing.T) {
	h := sessionHouse(t, 1, 1, nil)
	h.turn("ann", "t1", "one")
	h.serve(h.take("ann", "t1"), market.Usage{Prompt: 100, Output: 100})
	last := func(m *bus.Task) { m.Session, m.SessionEnd = "one", true }
	h.must(h.step(h.task("ann", "t2", last)))
	h.refuse(h.take("ann", "t2"), bus.CodeNoSlot)
	h.n.Drain(h.now) // it is told to try again
	h.run()
	h.want("inbox.ann.t2", "draining")
	if places := h.n.Status().Sessions.Places; places != 1 {
		t.Errorf("%d places are left, want that of the session whose last turn is to come", places)
	}
}

// Whoever ends sessions that have no place has nobody looked at again: ends cost a client nothing.
func TestEndsThatFreeNothingWakeNobody(t *testing.T) {
	h := sessionHouse(t, 1, 1, nil)
	h.turn("ann", "t1", "one")
	h.accept(h.take("ann", "t1"))
	for i := range 20 {
		id := fmt.Sprint("t", i)
		h.turn("bob", id, id)
	}
	h.pass(20 * time.Millisecond)
	if h.n.Due() > 0 || h.n.Stats().Waiting == 0 {
		t.Fatalf("%d wait, and %d are to be looked at: the test sees nothing", h.n.Stats().Waiting, h.n.Due())
	}
	for i := range 100 {
		h.must(h.step(&bus.SessionEnd{Client: "eve", Session: fmt.Sprint(i)}))
	}
	if h.n.Due() > 0 {
		t.Errorf("%d are looked at again for ends that freed no place", h.n.Due())
	}
}
