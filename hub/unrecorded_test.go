package hub

import (
	"testing"
	"time"

	"souk/bus"
	"souk/market"
)

// A round that cannot be recorded is a fault, and is not held again and again in the same moment.
func TestARoundThatCannotBeRecordedIsHeldOnce(t *testing.T) {
	h := newHouse(t, func(c *Config) { c.Seed.Every = 0 })
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
	x := h.n.known[taskKey{"ann", "t1"}]
	h.n.returnAbove("ann", 0)
	h.n.lookup("a-1").price = card(20_000, 20_000, 20_000) // dearer than what was reserved
	x.reserved, x.notes = market.MaxWorth, nil
	h.n.lookup("a-1").kind = nil
	h.run()
	if solves != 1 || len(h.faults) != 1 || h.n.waiting != 1 {
		t.Errorf("%d rounds, %d faults, %d wait", solves, len(h.faults), h.n.waiting)
	}
}
