package market

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"souk/bus/bustest/golden"
)

// goldenRounds are always the same: small and large, with ties, seats to come, tolls, fees, several tasks of
// a client, and posted prices among them.
func goldenRounds() []Round {
	rng := rand.New(rand.NewPCG(20, 26))
	rounds := make([]Round, 400)
	for n := range rounds {
		tasks, agents, scale := 1+rng.IntN(40), 1+rng.IntN(12), []int64{3, 50, 1 << 40}[n%3]
		r := Round{Domain: "math", Number: uint64(n + 1), Fee: Credits(rng.Int64N(1 + scale/8)),
			Rule: Rule{Pricing: PricingVCG, Settle: SettleMetered,
				Clarke: []string{ClarkeTask, ClarkeClient}[n%2]}}
		if n%20 == 9 {
			r.Rule.Pricing = PricingPosted
		}
		for j := range tasks {
			r.Tasks = append(r.Tasks, Task{ID: TaskID(fmt.Sprintf("c%d/t%02d", j%7, j)),
				Client: fmt.Sprint("c", j%7), Second: Credits(rng.Int64N(1 + scale/4))})
		}
		for i := range agents {
			s := Supply{Agent: AgentID(fmt.Sprintf("a%02d", i))}
			for k := range 1 + rng.IntN(4) {
				s.Seats = append(s.Seats, Seat{1 + rng.IntN(3), time.Duration(k) * 300 * time.Millisecond,
					k > 0 && r.Rule.Pricing != PricingPosted})
			}
			r.Agents = append(r.Agents, s)
		}
		for j := range tasks {
			for i := range agents {
				if rng.IntN(4) > 0 {
					toll := rng.Int64N(1 + scale/6)
					r.Edges = append(r.Edges,
						Edge{j, i, Credits(rng.Int64N(scale + 1)), Credits(rng.Int64N(1 + scale/4)),
							Credits(-toll), Credits(rng.Int64N(1 + toll))})
				}
			}
		}
		r.Sort()
		rounds[n] = r
	}
	return rounds
}

// The record of a round has the same bytes on every machine, however many of its processors clear it.
// `make arm64` runs the same test on another architecture.
func TestSameBytesOnEveryMachine(t *testing.T) {
	rounds := goldenRounds()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, procs := range []int{1, 8} {
		runtime.GOMAXPROCS(procs)
		parts := make([][]byte, len(rounds))
		var wg sync.WaitGroup
		for first := range 8 {
			wg.Go(func() {
				for n := first; n < len(rounds); n += 8 {
					r := rounds[n]
					o, err := Clear(r)
					if err != nil {
						t.Error(err)
						return
					}
					if err := Check(r, o); err != nil {
						t.Error(err)
					}
					parts[n] = o.AppendCanonical(r.AppendCanonical(nil))
				}
			})
		}
		wg.Wait()
		h := sha256.New()
		for _, p := range parts {
			h.Write(p)
		}
		golden.Check(t, "rounds", fmt.Sprintf("%x", h.Sum(nil)))
	}
}

// So are rounds that were cut: what is left, what one more slot would have added, and how it clears.
func TestSameCutsOnEveryMachine(t *testing.T) {
	h := sha256.New()
	var c Cutter
	for _, r := range goldenRounds() {
		k, err := c.Cut(&r, keepsOf(nil, &r), FullShare/3, nil, 3, nil)
		switch isPosted := r.Rule.Pricing == PricingPosted; {
		case isPosted != (err != nil):
			t.Fatal(err)
		case !isPosted:
			fmt.Fprintln(h, k.Wants, k.At)
		}
		o, err := Clear(r)
		if err != nil {
			t.Fatal(err)
		}
		h.Write(o.AppendCanonical(r.AppendCanonical(nil)))
	}
	golden.Check(t, "cuts", fmt.Sprintf("%x", h.Sum(nil)))
}

// So are amounts that floats became, on machines that fuse a product into a sum and on those that do not.
func TestSameAmountsOnEveryMachine(t *testing.T) {
	rng := rand.New(rand.NewPCG(20, 27))
	h := sha256.New()
	for range 50_000 {
		terms := Terms{Worth: Credits(rng.Int64N(int64(MaxWorth) >> rng.IntN(50))), Delta: rng.Float64(),
			Patience: 1 + time.Duration(rng.Int64N(int64(time.Minute)))}
		value := terms.Value(Quote{TTFT: time.Duration(rng.Int64N(int64(time.Minute))),
			Quality: rng.Float64()})
		amount, err := Quantise((rng.Float64() - 0.5) * float64(int64(1)<<rng.IntN(20)))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(h, int64(value), int64(amount))
	}
	golden.Check(t, "amounts", fmt.Sprintf("%x", h.Sum(nil)))
}
