package sage

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// Of one class half the sessions come back, after some ten seconds; of another all, after a minute. What is
// learned says so, and less and less of the first the longer one stays away.
func TestSharesLearnWhoComesBack(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 8))
	x := NewShares(3)
	if x.Known() || x.Of(1, 0) != 0 {
		t.Error("who has seen nothing knows something")
	}
	for range 4000 {
		if rng.IntN(2) == 0 {
			pause := time.Duration(10e9 * math.Exp(0.3*rng.NormFloat64()))
			x.Returned(0, 0, pause)
		} else {
			x.Waited(0, 0, time.Hour)
		}
		pause := time.Duration(60e9 * math.Exp(0.3*rng.NormFloat64()))
		x.Returned(1, x.Waited(1, 0, pause/2), pause)
	}
	x.fit()
	for _, c := range []struct {
		class       int
		idle        time.Duration
		least, most float64
	}{
		{0, 0, 0.45, 0.58}, {0, 6 * time.Second, 0.4, 0.58}, {0, 40 * time.Second, 0, 0.1},
		{1, 0, 0.97, 1}, {1, 50 * time.Second, 0.95, 1}, {1, 100 * time.Hour, 0, 0},
		{2, 0, 0.5, 0.95}, // of which nothing was seen: as all
	} {
		if got := x.Of(c.class, c.idle); got < c.least || got > c.most {
			t.Errorf("class %d, idle for %v: %.3f, want %v to %v", c.class, c.idle, got, c.least, c.most)
		}
	}
}
