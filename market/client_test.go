package market

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// bruteWithout is the welfare without all tasks of a client.
func bruteWithout(r Round, client string) Credits {
	s := r
	s.Edges = nil
	for _, e := range r.Edges {
		if r.Tasks[e.Task].Client != client {
			s.Edges = append(s.Edges, e)
		}
	}
	return brute(&s, -1)
}

// clientRound is a round of a few clients with several tasks each.
func clientRound(rng *rand.Rand, n int) Round {
	r := randomRound(rng, 7, 3, []int64{6, 30, 1000}[n%3])
	r.Rule.Clarke = ClarkeClient
	return r
}

func TestClientsAgainstBruteForce(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 40))
	less, later := 0, false
	for n := range times(1000) {
		r := clientRound(rng, n)
		o, err := Clear(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := Check(r, o); err != nil {
			t.Fatalf("seed %d, round %d: %v", seed, n, err)
		}
		for _, client := range []string{"c0", "c1", "c2"} {
			var own, prices Credits
			var mine []placed
			for _, p := range placesOf(&r, &o) {
				if r.Tasks[p.task].Client == client {
					mine, own, prices = append(mine, p), own+p.weight, prices+p.price
				}
			}
			want := bruteWithout(r, client) - (o.Welfare - own)
			for i, share := range split(want, mine) {
				p := mine[i]
				if a := p.award; a != nil && a.Premium != share-a.Toll-edgeOf(&r, p.task, p.agent).Own {
					t.Fatalf("seed %d, round %d: task %s owes %d, its part of %d is %d", seed, n, a.Task,
						a.Premium, want, share)
				}
				later = later || p.award == nil && share > 0
			}
			if want < prices {
				less++
			}
		}
	}
	if less == 0 || !later {
		t.Errorf("%d clients owe less than their slot prices, seats to come have a part %v: the test sees nothing",
			less, later)
	}
}

// split is an amount over seats in proportion to their slot prices, by largest remainder.
func split(amount Credits, seats []placed) []Credits {
	parts, order := make([]Credits, len(seats)), make([]int, len(seats))
	var sum, rest Credits
	for _, p := range seats {
		sum += p.price
	}
	if sum == 0 {
		return parts
	}
	rest = amount
	for i, p := range seats {
		order[i] = i
		parts[i] = amount * p.price / sum
		rest -= parts[i]
	}
	slices.SortStableFunc(order,
		func(a, b int) int { return int(amount*seats[b].price%sum - amount*seats[a].price%sum) })
	for _, i := range order[:rest] {
		parts[i]++
	}
	return parts
}

// A client with several tasks gains nothing by lying about any of them, if they are priced together; priced
// one by one it can.
func TestLiesOfClientsWithSeveralTasks(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 41))
	gained := 0
	for n := range times(3000) {
		r := clientRound(rng, n)
		client := r.Tasks[rng.IntN(len(r.Tasks))].Client
		for range 4 {
			told := lie(rng, r, client)
			for _, rule := range []string{ClarkeClient, ClarkeTask} {
				r.Rule.Clarke, told.Rule.Clarke = rule, rule
				honest, err := Clear(r)
				if err != nil {
					t.Fatal(err)
				}
				o, err := Clear(told)
				if err != nil {
					t.Fatal(err)
				}
				was, is := utility(&r, &r, honest, client, false), utility(&r, &told, o, client, false)
				if is <= was {
					continue
				}
				if gained++; rule == ClarkeClient {
					t.Fatalf("seed %d, round %d: %s keeps %d by lying and %d without\n%+v\n%+v", seed, n,
						client, is, was, r, told)
				}
			}
		}
	}
	if gained == 0 {
		t.Error("no lie paid under clarke: task either: the test sees nothing")
	}
}

// Whatever is changed in a client's proof or in its premiums, money cannot differ from the truth.
func TestMutatedClientProofs(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 42))
	for n := range times(1500) {
		r := clientRound(rng, n)
		o, err := Clear(r)
		if err != nil {
			t.Fatal(err)
		}
		good := o.AppendCanonical(nil)
		for range 8 {
			m, err := DecodeOutcome(good)
			if err != nil {
				t.Fatal(err)
			}
			for range 1 + rng.IntN(2) {
				d := Credits(rng.Int64N(5) - 2)
				if len(m.Clients) == 0 {
					m.Clients = append(m.Clients, ClientProof{Client: "c0", Externality: d})
					continue
				}
				c := &m.Clients[rng.IntN(len(m.Clients))]
				switch rng.IntN(5) {
				case 0:
					c.Externality += d
					if len(m.Awards) > 0 {
						m.Awards[rng.IntN(len(m.Awards))].Premium += d
					}
				case 1:
					if len(c.Prices) > 0 {
						c.Prices[rng.IntN(len(c.Prices))].Price += d
					}
				case 2:
					if len(c.Moves) > 0 {
						i := rng.IntN(len(c.Moves))
						c.Moves = slices.Delete(c.Moves, i, i+1)
					}
				case 3:
					if len(c.Moves) > 0 {
						v := &c.Moves[rng.IntN(len(c.Moves))]
						*[]*int{&v.Task, &v.Agent, &v.Seat}[rng.IntN(3)] += int(d)
					}
				case 4:
					m.Clients = slices.Delete(m.Clients, 0, 1)
				}
			}
			if Check(r, m) == nil && !slices.Equal(m.Awards, o.Awards) {
				t.Fatalf("seed %d, round %d: a false outcome passes\n%+v\n%+v\ntrue:\n%+v", seed, n, r, m, o)
			}
		}
	}
}

// The split is exact to the last nano-credit, in proportion, and the earlier award takes the odd one.
func TestBill(t *testing.T) {
	awards := []Award{{SlotPrice: 10, Premium: 11}, {SlotPrice: 10, Premium: 12}, {Premium: 3}}
	g := group{awards: []int32{0, 1, 2}, slots: []Credits{10, 10, 0}, prices: 20}
	g.bill(awards, 7)
	if awards[0].Premium != 5 || awards[1].Premium != 5 || awards[2].Premium != 3 {
		t.Errorf("premiums %d %d %d, want 4+1, 3+2, 0+3", awards[0].Premium, awards[1].Premium,
			awards[2].Premium)
	}
	// A seat to come takes its part along.
	awards = []Award{{SlotPrice: 10, Premium: 11}}
	g = group{awards: []int32{-1, 0}, slots: []Credits{10, 10}, prices: 20}
	if g.bill(awards, 7); awards[0].Premium != 4 {
		t.Errorf("premium %d, want 3+1", awards[0].Premium)
	}
}
