package hub

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/market"
)

// The rest of an answer that broke off goes on while others wait for seats, though its session's only turn
// has failed and was to be its last.
func TestTheRestOfAnAnswerWaitsForNoSeat(t *testing.T) {
	for _, ends := range []bool{false, true} {
		h := seatedHouse(t, 2, 1, nil)
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

// A last turn that is refused, and is to be sent again, leaves its session the seat.
func TestARefusedLastTurnKeepsItsSeat(t *testing.T) {
	h := seatedHouse(t, 1, 1, nil)
	h.turn("ann", "t1", "one")
	h.serve(h.take("ann", "t1"), market.Usage{Prompt: 100, Output: 100})
	last := func(m *bus.Task) { m.Session, m.SessionEnd = "one", true }
	h.must(h.step(h.task("ann", "t2", last)))
	h.refuse(h.take("ann", "t2"), bus.CodeNoSlot)
	h.n.Drain(h.now) // it is told to try again
	h.run()
	h.want("inbox.ann.t2", "draining")
	if seats, _, _ := h.n.seats.table.Seats(); seats != 1 {
		t.Errorf("%d seats are left, want that of the session whose last turn is to come", seats)
	}
}

// Whoever ends sessions that have no seat has nobody looked at again: ends cost a client nothing.
func TestEndsThatFreeNothingWakeNobody(t *testing.T) {
	h := seatedHouse(t, 1, 1, nil)
	h.turn("ann", "t1", "one")
	h.accept(h.take("ann", "t1"))
	for i := range 20 {
		id := fmt.Sprint("t", i)
		h.turn("bob", id, id)
	}
	h.pass(20 * time.Millisecond)
	if h.n.batch.Len() > 0 || h.n.waiting == 0 {
		t.Fatalf("%d wait, and %d are to be looked at: the test sees nothing", h.n.waiting, h.n.batch.Len())
	}
	for i := range 100 {
		h.must(h.step(&bus.SessionEnd{Client: "eve", Session: fmt.Sprint(i)}))
	}
	if h.n.batch.Len() > 0 {
		t.Errorf("%d are looked at again for ends that freed no seat", h.n.batch.Len())
	}
}

// One that is too large for the seats that come free is not told that none does.
func TestNoSeatIsSaidTruly(t *testing.T) {
	h := seatedHouse(t, 1, 3, func(c *Config) { c.Seats.Wait = 3 * time.Second })
	h.turn("ann", "t0", "s0")
	h.must(h.step(h.task("bob", "large", func(m *bus.Task) { // it needs most of what there is
		m.Session, m.Prompt.Tokens, m.Prompt.Bytes, m.Prompt.Prefixes[0].Bytes = "large", 450, 1800, 1800
	})))
	h.pass(20 * time.Millisecond)
	for i := 1; h.answerTo("inbox.bob.large") == "" && i < 100; i++ {
		d := h.take("ann", fmt.Sprint("t", i-1))
		h.turn("ann", fmt.Sprint("t", i), fmt.Sprint("s", i))
		h.serve(d, market.Usage{Prompt: 100, Output: 100})
		h.must(h.step(&bus.SessionEnd{Client: "ann", Session: d.Task.Session}))
		h.pass(500 * time.Millisecond)
	}
	h.want("inbox.bob.large", "no_room")
	if h.n.seats.table.Freed(h.n.clock()) == 0 {
		t.Fatal("no seat came free: the test sees nothing")
	}
	for _, l := range h.messages {
		if a, ok := l.Body.(*bus.Answer); ok && a.Result != nil && a.Result.Task == "large" &&
			strings.Contains(a.Result.Message, "none of them ended") {
			t.Error(a.Result.Message)
		}
	}
}
