package round

import (
	"math"
	"math/rand/v2"
	"testing"

	"souk/market"
)

// Who says nothing, or the same, differs in nothing; who is dearer by turns does, whatever the unit of money.
// What one says has no weight but among those who began lately.
func TestSpread(t *testing.T) {
	learn := func(seconds ...market.Credits) float64 {
		var s Spread
		for _, x := range seconds {
			s.Learn(x)
		}
		return s.Of()
	}
	repeat := func(n int, of ...market.Credits) (all []market.Credits) {
		for range n {
			all = append(all, of...)
		}
		return all
	}
	for _, c := range []struct {
		name        string
		seconds     []market.Credits
		least, most float64
	}{
		{"nobody", nil, 0, 0},
		{"nothing", repeat(100, 0), 0, 0},
		{"the same", repeat(100, 7), 0, 0},
		{"by turns", repeat(1000, 100, 300), 0.45, 0.55}, // 200 in every second one, of 200
		{"a hundred times as dear, once", append(repeat(100, 7), 700), 0.1, 1},
		{"whatever one says", append(repeat(100, 7), 1<<62), 0.1, 0.13},
		{"whatever one said, long ago", append(append(repeat(100, 7), 1<<62), repeat(500, 7)...), 0, 1e-3},
		{"that, and long ago", append(append(repeat(100, 7), 700), repeat(1000, 7)...), 0, 1e-3},
	} {
		if got := learn(c.seconds...); got < c.least || got > c.most || math.IsNaN(got) {
			t.Errorf("%s: %v, want %v to %v", c.name, got, c.least, c.most)
		}
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	var some, scaled []market.Credits
	for range 300 {
		x := market.Credits(rng.Int64N(1e6))
		some, scaled = append(some, x), append(scaled, 1000*x)
	}
	if a, b := learn(some...), learn(scaled...); a <= 0 || a > 1 || math.Abs(a-b) > 1e-9 {
		t.Errorf("in other money %v, and not %v", b, a)
	}
}
