package hub_test

import (
	"fmt"
	"testing"
	"time"

	"souk/bus"
	"souk/market"
)

// stays returns for how long a task of a class is expected to keep a slot by itself, after eve's had one
// beside a prompt of ann's: one that goes on from what the agent holds, or a new one.
func stays(t *testing.T, cold bool) time.Duration {
	h := newHouse(t, nil)
	h.prepaid["eve"] = 100 * market.Credit
	h.join("a-1", "llama", 4, 0.9, card(4, 2, 4))
	for i := range 12 {
		h.must(h.step(h.task("ann", fmt.Sprint("first", i), text(4000, 1))))
		c := completion("a-1", h.dispatched[0], market.Usage{Prompt: 4000, Output: 10})
		h.accept(h.dispatched[0])
		h.dispatched = h.dispatched[1:]
		h.pass(400 * time.Millisecond)
		c.TTFTUS = 400_000
		h.must(h.step(c))
	}
	h.must(h.step(h.task("ann", "secret", func(m *bus.Task) {
		pieces := []uint64{1, 2}
		if cold {
			pieces = []uint64{3, 4}
		}
		text(4200, pieces...)(m)
	})))
	h.accept(h.dispatched[0])
	h.dispatched = h.dispatched[1:]
	h.must(h.summary("a-1", func(m *bus.Summary) { m.InFlight, m.Prefills = 1, 1 }))
	h.pass(time.Millisecond)
	h.must(h.step(h.task("eve", "t1", text(100, 9))))
	d := h.dispatched[0]
	h.accept(d)
	h.pass(2 * time.Second)
	c := completion("a-1", d, market.Usage{})
	c.Outcome, c.Code, c.Finish, c.TTFTUS, c.ITLUS = bus.OutcomeCancelled, bus.CodeCancelled, "", 0, 0
	h.must(h.step(c))
	return h.n.Own("a-1")
}

// Of a prompt that another has in hand the stays beside it do not tell how much of it was cached.
func TestStaysTellNothingOfWhatIsInHand(t *testing.T) {
	warm, cold := stays(t, false), stays(t, true)
	if warm != cold {
		t.Errorf("a task keeps a slot for %v after a prompt that was cached, and %v after one that was not", warm,
			cold)
	}
}
