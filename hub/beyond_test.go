package hub_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/hub"
	"souk/market"
)

// A task that lost a round five seconds before its deadline, and whose first token would have come too late
// in the last one, 10 ms before it, is not told that this was so with every slot that was free.
func TestTooLateInTheLastRoundThroughTheHub(t *testing.T) {
	h := newHouse(t, func(c *hub.Config) { c.Silence = time.Hour })
	running := h.busy("a-1", "llama", 1)
	offer := func(worth market.Credits) func(*bus.Task) {
		return func(m *bus.Task) {
			m.Terms = bus.Terms{Worth: &worth, Delta: new(0.5), PatienceMS: new(int64(100_000))}
		}
	}
	end := h.now.Add(10 * time.Second)
	by := func(m *bus.Task) { m.DeadlineMS = end.UnixMilli() }
	h.must(h.step(h.task("bob", "low", offer(market.Credit/10), by)))
	h.must(h.step(h.task("ann", "high", offer(50*market.Credit))))
	h.must(h.step(h.task("cyd", "higher", offer(50*market.Credit))))
	h.pass(5 * time.Second)
	h.ends(running[0])
	h.pass(20 * time.Millisecond)
	d := h.dispatched[len(h.dispatched)-1]
	h.accept(d)
	h.pass(5*time.Second - 30*time.Millisecond)
	h.ends(d)
	h.pass(time.Second)
	r := h.told("bob.low")
	if r == nil || strings.Contains(r.Message, "with every slot that was free") {
		t.Errorf("it is told %+v", r)
	}
}

// A task that is worth less than it costs at the only agent, which takes none for a while, is told so then,
// as one is that has another agent.
func TestWithTheOnlyAgentAwayATaskIsToldWhenItIsWorthNothing(t *testing.T) {
	e := newEngines(t, nil)
	e.join("cheap", "llama", 4, 0.9, card(1, 1, 4))
	e.lets(time.Second)
	e.sick["cheap"] = bus.StateUnhealthy
	e.beats()
	e.ask("ann", func(m *bus.Task) {
		m.Terms = bus.Terms{Worth: new(market.Credit / 500), Delta: new(0.5), PatienceMS: new(int64(5000))}
		m.DeadlineMS = e.now.Add(40 * time.Second).UnixMilli()
	})
	from, answer := e.now, func() string { return e.answerTo("inbox.ann.t1") }
	for answer() == "" && e.now.Sub(from) < 50*time.Second {
		e.lets(100 * time.Millisecond)
	}
	if after := e.now.Sub(from); answer() != string(bus.CodeNotWorthIt) || after > 21*time.Second {
		t.Errorf("after %v it is told %q: %s", after, answer(), e.told("ann.t1").Message)
	}
}

// Who is left out of a round, as it can hold no more, does not wait beside slots that stay free: another
// round follows.
func TestWhoIsBeyondARoundDoesNotWaitBesideFreeSlots(t *testing.T) {
	h := crowdHouse(t, 4096, func(c *hub.Config) { c.Silence = time.Hour })
	h.busy("a-1", "llama", 1)
	for i := range 3000 {
		client := fmt.Sprint("c", i)
		h.prepaid[client] = 1000 * market.Credit
		h.must(h.step(h.task(client, "t")))
	}
	h.leave("a-1")
	h.join("a-2", "llama", 4000, 0.9, card(1, 1, 4))
	h.pass(10 * time.Millisecond)
	h.pass(100 * time.Millisecond)
	h.pass(500 * time.Millisecond)
	if waiting, free := h.n.Stats().Waiting, h.n.FreeSlots(); waiting > 0 && free > 0 {
		t.Errorf("%d rounds; %d wait beside %d slots that are free", h.n.Stats().Rounds, waiting, free)
	}
}
