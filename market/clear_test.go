package market

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// open are slots that are free now.
func open(slots int) []Seat { return []Seat{{Slots: slots}} }

// brute tries every assignment of tasks to seats and returns the greatest welfare without task skip (-1:
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

// The check and the solver each read a round by themselves, and find the same weights,
// whatever memory of other rounds they find.
func TestTheCheckReadsWhatTheSolverDoes(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 61))
	var solver, check layout
	for range times(2000) {
		r := randomRound(rng, 1+rng.IntN(30), 1+rng.IntN(12), 20)
		for j := range r.Tasks {
			if rng.IntN(2) == 0 { // nothing that can be added up at a glance
				r.Tasks[j].Second = Credits(rng.Int64N(1 << rng.IntN(60)))
			}
		}
		for i := range r.Agents {
			for k := range r.Agents[i].Seats {
				if s := &r.Agents[i].Seats[k]; s.In > 0 {
					s.In = time.Duration(rng.Int64N(1 + int64(MaxIn)>>rng.IntN(46)))
				}
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

// randomRound makes a round of at most n tasks and m agents, with seats of several slots, free ones and some
// to come; a small spread of values makes ties.
func randomRound(rng *rand.Rand, n, m int, spread int64) Round {
	r := Round{Domain: "math", Number: rng.Uint64N(1000), Rule: taskRule, Fee: Credits(rng.Int64N(2))}
	for j := range 1 + rng.IntN(n) {
		t := Task{ID: TaskID(fmt.Sprintf("c%d/t%d", j%3, j)), Client: fmt.Sprintf("c%d", j%3)}
		if rng.IntN(4) == 0 {
			t.Within = time.Duration(1 + rng.Int64N(int64(2*time.Second)))
		}
		if rng.IntN(3) > 0 { // else a second costs it nothing
			t.Second = Credits(1 + rng.Int64N(spread))
		}
		t.Turn = rng.IntN(1 + rng.IntN(4))
		r.Tasks = append(r.Tasks, t)
	}
	for i := range 1 + rng.IntN(m) {
		r.Agents = append(r.Agents, Supply{Agent: AgentID(fmt.Sprintf("a%02d", i)), Seats: randomSeats(rng)})
	}
	for j := range r.Tasks {
		for i := range r.Agents {
			if rng.IntN(5) > 0 {
				toll := rng.Int64N(2 + spread/4)
				r.Edges = append(r.Edges, Edge{
					Task: j, Agent: i, Value: Credits(rng.Int64N(spread)),
					Cost: Credits(rng.Int64N(1 + spread/3)),
					Toll: -Credits(toll), Own: Credits(rng.Int64N(1+toll) * rng.Int64N(2)),
				})
			}
		}
	}
	r.Sort()
	return r
}

// randomSeats are up to three of an agent: those of now, then those to come, some of them at once.
func randomSeats(rng *rand.Rand) (seats []Seat) {
	now, in := rng.IntN(3), time.Duration(0)
	for k := range max(1, rng.IntN(4)) {
		if k == now {
			in = 0
		}
		seats = append(seats, Seat{Slots: 1 + rng.IntN(2), In: in, Later: k >= now})
		in += time.Duration(rng.IntN(4)) * 300 * time.Millisecond
	}
	return seats
}

func TestClearAgainstBruteForce(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	now, later := false, false
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
		for _, p := range placesOf(&r, &o) {
			if externality := brute(&r, p.task) - (o.Welfare - p.weight); p.price != externality {
				t.Fatalf("seed %d, round %d: task %d: slot price %d, want its externality %d", seed, n,
					p.task, p.price, externality)
			}
			if p.award != nil {
				now = true
				if e := edgeOf(&r, p.task, p.agent); p.award.Premium != p.price-p.award.Toll-e.Own {
					t.Fatalf("seed %d, round %d: task %d: premium %d", seed, n, p.task, p.award.Premium)
				}
			} else {
				later = true
			}
		}
		if err := Check(r, o); err != nil {
			t.Fatalf("seed %d, round %d: %v", seed, n, err)
		}
	}
	if !now || !later {
		t.Errorf("seats of now %v, to come %v: the test sees nothing", now, later)
	}
}

// placed is a task with a seat of a round. award is nil where the seat is to come.
type placed struct {
	task, agent, seat int
	weight, price     Credits
	award             *Award
}

// placesOf lists who was given a seat, by task.
func placesOf(r *Round, o *Outcome) (list []placed) {
	awards, planned := o.Awards, o.Planned
	for t := range r.Tasks {
		p := placed{task: t}
		switch {
		case len(awards) > 0 && awards[0].Task == r.Tasks[t].ID:
			p.award, p.seat = &awards[0], awards[0].Seat
			p.agent = slices.IndexFunc(r.Agents, func(s Supply) bool { return s.Agent == awards[0].Agent })
			awards = awards[1:]
		case len(planned) > 0 && planned[0].Task == t:
			p.agent, p.seat = planned[0].Agent, planned[0].Seat
			planned = planned[1:]
		default:
			continue
		}
		p.weight, p.price = r.Weight(*edgeOf(r, t, p.agent), p.seat), o.priceOf(p.agent, p.seat)
		list = append(list, p)
	}
	return list
}

// edgeOf is the edge of a task to an agent, nil where it has none.
func edgeOf(r *Round, task, agent int) *Edge {
	for i := range r.Edges {
		if e := &r.Edges[i]; e.Task == task && e.Agent == agent {
			return e
		}
	}
	return nil
}
