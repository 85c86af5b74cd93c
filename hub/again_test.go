package hub

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// Where nothing happens any more, nobody stands for more than a second beside a slot that it would take if it
// were looked at, whether tolls, seats or what it was worth to wait kept it from that before.
func TestNobodyStandsBesideASlotThatItWouldTake(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	// awards is when rounds were held for so long; looked, whether one is held if all are looked at then.
	awards := func(h *house, long time.Duration) (at []time.Duration, looked bool) {
		h.n.cfg.Silence, h.n.cfg.Suspect = time.Hour, time.Hour
		for _, a := range h.n.roster {
			a.silentFrom = h.n.at(time.Hour)
		}
		from, rounds := h.now, h.n.stats.Rounds
		for h.now.Sub(from) < long {
			h.pass(min(from.Add(long).Sub(h.now), max(time.Microsecond, h.wake.Sub(h.now))))
			if h.n.stats.Rounds > rounds {
				at, rounds = append(at, h.now.Sub(from)), h.n.stats.Rounds
			}
		}
		h.n.news()
		h.run()
		return at, h.n.stats.Rounds > rounds
	}
	for name, house := range map[string]func(seed uint64) *house{
		"full agents": func(seed uint64) *house { return crowdedHouse(t, seed) },
		"seats":       func(seed uint64) *house { return burst(t, rand.New(rand.NewPCG(seed, 3))) },
	} {
		soon := 0
		for seed := range uint64(300) {
			long := time.Duration(300+seed%12*1000) * time.Millisecond
			_, looked := awards(house(seed), long)
			if !looked {
				continue
			}
			at, _ := awards(house(seed), long+tollsFade+lookAgain)
			if !slices.ContainsFunc(at, func(d time.Duration) bool { return d >= long }) {
				t.Errorf("%s, seed %d: after %v one who waits would begin, and is not looked at for a second",
					name, seed, long)
			}
			soon++
		}
		if soon == 0 {
			t.Errorf("%s: nobody would begin: the test sees nothing", name)
		}
	}
}
