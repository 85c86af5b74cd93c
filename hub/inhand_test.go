package hub_test

import (
	"testing"
	"time"

	"souk/bus"
	"souk/hub"
	"souk/market"
)

// A task came when an agent was cheap enough, and had no slot. That it has slots now, and asks more than they
// are worth to the task, is what the task is told, at once.
func TestAFreeSlotThatIsNotWorthItsCostIsSaidToBeFree(t *testing.T) {
	h := newHouse(t, func(c *hub.Config) { c.Silence, c.Deadline = time.Hour, 10*time.Second })
	h.join("a-1", "llama", 1, 0.9, card(1, 1, 4))
	h.must(h.step(h.task("ann", "t1")))
	h.must(h.step(h.task("bob", "t2", worth(market.Credit/100))))
	h.must(h.step(&bus.Summary{Agent: "a-1", Boot: 1, Seq: 1, State: bus.StateReady, Slots: 1, InFlight: 1,
		Price: card(1000, 1000, 4000)}))
	h.serve(h.take("ann", "t1"), market.Usage{Prompt: 100, Output: 10})
	h.want("inbox.bob.t2", string(bus.CodeNotWorthIt))
}
