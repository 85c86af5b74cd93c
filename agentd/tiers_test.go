package agentd

import (
	"crypto/sha256"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

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
		var c congestion
		for range rng.IntN(50) {
			c.learn(float64(rng.IntN(64))/2, math.Exp(40*rng.Float64()-10), rng.IntN(1<<rng.IntN(20)))
		}
		slots, out := 1+rng.IntN(1<<rng.IntN(17)),
			market.Credits(rng.Int64N(int64(market.MaxPrice)>>rng.IntN(50)+1))
		tiers := c.tiers(slots, out)
		n, err := market.ValidateTiers(tiers)
		if err != nil || n != slots || tiers[0].Toll != 0 || len(tiers) > 18 {
			t.Fatalf("%d slots: %v: %d, %v", slots, tiers, n, err)
		}
		several += len(tiers)
		answer := float64(priorOutput)
		if c.output.n > 0 {
			answer = c.output.x
		}
		if most := answer * float64(out) / 1e6; float64(-tiers[len(tiers)-1].Toll) > most+1 {
			t.Fatalf("%v: an answer is %v nano-credits", tiers, most)
		}
	}
	if several < 6000 {
		t.Errorf("%d tiers in 3000 draws: the test sees little", several)
	}
}

// A server that nobody has measured is taken for the median of those that were.
func TestUnmeasuredTiers(t *testing.T) {
	var c congestion
	got := c.tiers(8, 600*market.Credit/1000) // 0.6 credits per million tokens
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
	if free := c.tiers(8, 0); len(free) != 1 || free[0] != (market.Tier{Slots: 8}) {
		t.Errorf("an agent that gives its answers away charges %v", free)
	}
}

// A line is found through noise, and a new engine's after the old one's.
func TestLearnsHowLoadSlowsAnEngine(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 2))
	var c congestion
	for _, slope := range []float64{0.05, 0.009, 0, 0.2} {
		for range 3000 {
			x := float64(rng.IntN(32)) / 2
			c.learn(x, 12_000*(1+slope*x)*(1+0.1*(2*rng.Float64()-1)), 200)
		}
		if got := c.slope(); math.Abs(got-slope) > 0.01+slope/10 {
			t.Errorf("slope %v, want %v", got, slope)
		}
	}
	if got, want := c.charge(10, market.Credit), 2.0/3*200*1000; math.Abs(float64(got)-want) > want/20 {
		t.Errorf("ten beside it at 0.2: charge %d, want about %v", got, want)
	}
	// Where all tasks meet the same company, the prior says which part of their ITL is due to it.
	same := congestion{}
	for range 3000 {
		same.learn(7, 14_000, 200)
	}
	if got := same.slope(); math.Abs(got-priorSlope) > 1e-6 {
		t.Errorf("slope %v without any variation", got)
	}
}

// Configured tiers win over measured ones.
func TestConfiguredTiers(t *testing.T) {
	cfg := oneAgent("a1", 3)
	cfg.Tiers = []market.Tier{{Slots: 2}, {Slots: 1, Toll: -5}}
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	a := NewAgent(cfg, Config{}, Info{Models: []string{"tiny"}}, 7)
	a.Claimed(claim(5))
	s := a.Ready(begun).Summary
	if r := a.Registration("n"); len(r.Tiers) != 2 || r.Tiers[1].Toll != -5 || len(s.Tiers) != 2 ||
		s.Tiers[1].Toll != -5 {
		t.Errorf("registered %v, summary %v", r.Tiers, s.Tiers)
	}
}

// What ran beside a task is counted, and of tasks that were served.
func TestCompanyIsCounted(t *testing.T) {
	a := newTestAgent(4, Config{})
	a.Claimed(claim(5))
	for _, h := range []string{"x", "y", "z"} {
		a.Dispatch("math", dispatch(h))
	}
	ended := func(hold string, itl int64) {
		d := dispatch(hold)
		e := a.Begin(d).End(Answer{Finish: "stop", Usage: market.Usage{Prompt: 50, Output: 10}}, nil)
		e.Completion.ITLUS = itl
		a.Ended(d, &e)
	}
	ended("z", 1000) // began beside two, ended beside two
	if n := a.congest.n - priorWeight*keepSlope; math.Abs(n-1) > 1e-9 ||
		math.Abs(a.congest.x-(8*priorWeight/2*keepSlope+2)) > 1e-9 {
		t.Errorf("%+v", a.congest)
	}
	ended("x", 1000) // began alone, ended beside one
	if want := (8*priorWeight/2*keepSlope+2)*keepSlope + 0.5; math.Abs(a.congest.x-want) > 1e-9 {
		t.Errorf("others sum to %v, want %v", a.congest.x, want)
	}
	before := a.congest
	d := dispatch("y")
	e := a.Begin(d).End(Answer{}, ErrTimeout)
	e.Completion.ITLUS = 1e9
	a.Ended(d, &e)
	if a.congest != before {
		t.Error("a failed task was taken for how fast the engine is")
	}
}

// What was measured gives the same charges on every machine.
func TestSameTiersOnEveryMachine(t *testing.T) {
	const want = "8fb237557e791bd4f103ca1910b286943c866738f19b04db595aed7c370c3250"
	rng := rand.New(rand.NewPCG(20, 30))
	h := sha256.New()
	for range 50 {
		var c congestion
		for range 100 {
			c.learn(float64(rng.IntN(32))/2, float64(1+rng.Int64N(100_000)), rng.IntN(2000))
			fmt.Fprintf(h, "%x", c.slope())
			fmt.Fprintln(h, c.tiers(64, market.Credits(rng.Int64N(int64(market.Credit)))))
		}
	}
	if got := fmt.Sprintf("%x", h.Sum(nil)); got != want {
		t.Errorf("%s: tiers hash to %s, want %s", runtime.GOARCH, got, want)
	}
}
