package market

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// scene is what a hub knows of a crowd before it reads a bid: what each task would get and cost on the agents
// with free slots, and on one that is full.
type scene struct {
	round Round              // without edges and waits
	owner []int              // of every task: its client
	terms []Terms            // of every task, as they truly are
	quote map[[2]int]Quote   // by task and agent; the full agents come after those of the round
	toll  map[[2]int]Credits // fixed before bids
	wait  map[[2]int]time.Duration
	full  []Wait // of each full agent: its toll, charge and price
}

func randomTerms(rng *rand.Rand) Terms {
	return Terms{Worth: Credits(1 + rng.Int64N(2000)), Delta: float64(rng.IntN(11)) / 10,
		Patience: time.Duration(1+rng.IntN(2000)) * time.Millisecond}
}

func randomScene(rng *rand.Rand, n int) *scene {
	s := &scene{quote: map[[2]int]Quote{}, toll: map[[2]int]Credits{}, wait: map[[2]int]time.Duration{}}
	s.round = Round{Domain: "math", Number: uint64(2 + n), Fee: Credits(rng.IntN(30)),
		Rule: Rule{Pricing: PricingVCG, Settle: SettleQuoted, Clarke: ClarkeClient}}
	tasks, agents, full, clients := 2+rng.IntN(6), 1+rng.IntN(3), 1+rng.IntN(2), 1+rng.IntN(6)
	for i := range agents {
		toll := -Credits(rng.IntN(50))
		s.round.Agents = append(s.round.Agents, Supply{AgentID(fmt.Sprint("a", i)),
			[]Tier{{1, toll}, {1, toll - 1 - Credits(rng.IntN(50))}}[:1+rng.IntN(2)]})
	}
	for range full {
		s.full = append(s.full, Wait{Agent: "full", Toll: -Credits(rng.IntN(30)),
			Charge: -Credits(rng.IntN(30)), Price: Credits(rng.IntN(200)), Round: 1})
	}
	for j := range tasks {
		c := rng.IntN(clients)
		s.owner, s.terms = append(s.owner, c), append(s.terms, randomTerms(rng))
		s.round.Tasks = append(s.round.Tasks,
			Task{ID: TaskID(fmt.Sprintf("t%d", j)), Client: fmt.Sprint("c", c)})
		for k := range agents + full {
			at := [2]int{j, k}
			s.quote[at] = Quote{TTFT: time.Duration(rng.IntN(1000)) * time.Millisecond,
				Cost: Credits(rng.IntN(300)), Quality: float64(rng.IntN(11)) / 10}
			s.toll[at] = -Credits(rng.IntN(60))
			s.wait[at] = time.Duration(rng.IntN(1500)) * time.Millisecond
		}
	}
	return s
}

// waitOf is what waiting is worth to task j by some terms of it: the same function of them for everybody.
func (s *scene) waitOf(j int, terms Terms) *Wait {
	var best *Wait
	for f := range s.full {
		w := s.full[f]
		at := [2]int{j, len(s.round.Agents) + f}
		q := s.quote[at]
		q.TTFT += s.wait[at]
		w.Time, w.Cost, w.Value, w.Share = q.TTFT, q.Cost, terms.Value(q), FullShare/2
		if j%2 == 0 {
			w.Share = FullShare
		}
		if w.Loss = w.Sum(s.round.Fee); w.Loss > 0 && (best == nil || w.Loss > best.Loss) {
			best = &w
		}
	}
	return best
}

// clear is the round by what is said.
func (s *scene) clear(t *testing.T, p *Pruner, said []Terms) (Round, Outcome) {
	t.Helper()
	r := s.round
	r.Tasks = slices.Clone(s.round.Tasks)
	for j := range r.Tasks {
		r.Tasks[j].Wait = s.waitOf(j, said[j])
		for k := range r.Agents {
			at := [2]int{j, k}
			q := s.quote[at]
			r.Edges = append(r.Edges,
				Edge{Task: j, Agent: k, Value: said[j].Value(q), Cost: q.Cost, Toll: s.toll[at]})
		}
	}
	p.Prune(&r, 64, 3)
	o, err := Clear(r)
	if err == nil {
		err = Check(r, o)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r, o
}

// keeps is what a client truly has: of each task that is served its value less what is paid, and of each that
// is not what waiting is worth to it.
func (s *scene) keeps(client int, o Outcome) (sum Credits) {
	for j, task := range s.round.Tasks {
		if s.owner[j] != client {
			continue
		}
		i := slices.IndexFunc(o.Awards, func(a Award) bool { return a.Task == task.ID })
		if i < 0 {
			if w := s.waitOf(j, s.terms[j]); w != nil {
				sum += w.Loss
			}
			continue
		}
		a := o.Awards[i]
		k, _ := s.round.place(a.Agent)
		q := s.quote[[2]int{j, k}]
		sum += s.terms[j].Value(q) - q.Cost - a.Premium
	}
	return sum
}

// Where waiting is an outcome, whose worth is made from the terms that are said, no client gains in its round
// by saying other terms than the true ones, of one task or of all; and none pays more than leaves it what
// waiting would have been worth.
func TestLiesAboutTermsDoNotPay(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 76))
	var p Pruner
	moved, waits, waited := 0, 0, 0
	for n := range times(4000) {
		s := randomScene(rng, n)
		r, honest := s.clear(t, &p, s.terms)
		awarded := 0
		for _, task := range r.Tasks {
			if awarded < len(honest.Awards) && honest.Awards[awarded].Task == task.ID {
				a := honest.Awards[awarded]
				if a.Premium > a.Value-a.Cost-task.loss() {
					t.Fatalf("seed %d, scene %d: task %s owes %d of %d - %d, and waiting is worth %d", seed,
						n,
						task.ID, a.Premium, a.Value, a.Cost, task.loss())
				}
				if task.Wait != nil {
					waits++
				}
				awarded++
			} else if task.Wait != nil {
				waited++
			}
		}
		for range 3 {
			client := s.owner[rng.IntN(len(s.owner))]
			said := slices.Clone(s.terms)
			for j := range said {
				if s.owner[j] != client || rng.IntN(3) == 0 {
					continue
				}
				switch other := randomTerms(rng); rng.IntN(5) {
				case 0:
					said[j].Worth = other.Worth
				case 1:
					said[j].Delta = other.Delta
				case 2:
					said[j].Patience = other.Patience
				case 3:
					said[j] = other
				case 4:
					said[j].Worth *= 1000 // to be served whatever it costs
				}
			}
			_, o := s.clear(t, &p, said)
			was, is := s.keeps(client, honest), s.keeps(client, o)
			if is > was {
				t.Fatalf("seed %d, scene %d: client %d keeps %d by lying and %d without\ntrue %+v\nsaid %+v\n%+v",
					seed, n, client, is, was, s.terms, said, s)
			}
			if is < was {
				moved++
			}
		}
	}
	if moved == 0 || waits == 0 || waited == 0 {
		t.Errorf("%d lies changed anything, %d tasks served that might have waited, %d waited: the test sees "+
			"nothing", moved, waits, waited)
	}
}
