package market

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// extremeRound draws every amount from the ends of its range and from beyond them, and often has nothing of
// something.
func extremeRound(rng *rand.Rand) Round {
	amount := func(least, most Credits) Credits {
		switch rng.IntN(40) {
		case 0, 1, 2, 3, 4, 5, 6, 7, 8, 9:
			return 0
		case 10, 11, 12, 13, 14:
			return least
		case 15, 16, 17, 18, 19:
			return most
		case 20:
			return most + 1
		case 21:
			return least - 1
		}
		if bits := rng.IntN(60); rng.IntN(2) == 0 {
			return min(most, Credits(rng.Int64N(1<<bits)))
		} else {
			return max(least, -Credits(rng.Int64N(1<<bits)))
		}
	}
	r := Round{Domain: "d", Rule: Rule{[]string{PricingVCG, PricingVCG, PricingPosted,
		PricingTariff}[rng.IntN(4)], []string{SettleMetered, SettleQuoted}[rng.IntN(2)],
		[]string{ClarkeTask, ClarkeClient}[rng.IntN(2)], ""}}
	if rng.IntN(3) == 0 {
		r.Fee = amount(0, MaxWorth)
	}
	for j := range rng.IntN(7) {
		t := Task{ID: TaskID(fmt.Sprint("t", j)), Client: fmt.Sprint("c", j%3)}
		if rng.IntN(2) == 0 {
			t.Second = amount(0, MaxCredits)
		}
		r.Tasks = append(r.Tasks, t)
	}
	for i := range rng.IntN(4) {
		s := Supply{Agent: AgentID(fmt.Sprint("a", i))}
		now, in := rng.IntN(4), time.Duration(0)
		if r.Rule.Pricing == PricingPosted && rng.IntN(8) > 0 {
			now = 4
		}
		for k := range rng.IntN(4) {
			s.Seats = append(s.Seats,
				Seat{[]int{1, 1, 2, MaxSlots, MaxSlots + 1, 0}[rng.IntN(18)%6*rng.IntN(2)], in, k >= now})
			in += min(MaxIn, time.Duration(amount(0, Credits(MaxIn)/2)))
		}
		r.Agents = append(r.Agents, s)
		if r.Rule.Pricing == PricingTariff {
			r.Sellers = append(r.Sellers, Seller{fmt.Sprint("o", i%2), "k", 0})
		}
	}
	for j := range r.Tasks {
		for i := range r.Agents {
			if rng.IntN(4) > 0 {
				e := Edge{Task: j, Agent: i, Value: amount(-MaxCredits, MaxCredits)}
				if rng.IntN(2) == 0 {
					e.Cost = amount(0, MaxCredits)
				}
				if rng.IntN(2) == 0 {
					e.Toll = amount(-MaxCredits, 0)
					e.Own = -e.Toll / Credits(1+rng.IntN(3)) * Credits(rng.IntN(2))
				}
				r.Edges = append(r.Edges, e)
			}
		}
	}
	return r
}

// Amounts at the ends of their ranges, no tasks, no agents, no slots, no edges: what Validate passes is
// cleared, checked, explained and read back, what it does not pass is refused by all of them, and nothing
// panics.
func TestWhatValidatePassesClears(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 80))
	passed, awards, empty := 0, 0, 0
	for n := range times(20_000) {
		r := extremeRound(rng)
		valid := r.Validate()
		o, err := Clear(r)
		switch {
		case valid != nil && err == nil:
			t.Fatalf("seed %d, round %d: cleared, although %v\n%+v", seed, n, valid, r)
		case valid != nil:
			continue
		case err != nil:
			t.Fatalf("seed %d, round %d: %v\n%+v", seed, n, err, r)
		}
		passed++
		awards += len(o.Awards) + len(o.Planned)
		if len(r.Edges) == 0 {
			empty++
		}
		if err := Check(r, o); err != nil {
			t.Fatalf("seed %d, round %d: %v\n%+v\n%+v", seed, n, err, r, o)
		}
		if x, err := Explain(r, o); err != nil || x.String() == "" {
			t.Fatalf("seed %d, round %d: not explained: %v", seed, n, err)
		}
		back, err := DecodeRound(r.AppendCanonical(nil))
		if err != nil || back.Hash() != r.Hash() {
			t.Fatalf("seed %d, round %d: not read back: %v", seed, n, err)
		}
		for _, a := range o.Awards {
			if a.SlotPrice < 0 || a.Premium < r.Fee || a.Value-a.Cost-a.Premium < 0 {
				t.Fatalf("seed %d, round %d: %+v", seed, n, a)
			}
		}
	}
	if passed < times(20_000)/20 || awards < passed/4 || empty == 0 {
		t.Errorf("seed %d: %d passed with %d awards, %d without an edge: the test sees little", seed, passed,
			awards, empty)
	}
}

// As many edges as a round may have are cleared; one more names the field and the limit.
func TestAMillionEdges(t *testing.T) {
	const tasks, agents = 4096, MaxEdges / 4096
	r := Round{Domain: "d", Rule: taskRule, Edges: make([]Edge, 0, MaxEdges)}
	for i := range agents {
		r.Agents = append(r.Agents, Supply{AgentID(fmt.Sprintf("a%03d", i)), open(2 * tasks / agents)})
	}
	for j := range tasks {
		r.Tasks = append(r.Tasks, Task{ID: TaskID(fmt.Sprintf("t%04d", j)), Client: "c"})
		for i := range agents {
			r.Edges = append(r.Edges, Edge{Task: j, Agent: i, Value: Credits(1000 + (j*31+i*17)%997)})
		}
	}
	o, err := Clear(r)
	if err != nil || len(o.Awards) != tasks {
		t.Fatalf("%d awards, %v", len(o.Awards), err)
	}
	if err := Check(r, o); err != nil {
		t.Error(err)
	}
	r.Tasks = append(r.Tasks, Task{ID: "u", Client: "c"})
	r.Edges = append(r.Edges, Edge{Task: tasks, Value: 1})
	if _, err := Clear(r); err == nil || err.Error() != "round d-0: 1048577 edges, want at most 1048576" {
		t.Errorf("one more: %v", err)
	}
	if err := Check(r, o); err == nil || errors.Is(err, ErrOutcome) {
		t.Errorf("one more, checked: %v", err)
	}
}
