package hub

import (
	"slices"
	"testing"
	"time"
)

// Where nothing happens any more, nobody waits for long beside a slot that it would be given if a round were
// held: prices fall by themselves, and what seats to come are worth by waiting.
func TestNobodyWaitsBesideASlotThatItWouldTake(t *testing.T) {
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
	beside := 0
	for seed := range uint64(300) {
		long := time.Duration(300+seed%12*1000) * time.Millisecond
		h := crowdedHouse(t, seed)
		_, looked := awards(h, long)
		if h.n.waiting > 0 && h.n.freeSlots(1) > 0 {
			beside++
		}
		if !looked {
			continue
		}
		at, _ := awards(crowdedHouse(t, seed), long+again+h10ms)
		if !slices.ContainsFunc(at, func(d time.Duration) bool { return d >= long }) {
			t.Errorf("seed %d: after %v one who waits would begin, and is not looked at", seed, long)
		}
	}
	if beside == 0 {
		t.Error("nobody waits beside a free slot: the test sees nothing")
	}
}

// h10ms is within what a batch waits for others to come.
const h10ms = 10 * time.Millisecond
