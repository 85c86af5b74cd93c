package hub_test

import (
	"slices"
	"testing"
	"time"

	"souk/hub"
)

// Where nothing happens any more, nobody waits for long beside a slot that it would be given if a round were
// held: prices fall by themselves, and what seats to come are worth by waiting.
func TestNobodyWaitsBesideASlotThatItWouldTake(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	quiet := func(c *hub.Config) { c.Silence, c.Suspect = time.Hour, time.Hour } // nobody need say anything
	// awards is when rounds were held for so long; looked, whether one is held if all are looked at then.
	awards := func(h *house, long time.Duration) (at []time.Duration, looked bool) {
		from, rounds := h.now, h.n.Stats().Rounds
		for h.now.Sub(from) < long {
			h.pass(min(from.Add(long).Sub(h.now), max(time.Microsecond, h.wake.Sub(h.now))))
			if h.n.Stats().Rounds > rounds {
				at, rounds = append(at, h.now.Sub(from)), h.n.Stats().Rounds
			}
		}
		h.n.Wake()
		h.run()
		return at, h.n.Stats().Rounds > rounds
	}
	beside := 0
	for seed := range uint64(300) {
		long := time.Duration(300+seed%12*1000) * time.Millisecond
		h := crowdedHouse(t, seed, quiet)
		_, looked := awards(h, long)
		if h.n.Stats().Waiting > 0 && h.n.FreeSlots() > 0 {
			beside++
		}
		if !looked {
			continue
		}
		at, _ := awards(crowdedHouse(t, seed, quiet), long+hub.Again+h10ms)
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
