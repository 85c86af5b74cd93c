package market

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// scene holds a hub's knowledge of a crowd before it reads a bid: the seats, and what each task would get and
// cost at each agent.
type scene struct {
	round Round // without edges
	owner []int // of every task: its client
	terms []Terms
	quote map[[2]int]Quote   // by task and agent
	toll  map[[2]int]Credits // fixed before bids
	own   map[[2]int]Credits
}

func randomTerms(rng *rand.Rand) Terms {
	return Terms{Worth: Credits(1 + rng.Int64N(2000)), Delta: float64(rng.IntN(11)) / 10,
		Patience: time.Duration(1+rng.IntN(2000)) * time.Millisecond}
}

func randomScene(rng *rand.Rand, n int) *scene {
	s := &scene{quote: map[[2]int]Quote{}, toll: map[[2]int]Credits{}, own: map[[2]int]Credits{}}
	s.round = Round{Domain: "math", Number: uint64(2 + n), Fee: Credits(rng.IntN(30)),
		Rule: Rule{Pricing: PricingVCG, Settle: SettleQuoted, Clarke: ClarkeClient}}
	tasks, agents, clients := 2+rng.IntN(6), 1+rng.IntN(3), 1+rng.IntN(6)
	for i := range agents {
		s.round.Agents = append(s.round.Agents, Supply{AgentID(fmt.Sprint("a", i)), randomSeats(rng)})
	}
	for j := range tasks {
		c := rng.IntN(clients)
		s.owner, s.terms = append(s.owner, c), append(s.terms, randomTerms(rng))
		s.round.Tasks = append(s.round.Tasks,
			Task{ID: TaskID(fmt.Sprintf("t%d", j)), Client: fmt.Sprint("c", c)})
		for k := range agents {
			at := [2]int{j, k}
			s.quote[at] = Quote{TTFT: time.Duration(rng.IntN(1000)) * time.Millisecond,
				Cost: Credits(rng.IntN(300)), Quality: float64(rng.IntN(11)) / 10}
			s.toll[at] = -Credits(rng.IntN(60))
			s.own[at] = Credits(rng.IntN(1+int(-s.toll[at])) * rng.IntN(2))
		}
	}
	return s
}

// cleared is the outcome of a scene.
type cleared struct {
	keeps         []Credits // of each client, by the truth
	begun, waits  int
	premiumAtMost bool
}

// clear is the round by what is said, cut and cleared. A client keeps the true weight of its seats, of which
// the part of a toll that is not charged is a loss, less what it owes for them: what it pays where all of
// them are free, and where some are to come what the others have more without it.
func (s *scene) clear(t *testing.T, c *Cutter, said []Terms) cleared {
	t.Helper()
	r := s.round
	r.Tasks = slices.Clone(s.round.Tasks)
	for j := range r.Tasks {
		r.Tasks[j].Second = said[j].Second()
		for k := range r.Agents {
			at := [2]int{j, k}
			q := s.quote[at]
			r.Edges = append(r.Edges, Edge{Task: j, Agent: k, Value: said[j].Value(q), Cost: q.Cost,
				Toll: s.toll[at], Own: s.own[at]})
		}
	}
	whole := r
	k, err := c.Cut(&r, keepsOf(nil, &r), FullShare, nil, 3, nil)
	var o Outcome
	if err == nil {
		o, err = Clear(r)
	}
	if err == nil {
		err = Check(r, o)
	}
	if err != nil {
		t.Fatal(err)
	}
	out := cleared{keeps: make([]Credits, 6), premiumAtMost: true}
	told, owes, waits := make([]Credits, 6), make([]Credits, 6), make([]bool, 6)
	var welfare Credits
	sit := func(j, agent int, in time.Duration, weight Credits, a *Award) {
		client, at := s.owner[j], [2]int{j, agent}
		q, task := s.quote[at], Task{Second: s.terms[j].Second()}
		net := s.terms[j].Value(q) - task.Delay(in) - q.Cost
		out.keeps[client] += net + s.toll[at] - r.Fee
		told[client], welfare = told[client]+weight, welfare+weight
		if a == nil {
			waits[client] = true
			out.waits++
			return
		}
		owes[client] += a.Premium + s.toll[at] - r.Fee + s.own[at]
		out.begun++
		if a.Premium+s.own[at] > a.Value-a.Cost {
			out.premiumAtMost = false
		}
	}
	for _, p := range placesOf(&r, &o) {
		in := r.Agents[p.agent].Seats[p.seat].In
		sit(int(k.Tasks[p.task]), int(k.Agents[p.agent]), in, p.weight, p.award)
	}
	for j, at := range k.At {
		if at.Agent >= 0 && !slices.Contains(k.Tasks, int32(j)) {
			sit(j, int(at.Agent), whole.Agents[at.Agent].Seats[at.Seat].In, at.Weight, nil)
		}
	}
	for client := range out.keeps {
		if waits[client] {
			others := whole
			others.Edges = slices.DeleteFunc(slices.Clone(whole.Edges),
				func(e Edge) bool { return s.owner[e.Task] == client })
			without, err := Clear(others)
			if err != nil {
				t.Fatal(err)
			}
			owes[client] = without.Welfare - (welfare - told[client])
		}
		out.keeps[client] -= owes[client]
	}
	return out
}

// Where terms say what a slot is worth now and later, no client gains in its round by saying other terms than
// the true ones, of one task or of all, though only what matters is recorded; and none pays more than its
// value.
func TestLiesAboutTermsDoNotPay(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 76))
	var c Cutter
	moved, begun, waits := 0, 0, 0
	for n := range times(4000) {
		s := randomScene(rng, n)
		honest := s.clear(t, &c, s.terms)
		begun, waits = begun+honest.begun, waits+honest.waits
		if !honest.premiumAtMost {
			t.Fatalf("seed %d, scene %d: somebody owes more than its value\n%+v", seed, n, s)
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
			was, is := honest.keeps[client], s.clear(t, &c, said).keeps[client]
			if is > was {
				t.Fatalf("seed %d, scene %d: client %d keeps %d by lying and %d without\ntrue %+v\nsaid %+v\n%+v",
					seed, n, client, is, was, s.terms, said, s)
			}
			if is < was {
				moved++
			}
		}
	}
	if moved == 0 || begun == 0 || waits == 0 {
		t.Errorf("%d lies changed anything, %d tasks began, %d had a seat to come: the test sees nothing",
			moved, begun, waits)
	}
}
