package market

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"souk/market/flow"
)

// crowdRound is a small round in which many tasks want few slots: several clients, tiers, tolls, ties, edges
// that lose, and tasks that might wait.
func crowdRound(rng *rand.Rand, n int) Round {
	scale := []int64{3, 8, 1000}[n%3]
	r := Round{Domain: "math", Number: uint64(2 + n), Fee: Credits(rng.Int64N(1 + scale/4)),
		Rule: Rule{Pricing: PricingVCG, Settle: SettleMetered,
			Clarke: []string{ClarkeTask, ClarkeClient}[n/3%2]}}
	tasks, agents, clients := 1+rng.IntN(8), 1+rng.IntN(4), 1+rng.IntN(5)
	for i := range agents {
		s := Supply{Agent: AgentID(fmt.Sprint("a", i))}
		toll := -Credits(rng.Int64N(1 + scale/5))
		for range 1 + rng.IntN(2) {
			s.Tiers = append(s.Tiers, Tier{1 + rng.IntN(2), toll})
			toll -= 1 + Credits(rng.Int64N(1+scale/5))
		}
		r.Agents = append(r.Agents, s)
	}
	for j := range tasks {
		c := rng.IntN(clients)
		t := Task{ID: TaskID(fmt.Sprintf("c%d/t%d", c, j)), Client: fmt.Sprint("c", c)}
		if rng.IntN(3) == 0 {
			t.Wait = randomWait(rng, scale/2, r.Fee)
		}
		r.Tasks = append(r.Tasks, t)
		for i := range agents {
			if rng.IntN(5) > 0 {
				r.Edges = append(r.Edges, Edge{j, i, Credits(1 + rng.Int64N(2*scale)),
					Credits(rng.Int64N(1 + scale/3)), -Credits(rng.Int64N(1 + scale/6))})
			}
		}
	}
	r.Sort()
	return r
}

// randomWait is one that Validate passes, nil where waiting would be worth nothing.
func randomWait(rng *rand.Rand, scale int64, fee Credits) *Wait {
	part := func() Credits { return Credits(rng.Int64N(1 + scale/6)) }
	w := &Wait{Agent: "full", Time: 40_000_000, Value: Credits(rng.Int64N(1 + 3*scale)), Cost: part(),
		Toll: -part(), Charge: -part(), Price: part(), Round: 1, Share: FullShare}
	if rng.IntN(4) == 0 {
		w.Share = uint32(rng.IntN(FullShare))
	}
	if w.Loss = w.Sum(fee); w.Loss == 0 {
		return nil
	}
	return w
}

// plan is what assignments are judged by: what they add, then how many are served, then the seed's bits.
type plan struct{ weight, served, bits int64 }

func (a plan) compare(b plan) int {
	return cmp.Or(cmp.Compare(a.weight, b.weight), cmp.Compare(a.served, b.served),
		cmp.Compare(a.bits, b.bits))
}

// whole tries every assignment of a round: without a client's tasks, and with one more slot at one place, if
// those are named. It shares no code with the solver. bits are the seed's of a task at a place.
type whole struct {
	r     *Round
	seats []seat
	skip  string
	bits  func(task int, at seat) int64
	memo  map[string]plan
}

func newWhole(r *Round, bits func(task int, at seat) int64) *whole {
	w := &whole{r: r, bits: bits}
	for i, a := range r.Agents {
		for k := range a.Tiers {
			w.seats = append(w.seats, seat{int32(i), int32(k)})
		}
	}
	return w
}

func (w *whole) best(skip string, more int) (best plan, at []int) {
	free := make([]byte, len(w.seats))
	for s, x := range w.seats {
		free[s] = byte(w.r.Agents[x.agent].Tiers[x.tier].Slots)
	}
	if more >= 0 {
		free[more]++
	}
	w.skip, w.memo = skip, map[string]plan{}
	best = w.from(0, free)
	for t := range w.r.Tasks { // go down once more by what was found
		at = append(at, -1)
		rest := w.from(t, free)
		for s := range w.seats {
			if x, ok := w.at(t, s, free); ok && x.compare(rest) == 0 && w.from(t+1, free).compare(rest) != 0 {
				at[t] = s
				free[s]--
				break
			}
		}
	}
	return best, at
}

// at is the best from task t on if it sits at seat s.
func (w *whole) at(t, s int, free []byte) (plan, bool) {
	x := w.seats[s]
	task := w.r.Tasks[t]
	i := slices.IndexFunc(w.r.Edges, func(e Edge) bool { return e.Task == t && e.Agent == int(x.agent) })
	if free[s] == 0 || i < 0 || task.Client == w.skip {
		return plan{}, false
	}
	e := w.r.Edges[i]
	weight := e.Value - e.Cost + e.Toll + w.r.Agents[x.agent].Tiers[x.tier].Toll - w.r.Fee
	if task.Wait != nil {
		weight -= task.Wait.Loss
	}
	if weight < 0 {
		return plan{}, false
	}
	free[s]--
	p := w.from(t+1, free)
	free[s]++
	return plan{p.weight + int64(weight), p.served + 1, p.bits + w.bits(t, x)}, true
}

func (w *whole) from(t int, free []byte) plan {
	if t == len(w.r.Tasks) {
		return plan{}
	}
	key := string(append([]byte{byte(t)}, free...))
	if p, ok := w.memo[key]; ok {
		return p
	}
	best := w.from(t+1, free)
	for s := range w.seats {
		if p, ok := w.at(t, s, free); ok && p.compare(best) > 0 {
			best = p
		}
	}
	w.memo[key] = best
	return best
}

// Whatever pruning takes out of a round, what is left has the whole round's welfare, awards, slot prices and
// bills, under either Clarke rule: found by trying every assignment of the whole round, without each client,
// and with a slot more at every place.
func TestPrunedRoundsAreTheWholeOnes(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 70))
	var p Pruner
	dropped, bills, tied, waits := 0, 0, 0, 0
	for n := range times(1500) {
		r := crowdRound(rng, n)
		pruned := r
		kept := p.Prune(&pruned, nil, len(r.Tasks), 3)
		dropped += pruned.Pruned.Edges
		o, err := Clear(pruned)
		if err != nil {
			t.Fatalf("seed %d, round %d: %v", seed, n, err)
		}
		if err := Check(pruned, o); err != nil {
			t.Fatalf("seed %d, round %d: %v", seed, n, err)
		}
		fail := func(format string, args ...any) {
			t.Helper()
			t.Fatalf("seed %d, round %d: %s\nwhole: %+v\npruned: %+v\n%+v\n%+v", seed, n,
				fmt.Sprintf(format, args...), r, pruned, kept, o)
		}
		var l layout
		l.of(&pruned)
		keys, shift := pruned.tieKeys(l.seats), 64-flow.TieBits(len(l.seats))
		w := newWhole(&r, func(task int, at seat) int64 {
			j, a := slices.Index(kept.Tasks, int32(task)), slices.Index(kept.Agents, at.agent)
			if j < 0 || a < 0 || int(at.tier) >= len(pruned.Agents[a].Tiers) {
				return 0 // gone: if it is needed below, the test fails
			}
			return int64(keys.hash(int32(j), l.first[a]+at.tier) >> shift)
		})
		best, places := w.best("-", -1)
		if Credits(best.weight) != pruned.weight(&o) {
			fail("its awards add %d, want %d", pruned.weight(&o), best.weight)
		}
		awarded := 0
		for j, s := range places {
			if s < 0 {
				continue
			}
			at := w.seats[s]
			if awarded == len(o.Awards) || o.Awards[awarded].Task != r.Tasks[j].ID ||
				o.Awards[awarded].Agent != r.Agents[at.agent].Agent ||
				o.Awards[awarded].Tier != int(at.tier) {
				fail("awards are not %v", places)
			}
			awarded++
			if r.Tasks[j].Wait != nil {
				waits++
			}
		}
		if awarded != len(o.Awards) {
			fail("awards are not %v", places)
		}
		for s, at := range w.seats {
			more, _ := w.best("-", s)
			got := Credits(0)
			if k := slices.Index(kept.Agents, at.agent); k >= 0 {
				got = o.priceOf(k, int(at.tier))
			}
			if got != Credits(more.weight-best.weight) {
				fail("slot price %d of %v, want %d", got, at, more.weight-best.weight)
			}
		}
		tied += len(o.Ties)
		checkBills(t, &r, &pruned, &o, w, best, &bills, fail)
	}
	if dropped == 0 || bills == 0 || tied == 0 || waits == 0 {
		t.Errorf("%d edges dropped, %d bills below the slot prices, %d ties, %d served that might have waited: "+
			"the test sees nothing", dropped, bills, tied, waits)
	}
}

// checkBills compares what each client owes beside costs and tolls with the whole round without its tasks.
func checkBills(t *testing.T, r, pruned *Round, o *Outcome, w *whole, best plan, less *int,
	fail func(string, ...any)) {
	t.Helper()
	clients := map[string]bool{}
	for _, x := range r.Tasks {
		clients[x.Client] = true
	}
	for client := range clients {
		var own, owed, prices Credits
		for _, a := range o.Awards {
			x := pruned.Tasks[slices.IndexFunc(pruned.Tasks, func(x Task) bool { return x.ID == a.Task })]
			if x.Client != client {
				continue
			}
			own += a.Value - a.Cost + a.Toll - x.loss()
			owed, prices = owed+a.Premium+a.Toll, prices+a.SlotPrice
			if net := a.Value - a.Cost - x.loss() - a.Premium; net < 0 {
				fail("task %s is served at a loss of %d against waiting", a.Task, -net)
			}
		}
		want := prices
		if r.Rule.Clarke == ClarkeClient {
			without, _ := w.best(client, -1)
			want = Credits(without.weight) - (Credits(best.weight) - own)
		}
		if owed != want {
			fail("client %s owes %d, want %d", client, owed, want)
		}
		if owed < prices {
			*less++
		}
	}
}
