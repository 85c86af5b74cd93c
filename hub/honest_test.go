package hub_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"souk/bus"
	"souk/hub"
	"souk/hub/regime"
	"souk/ledger"
	"souk/market"
)

// The audit finds nothing in what an honest hub wrote, whatever happened to it: restarts, standbys that take
// over, idle days, a clock that was set back, agents that come and go, bursts of which half is cancelled,
// under any policy, regime and pricing. Where frames are lost no round that is left is accused of its prices.
func TestNoHonestJournalIsAccused(t *testing.T) {
	lost, tolls, posted := 0, 0, 0
	for range 20 {
		seed := rand.Uint64()
		rng := rand.New(rand.NewPCG(seed, 23))
		h := eventful(t, seed, rng)
		if found := h.findings(ledger.MaxLevel); len(found) > 0 {
			t.Fatalf("seed %d: the audit finds %v", seed, found[0])
		}
		for range 4 {
			frames := slices.Clone(h.frames)
			for range rng.IntN(3) {
				at := rng.IntN(len(frames))
				frames = slices.Delete(frames, at, at+1)
			}
			wrong, unchecked := auctions(t, frames, frames[rng.IntN(len(frames))].Seq, rng.IntN(2) == 0)
			if len(wrong) > 0 {
				t.Fatalf("seed %d: of %d frames %d are left, and honest ones are accused: %v", seed,
					len(h.frames), len(frames)-1, wrong)
			}
			lost += len(unchecked)
		}
		for i := range h.frames {
			for _, rec := range h.frames[i].Records {
				if r := rec.Round; r != nil {
					if r.Round.Rule.Pricing == market.PricingPosted {
						posted++
					}
					if slices.ContainsFunc(r.Ground.Loads, func(l market.Load) bool { return l.Second > 0 }) {
						tolls++
					}
				}
			}
		}
	}
	t.Logf("%d rounds where slots cost something, %d at posted prices; %d times some were not checked", tolls,
		posted, lost)
	if lost == 0 || tolls == 0 {
		t.Error("the test sees nothing")
	}
}

// eventful is a house after some minutes, or days.
func eventful(t *testing.T, seed uint64, rng *rand.Rand) *house {
	h := crowdedHouse(t, seed, func(c *hub.Config) {
		c.Silence, c.Batch.Eager = time.Hour, rng.IntN(2) == 0
		c.Settle = []string{market.SettleMetered, market.SettleQuoted}[rng.IntN(2)]
		c.Policies.Place = []string{"", "fair", "pd"}[rng.IntN(3)]
		if rng.IntN(2) == 0 {
			c.Regime = regime.Params{Temperature: 4 * rng.Float64(), Overlap: rng.Float64()}
		}
		if rng.IntN(4) == 0 {
			c.Rule.Pricing, c.Rule.Tariffs = market.PricingPosted, map[string]market.Credits{"llama": 3000}
		}
	})
	seconds := func(most int) time.Duration { return time.Duration(rng.IntN(most)) * time.Second }
	for n := range 20 {
		name := fmt.Sprint("part", n)
		h.crowd(rng, name, 5+rng.IntN(20))
		switch rng.IntN(8) {
		case 0:
			h.pass(24 * time.Hour)
		case 1:
			h.pass(seconds(45))
		case 2:
			h.now = h.now.Add(-seconds(60))
		case 3, 4:
			if rng.IntN(2) == 0 {
				h.now = h.now.Add(-seconds(60))
			}
			h.takeover(rng.IntN(len(h.frames)), int64(8+n))
			for _, d := range h.dispatched {
				if _, open := h.n.Book().Hold(d.Hold); open && rng.IntN(2) == 0 {
					h.ends(d)
				}
			}
			h.dispatched = nil
		case 5:
			h.leave(fmt.Sprint("a-", rng.IntN(3)))
		case 6:
			h.join(fmt.Sprint("late-", rng.IntN(3)), "llama", 1+rng.IntN(3), 0.6+rng.Float64()/4,
				card(1, 1, 4))
		case 7:
			for k := range 30 {
				_ = h.step(h.task(fmt.Sprint("c", k%4), fmt.Sprint(name, "-burst-", k), crowdTerms(rng)))
			}
			h.pass(20 * time.Millisecond)
			for k := range 15 {
				who := fmt.Sprint("c", k%4)
				_ = h.step(&bus.Cancel{Client: who, Sender: who, Task: fmt.Sprint(name, "-burst-", k)})
			}
		}
	}
	return h
}
