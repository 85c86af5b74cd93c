package market

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
)

// goldenRounds are always the same: small and large, with ties, tiers, tolls, fees, several tasks of a
// client, and bundles and posted prices among them.
func goldenRounds() []Round {
	rng := rand.New(rand.NewPCG(20, 26))
	rounds := make([]Round, 400)
	for n := range rounds {
		tasks, agents, scale := 1+rng.IntN(40), 1+rng.IntN(12), []int64{3, 50, 1 << 40}[n%3]
		if n%20 == 4 {
			tasks, agents = 4+rng.IntN(4), 1+rng.IntN(3)
		}
		r := Round{Domain: "math", Number: uint64(n + 1), Fee: Credits(rng.Int64N(1 + scale/8)),
			Rule: Rule{Pricing: PricingVCG, Settle: SettleMetered,
				Clarke: []string{ClarkeTask, ClarkeClient}[n%2]}}
		if n%20 == 9 {
			r.Rule.Pricing = PricingPosted
		}
		for j := range tasks {
			r.Tasks = append(r.Tasks, Task{ID: TaskID(fmt.Sprintf("c%d/t%02d", j%7, j)),
				Client: fmt.Sprint("c", j%7)})
		}
		for i := range agents {
			s := Supply{Agent: AgentID(fmt.Sprintf("a%02d", i))}
			for k := range 1 + rng.IntN(4) {
				s.Tiers = append(s.Tiers, Tier{1 + rng.IntN(3), Credits(-int64(k) * (1 + scale/10))})
			}
			r.Agents = append(r.Agents, s)
		}
		for j := range tasks {
			for i := range agents {
				if rng.IntN(4) > 0 {
					r.Edges = append(r.Edges,
						Edge{j, i, Credits(rng.Int64N(scale + 1)), Credits(rng.Int64N(1 + scale/4)),
							Credits(-rng.Int64N(1 + scale/6))})
				}
			}
		}
		first, third := r.Tasks[0].ID, r.Tasks[min(2, tasks-1)].ID
		r.Sort()
		if n%20 == 4 {
			at := func(id TaskID) int {
				return slices.IndexFunc(r.Tasks,
					func(t Task) bool { return t.ID == id })
			}
			r.Rule.Clarke, r.Bundles = ClarkeTask, []Bundle{{Tasks: []int{min(at(first), at(third)),
				max(at(first), at(third))}}}
		}
		rounds[n] = r
	}
	return rounds
}

// The record of a round has the same bytes on every machine, however many of its processors clear it. The
// hash was made once; `make arm64` runs the same test on another architecture.
func TestSameBytesOnEveryMachine(t *testing.T) {
	const want = "229c04fbeab3ff3300c9ecbaed925b7d0f041745ea262bcf9c47836491ff4de5"
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
		awards := 0
		for _, p := range parts {
			h.Write(p)
			awards += len(p)
		}
		if got := fmt.Sprintf("%x", h.Sum(nil)); got != want {
			t.Errorf("%s, %d processors: %d bytes hash to %s, want %s", runtime.GOARCH, procs, awards, got,
				want)
		}
	}
}

// So are crowded rounds: what was pruned, what is left, and how it clears.
func TestSameCrowdsOnEveryMachine(t *testing.T) {
	const want = "599625dd2b62f0575e8359d2db6d99477d797d7c6ed6858feac66f6efa40a827"
	rng := rand.New(rand.NewPCG(20, 28))
	h := sha256.New()
	var p Pruner
	for n := range 1000 {
		r := crowdRound(rng, n)
		p.Prune(&r, nil, 1+rng.IntN(9), 3)
		o, err := Clear(r)
		if err != nil {
			t.Fatal(err)
		}
		h.Write(o.AppendCanonical(r.AppendCanonical(nil)))
	}
	if got := fmt.Sprintf("%x", h.Sum(nil)); got != want {
		t.Errorf("%s: crowded rounds hash to %s, want %s", runtime.GOARCH, got, want)
	}
}

// So are amounts that floats became, on machines that fuse a product into a sum and on those that do not.
func TestSameAmountsOnEveryMachine(t *testing.T) {
	const want = "ca7ce4a1f40f05923f7ec6e8c3e97166b9b623134d9cc6ec2e3e818deeb191d6"
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
	if got := fmt.Sprintf("%x", h.Sum(nil)); got != want {
		t.Errorf("%s: amounts hash to %s, want %s", runtime.GOARCH, got, want)
	}
}
