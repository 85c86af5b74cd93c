package congest

import (
	"crypto/sha256"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"souk/bus/bustest/golden"
	"souk/market"
)

// Whatever was measured, the charge starts at nothing, rises, stays below the price of one answer, and covers
// the slots.
func TestTiersRiseFromNothing(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	several := 0
	for range 3000 {
		var c Line
		for range rng.IntN(50) {
			c.Learn(float64(rng.IntN(64))/2, math.Exp(40*rng.Float64()-10), rng.IntN(1<<rng.IntN(20)))
		}
		slots, out := 1+rng.IntN(1<<rng.IntN(17)),
			market.Credits(rng.Int64N(int64(market.MaxPrice)>>rng.IntN(50)+1))
		tiers := c.Tiers(slots, out)
		n, err := market.ValidateTiers(tiers)
		if err != nil || n != slots || tiers[0].Toll != 0 || len(tiers) > 18 {
			t.Fatalf("%d slots: %v: %d, %v", slots, tiers, n, err)
		}
		several += len(tiers)
		if most := c.Output() * float64(out) / 1e6; float64(-tiers[len(tiers)-1].Toll) > most+1 {
			t.Fatalf("%v: an answer is %v nano-credits", tiers, most)
		}
	}
	if several < 6000 {
		t.Errorf("%d tiers in 3000 draws: the test sees little", several)
	}
}

// A server that nobody has measured is taken for the median of those that were.
func TestUnmeasuredTiers(t *testing.T) {
	var c Line
	got := c.Tiers(8, 600*market.Credit/1000) // 0.6 credits per million tokens
	// 128 tokens cost 76,800 nano-credits; of these 0.023/1.023, 0.046/1.046 and 0.092/1.092.
	want := []market.Tier{{Slots: 1}, {Slots: 1, Toll: -1727}, {Slots: 2, Toll: -3377},
		{Slots: 4, Toll: -6470}}
	if len(got) != len(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	for k := range want {
		if got[k] != want[k] {
			t.Errorf("tier %d: %v, want %v", k, got[k], want[k])
		}
	}
	if free := c.Tiers(8, 0); len(free) != 1 || free[0] != (market.Tier{Slots: 8}) {
		t.Errorf("an agent that gives its answers away charges %v", free)
	}
}

// A line is found through noise, and a new engine's after the old one's.
func TestLearnsHowLoadSlowsAnEngine(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 2))
	var c Line
	for _, slope := range []float64{0.05, 0.009, 0, 0.2} {
		for range 3000 {
			x := float64(rng.IntN(32)) / 2
			c.Learn(x, 12_000*(1+slope*x)*(1+0.1*(2*rng.Float64()-1)), 200)
		}
		if got := c.Slope(); math.Abs(got-slope) > 0.01+slope/10 {
			t.Errorf("slope %v, want %v", got, slope)
		}
	}
	got, want := charge(c.Slope(), c.Output(), 10, market.Credit), 2.0/3*200*1000
	if math.Abs(float64(got)-want) > want/20 {
		t.Errorf("ten beside it at 0.2: charge %d, want about %v", got, want)
	}
	// Where all tasks meet the same company, the prior says which part of their ITL is due to it.
	same := Line{}
	for range 3000 {
		same.Learn(7, 14_000, 200)
	}
	if got := same.Slope(); math.Abs(got-priorSlope) > 1e-6 {
		t.Errorf("slope %v without any variation", got)
	}
}

// What was measured gives the same charges on every machine.
func TestSameTiersOnEveryMachine(t *testing.T) {
	rng := rand.New(rand.NewPCG(20, 30))
	h := sha256.New()
	for range 50 {
		var c Line
		for range 100 {
			c.Learn(float64(rng.IntN(32))/2, float64(1+rng.Int64N(100_000)), rng.IntN(2000))
			fmt.Fprintf(h, "%x", c.Slope())
			fmt.Fprintln(h, c.Tiers(64, market.Credits(rng.Int64N(int64(market.Credit)))))
		}
	}
	golden.Check(t, "tiers", fmt.Sprintf("%x", h.Sum(nil)))
}
