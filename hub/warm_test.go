package hub_test

import (
	"testing"
	"time"

	"souk/bus"
	"souk/hub"
	"souk/market"
)

// What the hub itself asks, to prewarm an idle agent, lowers no forecast of it, however fast it is answered.
func TestPrewarmingLowersNoForecast(t *testing.T) {
	for _, fast := range []bool{false, true} {
		h, ds := prewarming(t, "", nil)
		if len(ds) != 2 {
			t.Fatalf("dispatched: %+v", ds)
		}
		before := h.n.Forecast("a-2", hub.Typical).TTFT
		h.accept(ds[1])
		c := completion("a-2", ds[1], market.Usage{Prompt: 1600, Output: 1})
		if c.TTFTUS = 500_000; fast {
			c.TTFTUS = 1
		}
		h.pass(time.Second)
		h.must(h.step(c))
		after := h.n.Forecast("a-2", hub.Typical).TTFT
		if fast && after < before || !fast && after <= before {
			t.Errorf("fast %v: %v, and before %v", fast, after, before)
		}
	}
}

// The first task after an engine was started again finds it cold: it counts half, whether the agent says that
// its engine has begun a new life, or was started anew with it.
func TestTheFirstTaskOfAColdEngine(t *testing.T) {
	after := func(restart func(h *house)) time.Duration {
		h := newHouse(t, nil)
		h.join("a-1", "llama", 1, 0.9, card(1, 1, 4))
		boot, seq := int64(1), uint64(1<<40)
		serve := func(id string, ttft time.Duration) {
			h.must(h.step(h.task("ann", id)))
			d := h.take("ann", id)
			h.accept(d)
			h.pass(400 * time.Millisecond)
			seq++
			h.must(h.step(&bus.Summary{Agent: "a-1", Boot: boot, Seq: seq, State: bus.StateReady, Slots: 1,
				InFlight: 1, Price: card(1, 1, 4)}))
			c := completion("a-1", d, market.Usage{Prompt: 100, Output: 10})
			c.TTFTUS, c.Boot = ttft.Microseconds(), boot
			h.must(h.step(c))
		}
		for i := range 20 {
			serve(string(rune('a'+i)), 50*time.Millisecond)
		}
		if restart != nil {
			restart(h)
			boot = h.agents["a-1"].Boot
		}
		serve("cold", 300*time.Millisecond)
		return h.n.Forecast("a-1", hub.Typical).TTFT
	}
	life := func(n uint64) func(h *house) {
		return func(h *house) {
			for life := range n {
				h.must(h.step(&bus.Holdings{Agent: "a-1", Boot: 1, Life: 1 + life, Seq: 1 + life,
					Base:  1 + life,
					Parts: 1, Evidence: bus.EvidenceEvents}))
			}
		}
	}
	warm, said := after(nil), after(life(1))
	cold := after(life(2))
	booted := after(func(h *house) {
		reg := registration("a-1", "llama", 1, 0.9, card(1, 1, 4))
		reg.Boot = 2
		h.must(h.register(reg))
	})
	if warm != said || cold >= warm || booted != cold {
		t.Errorf("%v are expected after a slow answer, %v where the engine's life was said before it, %v "+
			"after a new "+
			"life, and %v after a new boot", warm, said, cold, booted)
	}
}
