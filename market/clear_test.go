package market

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// brute tries every assignment of tasks to tiers and returns the greatest welfare without task skip (-1:
// none).
func brute(r *Round, skip int) Credits {
	var l layout
	l.of(r)
	free := slices.Clone(l.slots)
	var best func(t int) Credits
	best = func(t int) Credits {
		if t == len(r.Tasks) {
			return 0
		}
		w := best(t + 1)
		if t == skip {
			return w
		}
		for e := l.off[t]; e < l.off[t+1]; e++ {
			if a := l.seat[e]; free[a] > 0 {
				free[a]--
				w = max(w, Credits(l.weight[e])+best(t+1))
				free[a]++
			}
		}
		return w
	}
	return best(0)
}

// The check and the solver each read a round by themselves, and find the same weights: with and without waits,
// whatever memory of other rounds they find.
func TestTheCheckReadsWhatTheSolverDoes(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 61))
	var solver, check layout
	for range times(2000) {
		r := randomRound(rng, 1+rng.IntN(30), 1+rng.IntN(12), 20)
		for j := range r.Tasks {
			if rng.IntN(2) == 0 {
				w := &Wait{Agent: r.Agents[0].Agent, Value: Credits(rng.Int64N(9)), Share: FullShare / 2}
				w.Loss = w.Sum(r.Fee)
				r.Tasks[j].Wait = w
			}
		}
		solver.of(&r)
		check.weigh(&r)
		if !slices.Equal(check.seats, solver.seats) || !slices.Equal(check.first, solver.first) ||
			!slices.Equal(check.off, solver.off) || !slices.Equal(check.seat, solver.seat) ||
			!slices.Equal(check.weight, solver.weight) || !slices.Equal(check.edge, solver.edge) ||
			!slices.Equal(check.slots, solver.slots) {
			t.Fatalf("the check reads\n%+v\nand the solver\n%+v", check, solver)
		}
	}
}

// taskRule prices each task by itself, so that payments can be compared with a round cleared again without
// it.
var taskRule = Rule{Pricing: PricingVCG, Settle: SettleMetered, Clarke: ClarkeTask}

// randomRound makes a round of at most n tasks and m agents; a small spread of values makes ties.
func randomRound(rng *rand.Rand, n, m int, spread int64) Round {
	r := Round{Domain: "math", Number: rng.Uint64N(1000), Rule: taskRule, Fee: Credits(rng.Int64N(2))}
	for j := range 1 + rng.IntN(n) {
		r.Tasks = append(r.Tasks,
			Task{ID: TaskID(fmt.Sprintf("c%d/t%d", j%3, j)), Client: fmt.Sprintf("c%d", j%3)})
	}
	for i := range 1 + rng.IntN(m) {
		s := Supply{Agent: AgentID(fmt.Sprintf("a%02d", i))}
		for k := range 1 + rng.IntN(2) {
			s.Tiers = append(s.Tiers,
				Tier{Slots: 1 + rng.IntN(2), Toll: -Credits(k) * Credits(1+rng.Int64N(3))})
		}
		r.Agents = append(r.Agents, s)
	}
	for j := range r.Tasks {
		for i := range r.Agents {
			if rng.IntN(5) > 0 {
				r.Edges = append(r.Edges, Edge{
					Task: j, Agent: i, Value: Credits(rng.Int64N(spread)),
					Cost: Credits(rng.Int64N(1 + spread/3)),
					Toll: -Credits(rng.Int64N(2 + spread/4)),
				})
			}
		}
	}
	r.Sort()
	return r
}

func TestClearAgainstBruteForce(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	for n := range times(10_000) {
		tasks, agents := 5, 3
		if n%100 == 0 {
			tasks, agents = 6, 4
		}
		r := randomRound(rng, tasks, agents, []int64{4, 10, 1000}[n%3])
		o, err := Clear(r)
		if err != nil {
			t.Fatalf("seed %d, round %d: %v", seed, n, err)
		}
		if want := brute(&r, -1); o.Welfare != want {
			t.Fatalf("seed %d, round %d: welfare = %d, want %d", seed, n, o.Welfare, want)
		}
		for _, a := range o.Awards {
			j := slices.IndexFunc(r.Tasks, func(x Task) bool { return x.ID == a.Task })
			externality := brute(&r, j) - (o.Welfare - (a.Value - a.Cost + a.Toll))
			if a.SlotPrice != externality {
				t.Fatalf("seed %d, round %d: task %s: slot price %d, want its externality %d", seed, n,
					a.Task, a.SlotPrice, externality)
			}
		}
		if err := Check(r, o); err != nil {
			t.Fatalf("seed %d, round %d: %v", seed, n, err)
		}
	}
}
