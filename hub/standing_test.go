package hub

import (
	"testing"
	"time"

	"souk/bus"
	"souk/market"
)

// Whoever finds every free slot dear was outbid by nobody, also where others got slots of the same round, and
// whatever the pricing: it is told what kept it from them.
func TestWhoFindsAllDearIsNotOutbid(t *testing.T) {
	for _, pricing := range []string{market.PricingVCG, market.PricingPosted} {
		h := newHouse(t, func(c *Config) {
			c.Pricing, c.Batch.Eager, c.Crowd.Waiting = pricing, false, false
			c.Crowd.Age = 0
		})
		h.joinTiers("a-1", 0.9, market.Tier{Slots: 1}, market.Tier{Slots: 2, Toll: -market.Credit / 10})
		h.must(h.step(h.task("ann", "first")))
		h.pass(20 * time.Millisecond)
		h.accept(h.take("ann", "first"))
		deadline := func(m *bus.Task) { m.DeadlineMS = h.now.Add(time.Second).UnixMilli() }
		h.must(h.n.Step(h.now, h.task("ann", "rich", worth(market.Credit))))
		h.must(h.n.Step(h.now, h.task("bob", "poor", worth(market.Credit/20), deadline)))
		h.pass(20 * time.Millisecond)
		if h.running() != "ann/rich>a-1" || h.n.freeSlots(1) != 1 {
			t.Fatalf("%s: dispatched: %s, %d slots free", pricing, h.running(), h.n.freeSlots(1))
		}
		h.pass(2 * time.Second)
		h.want("inbox.bob.poor", string(bus.CodeNotWorthIt))
	}
}
