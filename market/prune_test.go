package market

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

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
	if n%4 == 0 && slices.ContainsFunc(r.Edges, func(e Edge) bool { return e.Toll < 0 }) {
		for _, e := range r.Edges {
			line := -Credits(rng.Int64N(1 - int64(e.Toll)))
			r.Parts = append(r.Parts, Toll{Load: line, Beside: e.Toll - line})
		}
	}
	r.Sort()
	return r
}

// randomWait returns a Wait that Validate passes, nil where waiting would be worth nothing.
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
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 70))
	var p Pruner
	dropped, bills, tied, waits := 0, 0, 0, 0
	for n := range times(1500) {
		r := crowdRound(rng, n)
		pruned := r
		kept := p.Prune(&pruned, len(r.Tasks), 3)
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
			kept := func(e Edge) bool { return e.Task == j && e.Agent == a }
			if !slices.ContainsFunc(pruned.Edges, kept) || int(at.tier) >= len(pruned.Agents[a].Tiers) {
				return -1 << 50 // gone: if it is needed below, the test fails
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

// No round keeps more than MostKept; some keep all of that, and less than half of it is what others keep.
func TestMostKept(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 72))
	var p Pruner
	full := map[string]int{}
	for n := range times(4000) {
		r := Round{Domain: "d", Number: 1, Rule: Rule{Pricing: PricingVCG, Settle: SettleMetered,
			Clarke: []string{ClarkeClient, ClarkeTask}[n%2]}}
		agents, clients, slots := 1+rng.IntN(3), 1+rng.IntN(4), 0
		for k := range agents {
			free := 1 + rng.IntN(4)
			slots += free
			r.Agents = append(r.Agents, Supply{AgentID(fmt.Sprint("a", k)), []Tier{{Slots: free}}})
		}
		for j := range 40 {
			r.Tasks = append(r.Tasks, Task{ID: TaskID(fmt.Sprintf("t%02d", j)),
				Client: fmt.Sprint("c", rng.IntN(clients)*rng.IntN(2))})
			for k := range agents {
				if rng.IntN(4) > 0 {
					r.Edges = append(r.Edges, Edge{Task: j, Agent: k, Value: Credits(1 + rng.IntN(1000))})
				}
			}
		}
		most := MostKept(r.Rule.Clarke, agents, slots)
		got := r
		if k := p.Prune(&got, len(r.Tasks), 0); len(k.Tasks) > most {
			t.Fatalf("seed %d, round %d: %d tasks are kept, at most %d were to be\n%+v", seed, n, len(k.Tasks),
				most, r)
		} else if len(k.Tasks) == most {
			full[r.Rule.Clarke]++
		}
	}
	if full[ClarkeClient] == 0 || full[ClarkeTask] == 0 {
		t.Errorf("seed %d: rounds that keep as many as they can: %v: the test sees nothing", seed, full)
	}
}

// At the limit the latest to come are out, whatever was bid: what is left is the round of those that came
// before them, pruned, and it shares no memory with the whole one.
func TestPruneAtTheLimit(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 71))
	var p, q Pruner
	beyond, returned := 0, 0
	for n := range times(2000) {
		r := crowdRound(rng, n)
		limit, show := 1+rng.IntN(len(r.Tasks)), rng.IntN(3)
		got := r
		k := p.Prune(&got, limit, show)
		if len(got.Tasks) > limit || len(got.Tasks) != len(k.Tasks) || len(got.Agents) != len(k.Agents) ||
			len(got.Edges) != len(k.Edges) || got.Pruned.Beyond != len(k.OverLimit) ||
			got.Pruned.Tasks != len(k.Outbid) || got.Pruned.Waiting != len(k.Waiting) {
			t.Fatalf("seed %d, round %d: limit %d, %+v\n%+v", seed, n, limit, got, k)
		}
		first := len(r.Tasks) // of those beyond
		for _, j := range k.OverLimit {
			first = min(first, int(j))
		}
		some := r
		some.Edges, some.Parts = nil, nil
		for i, e := range r.Edges {
			if e.Task < first {
				some.Edges = append(some.Edges, e)
				if r.Parts != nil {
					some.Parts = append(some.Parts, r.Parts[i])
				}
			}
		}
		q.Prune(&some, len(r.Tasks), show)
		some.Pruned.Beyond = got.Pruned.Beyond
		if d := gocmp.Diff(some, got); d != "" {
			t.Fatalf("seed %d, round %d: limit %d, -as if the others had not come +got\n%s", seed, n, limit,
				d)
		}
		if len(k.OverLimit) > 0 {
			beyond++
			all := r
			q.Prune(&all, len(r.Tasks), 0)
			if len(got.Tasks) > 0 && got.Pruned.Tasks < all.Pruned.Tasks {
				returned++
			}
		}
		data := got.AppendCanonical(nil)
		for i := range r.Edges {
			r.Edges[i] = Edge{}
		}
		for i := range r.Agents {
			r.Agents[i].Tiers[0] = Tier{}
		}
		for i := range r.Tasks {
			if r.Tasks[i].Wait != nil {
				*r.Tasks[i].Wait = Wait{}
			}
		}
		if !slices.Equal(got.AppendCanonical(nil), data) {
			t.Fatalf("seed %d, round %d: it shares memory with the whole round", seed, n)
		}
	}
	if beyond == 0 || returned == 0 {
		t.Errorf("%d rounds at the limit, in %d tasks came back: the test sees nothing", beyond, returned)
	}
}

// Every task is somewhere: kept, outbid, waiting, beyond, or without an edge that adds anything. Each edge of
// those that came in time is kept or counted, and the others that are shown are the best of those.
func TestPrunedTasksAreAccountedFor(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 72))
	var p Pruner
	seen := map[string]int{}
	for n := range times(2000) {
		r := crowdRound(rng, n)
		show := rng.IntN(4)
		got := r
		k := p.Prune(&got, 1+rng.IntN(9), show)
		if err := got.Validate(); err != nil {
			t.Fatalf("seed %d, round %d: %v", seed, n, err)
		}
		edges := 0
		for j, task := range r.Tasks {
			best, gross := Credits(-1<<62), Credits(-1<<62)
			own := 0
			for _, e := range r.Edges {
				if e.Task == j {
					own++
					w := e.Weight(r.Agents[e.Agent].Tiers[0], r.Fee)
					best, gross = max(best, w-task.loss()), max(gross, w)
				}
			}
			if own == 0 {
				continue // nothing to say of it
			}
			where := ""
			for name, list := range map[string][]int32{"kept": k.Tasks, "outbid": k.Outbid,
				"waiting": k.Waiting, "beyond": k.OverLimit} {
				if slices.Contains(list, int32(j)) {
					where += name
				}
			}
			seen[where]++
			switch {
			case (where == "kept" || where == "outbid") && best < 0,
				where == "waiting" && (best >= 0 || gross < 0),
				where == "" && gross >= 0, len(where) > 7:
				t.Fatalf("seed %d, round %d: task %s with edges of at most %d, %d without its wait, is %q",
					seed,
					n, task.ID, best, gross, where)
			}
			if where != "beyond" {
				edges += own
			}
		}
		if edges != len(got.Edges)+got.Pruned.Edges {
			t.Fatalf("seed %d, round %d: %d edges, %d kept and %d pruned", seed, n, edges, len(got.Edges),
				got.Pruned.Edges)
		}
		checkOthers(t, seed, n, &r, &got, k, show)
	}
	for _, where := range []string{"kept", "outbid", "waiting", "beyond"} {
		if seen[where] == 0 {
			t.Errorf("no task was %s: the test sees nothing", where)
		}
	}
}

func checkOthers(t *testing.T, seed uint64, n int, r, got *Round, k *Kept, show int) {
	t.Helper()
	for at, j := range k.Tasks {
		var rest []Edge
		for i, e := range r.Edges {
			if e.Task == int(j) && !slices.Contains(k.Edges, int32(i)) {
				rest = append(rest, e)
			}
		}
		weight := func(e Edge) Credits { return e.Weight(r.Agents[e.Agent].Tiers[0], r.Fee) }
		slices.SortStableFunc(rest, func(a, b Edge) int { return cmp.Compare(weight(b), weight(a)) })
		rest = rest[:min(show, len(rest))]
		slices.SortFunc(rest, compareEdges)
		var shown []Edge
		for _, e := range got.Others {
			if e.Task == at {
				e.Task, e.Agent = int(j), int(k.Agents[e.Agent])
				shown = append(shown, e)
			}
		}
		if !slices.Equal(rest, shown) {
			t.Fatalf("seed %d, round %d: of task %s it shows %+v, want %+v", seed, n, r.Tasks[j].ID, shown,
				rest)
		}
	}
}

// Under posted all stand in line: nothing is pruned, the first to come stay, and no task has a wait.
func TestPruneUnderPosted(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 73))
	var p Pruner
	for n := range times(500) {
		r := crowdRound(rng, n)
		r.Rule.Pricing, r.Rule.Instead = PricingPosted, PricingVCG
		got := r
		k := p.Prune(&got, 4, 3)
		want := 0
		for _, e := range r.Edges {
			if slices.Contains(k.Tasks, int32(e.Task)) {
				want++
			}
		}
		if len(got.Edges) != want || len(got.Tasks) > 4 || len(got.Tasks) < 4 && len(k.OverLimit) > 0 ||
			(got.Pruned != Pruned{Beyond: len(k.OverLimit)}) || len(got.Others) > 0 {
			t.Fatalf("seed %d, round %d: %+v", seed, n, got)
		}
		o, err := Clear(got)
		if err == nil {
			err = Check(got, o)
		}
		if err != nil {
			t.Fatalf("seed %d, round %d: %v", seed, n, err)
		}
	}
}

// Those that rank first are found whatever the order, many of them equal, and also where it is as bad as can
// be.
func TestChoose(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 3))
	for range 3000 {
		list := make([]item, 2+r.IntN(300))
		for i := range list {
			list[i] = item{weight: r.Int64N(1 + r.Int64N(50)), order: r.Int64N(20), edge: int32(i)}
		}
		switch r.IntN(3) {
		case 0:
			slices.SortFunc(list, rank)
		case 1: // by what takes quick selection longest with the middle of three
			for i := range list {
				list[i].weight = int64(i * (1 - 2*(i%2)))
			}
		}
		n := 1 + r.IntN(len(list)-1)
		want := slices.SortedFunc(slices.Values(list), rank)[:n]
		choose(list, n)
		got := slices.SortedFunc(slices.Values(list[:n]), rank)
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: of %d the first %d are %v, want %v", seed, len(list), n, got, want)
		}
	}
}

func rank(a, b item) int {
	if a.before(&b) {
		return -1
	}
	return 1
}

// So it is of crowds too large to try every assignment of, where many bids are equal: what is left has the
// welfare, slot prices and bills that the whole round has when all of it is cleared.
func TestPrunedCrowdsAreTheWholeOnes(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 74))
	var p Pruner
	dropped := 0
	for n := range times(1000) {
		r := Round{Domain: "math", Number: 2, Rule: DefaultRule}
		r.Rule.Clarke = []string{ClarkeTask, ClarkeClient}[n%2]
		agents, tasks, clients, scale := 2+rng.IntN(5), 20+rng.IntN(60), 1+rng.IntN(12), 1+rng.Int64N(12)
		for i := range agents {
			r.Agents = append(r.Agents, Supply{AgentID(fmt.Sprint("a", i)), []Tier{{1 + rng.IntN(3), 0}}})
		}
		for j := range tasks {
			c := rng.IntN(clients)
			r.Tasks = append(r.Tasks, Task{ID: TaskID(fmt.Sprintf("c%02d/t%02d", c, j)),
				Client: fmt.Sprintf("c%02d", c)})
			for i := range agents {
				if rng.IntN(4) > 0 {
					r.Edges = append(r.Edges, Edge{j, i, Credits(rng.Int64N(1 + scale)), 0, 0})
				}
			}
		}
		r.Sort()
		pruned := r
		p.Prune(&pruned, len(r.Tasks), 0)
		dropped += pruned.Pruned.Edges
		whole, err := Clear(r)
		if err != nil {
			t.Fatal(err)
		}
		o, err := Clear(pruned)
		if err == nil {
			err = Check(pruned, o)
		}
		if err != nil {
			t.Fatalf("seed %d, round %d: %v", seed, n, err)
		}
		if o.Welfare != whole.Welfare {
			t.Fatalf("seed %d, round %d: welfare is %s, of all that wait %s", seed, n, o.Welfare,
				whole.Welfare)
		}
		for i, a := range r.Agents {
			got := Credits(0)
			same := func(x Supply) bool { return x.Agent == a.Agent }
			if k := slices.IndexFunc(pruned.Agents, same); k >= 0 {
				got = o.priceOf(k, 0)
			}
			if want := whole.priceOf(i, 0); got != want {
				t.Fatalf("seed %d, round %d: a slot of %s costs %s, of all that wait %s", seed, n, a.Agent, got,
					want)
			}
		}
		keeps := func(o *Outcome) map[string]Credits { // the same in each of equally good rounds
			sum := map[string]Credits{}
			for _, a := range o.Awards {
				client, _, _ := strings.Cut(string(a.Task), "/")
				sum[client] += a.Value - a.Cost - a.Premium
			}
			return sum
		}
		got := keeps(&o)
		for client, want := range keeps(&whole) {
			if r.Rule.Clarke == ClarkeClient && got[client] != want {
				t.Fatalf("seed %d, round %d: %s keeps %s, of all that wait %s", seed, n, client,
					got[client], want)
			}
		}
	}
	if dropped == 0 {
		t.Error("nothing was dropped: the test sees nothing")
	}
}
