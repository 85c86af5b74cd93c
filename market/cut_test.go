package market

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
)

// crowdRound is a small round in which many tasks want few slots: several clients, seats to come, tolls,
// ties, and edges that lose.
func crowdRound(rng *rand.Rand, n int) Round {
	scale := []int64{3, 8, 1_000_000}[n%3]
	r := Round{Domain: "math", Number: uint64(2 + n), Fee: Credits(rng.Int64N(1 + scale/4)),
		Rule: Rule{Pricing: PricingVCG, Settle: SettleMetered,
			Clarke: []string{ClarkeTask, ClarkeClient}[n/3%2]}}
	tasks, agents, clients := 1+rng.IntN(8), 1+rng.IntN(4), 1+rng.IntN(5)
	for i := range agents {
		s := Supply{Agent: AgentID(fmt.Sprint("a", i)), Seats: randomSeats(rng)}
		if rng.IntN(10) == 0 {
			s.Seats = nil
		}
		r.Agents = append(r.Agents, s)
	}
	for j := range tasks {
		c := rng.IntN(clients)
		t := Task{ID: TaskID(fmt.Sprintf("c%d/t%d", c, j)), Client: fmt.Sprint("c", c)}
		if rng.IntN(3) > 0 {
			t.Second = Credits(rng.Int64N(1 + scale))
		}
		t.Turn = rng.IntN(3)
		r.Tasks = append(r.Tasks, t)
		for i := range agents {
			if rng.IntN(5) > 0 {
				toll := rng.Int64N(1 + scale/6)
				r.Edges = append(r.Edges, Edge{j, i, Credits(1 + rng.Int64N(2*scale)),
					Credits(rng.Int64N(1 + scale/3)), -Credits(toll),
					Credits(rng.Int64N(1+toll) * rng.Int64N(2))})
			}
		}
	}
	r.Sort()
	return r
}

// plans tries every assignment of a round, without a client's tasks and one more task, and shares no code
// with the solver.
type plans struct {
	r     *Round
	seats []seat
	task  [][]option // of each task: the seats where it loses nothing
	memo  map[string]Credits
}

type option struct {
	seat   int
	weight Credits
}

func newPlans(r *Round) *plans {
	p := &plans{r: r, task: make([][]option, len(r.Tasks))}
	for i, a := range r.Agents {
		for k, s := range a.Seats {
			for _, e := range r.Edges {
				t := r.Tasks[e.Task]
				w := e.Value - PerSecond(t.Second, s.In) - e.Cost + e.Toll - r.Fee
				if e.Agent == i && w >= 0 {
					p.task[e.Task] = append(p.task[e.Task], option{len(p.seats), w})
				}
			}
			p.seats = append(p.seats, seat{int32(i), int32(k)})
		}
	}
	return p
}

// best is the greatest welfare without the tasks that out names.
func (p *plans) best(out func(t int) bool) Credits {
	free := make([]byte, len(p.seats))
	for s, at := range p.seats {
		free[s] = byte(min(200, p.r.Agents[at.agent].Seats[at.at].Slots))
	}
	p.memo = map[string]Credits{}
	return p.from(0, free, out)
}

func (p *plans) from(t int, free []byte, out func(t int) bool) Credits {
	if t == len(p.task) {
		return 0
	}
	key := string(append([]byte{byte(t)}, free...))
	if w, ok := p.memo[key]; ok {
		return w
	}
	best := p.from(t+1, free, out)
	if !out(t) {
		for _, x := range p.task[t] {
			if free[x.seat] > 0 {
				free[x.seat]--
				best = max(best, x.weight+p.from(t+1, free, out))
				free[x.seat]++
			}
		}
	}
	p.memo[key] = best
	return best
}

// moreOf finds how much one more slot at an agent's first seat would have added: to somebody who has none of
// now there, less what he has, by the places of a plan.
func (p *plans) moreOf(agent int, keeps []time.Duration, share uint32, at []Place, free []Credits,
	of func(Task) bool) (most Credits) {
	p.wish(agent, share, at, free, of, func(e int, x, own, _ Credits) {
		most = max(most, perSecond(x-own, keeps[e]))
	})
	return most
}

// besideOf finds the greatest price of a second at which somebody who waits for an agent, and would have more
// there, had as much at another agent's slot that nobody takes.
func (p *plans) besideOf(agent int, keeps []time.Duration, share uint32, at []Place, free []Credits,
	of func(Task) bool) (most Credits) {
	p.wish(agent, share, at, free, of, func(e int, x, own, vacant Credits) {
		if vacant > 0 && x > own {
			most = max(most, perSecond(x-vacant, keeps[e]))
		}
	})
	return most
}

// wish calls each with the edges of tasks that might have one more slot at an agent, unless one is free: with
// what a task would have there, what it has in the plan, and if it waits what it would have at a slot that
// nobody takes.
func (p *plans) wish(agent int, share uint32, at []Place, free []Credits, of func(Task) bool,
	each func(e int, x, own, vacant Credits)) {
	r := p.r
	idle := func(agent int) (n int) {
		for _, s := range r.Agents[agent].Seats {
			if !s.Later {
				n += s.Slots
			}
		}
		for _, x := range at {
			if int(x.Agent) == agent && !x.Later {
				n--
			}
		}
		return n
	}
	if idle(agent) > 0 {
		return
	}
	for i, e := range r.Edges {
		if e.Agent != agent || !of(r.Tasks[e.Task]) || len(r.Agents[agent].Seats) == 0 {
			continue
		}
		has, own, vacant := at[e.Task], Credits(0), Credits(0)
		switch {
		case has.Agent < 0:
		case has.Later:
			own = (has.Weight - free[e.Task]) * Credits(share) / FullShare
		case int(has.Agent) == agent:
			continue
		default:
			own = has.Weight - free[e.Task]
		}
		for _, f := range r.Edges {
			if f.Task == e.Task && (has.Agent < 0 || has.Later) && idle(f.Agent) > 0 {
				vacant = max(vacant, f.Value-f.Cost+f.Toll-r.Fee)
			}
		}
		late := PerSecond(r.Tasks[e.Task].Second, r.Agents[agent].Seats[0].In)
		each(i, e.Value-late-e.Cost-r.Fee, own, vacant)
	}
}

// keepsOf has the tasks of a round keep slots for a second each; with rng for 0 to 4 s.
func keepsOf(rng *rand.Rand, r *Round) []time.Duration {
	keeps := make([]time.Duration, len(r.Edges))
	for i := range keeps {
		keeps[i] = time.Second
		if rng != nil {
			keeps[i] = time.Duration(rng.IntN(40_000)) * PrefillStep
		}
	}
	return keeps
}

// Whatever is cut out of a round, what is left has, with the tasks that were cut at their places, the whole
// round's welfare, slot prices and bills, under either Clarke rule, and its awards where no others are as
// good; and what one more slot would have added is what it says. The whole is tried out: every plan, without
// each client and without each task.
func TestCutRoundsAreTheWholeOnes(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 70))
	var c Cutter
	saw := map[string]int{}
	for n := range times(10_000) {
		r := crowdRound(rng, n)
		share := uint32(rng.IntN(FullShare + 1))
		cut := r
		keeps := keepsOf(rng, &r)
		var room []uint8
		if n%2 == 0 {
			for range r.Agents {
				room = append(room, uint8(rng.IntN(FullRoom+1)))
			}
		}
		kept, err := c.Cut(&cut, keeps, share, room, 3, nil)
		if err != nil {
			t.Fatalf("seed %d, round %d: %v", seed, n, err)
		}
		fail := func(format string, args ...any) {
			t.Helper()
			t.Fatalf("seed %d, round %d: %s\nwhole: %+v\ncut: %+v\n%+v", seed, n, fmt.Sprintf(format, args...), r,
				cut, kept)
		}
		o, err := Clear(cut)
		if err == nil {
			err = Check(cut, o)
		}
		if err != nil {
			fail("%v", err)
		}
		whole, err := Clear(r)
		if err != nil {
			fail("%v", err)
		}
		checkCut(&r, &cut, kept, &o, &whole, saw, fail)
		checkBills(&r, &cut, kept, &o, &whole, saw, fail)
		p := newPlans(&r)
		free := make([]Credits, len(r.Tasks))
		for j, at := range kept.At {
			if at.Agent >= 0 {
				free[j] = whole.priceOf(int(at.Agent), int(at.Seat))
				if n%4 == 0 {
					free[j] = p.best(func(t int) bool { return t == j }) - (whole.Welfare - at.Weight)
				}
				if at.Price != free[j] {
					fail("task %d: its slot is worth %d to others, want %d", j, at.Price, free[j])
				}
			}
		}
		if n%4 == 0 && whole.Welfare != p.best(func(int) bool { return false }) {
			fail("welfare of the whole is %d", whole.Welfare)
		}
		for i := range r.Agents {
			at := kept.At
			more := func(of func(Task) bool) Credits { return p.moreOf(i, keeps, share, at, free, of) }
			beside := func(of func(Task) bool) Credits { return p.besideOf(i, keeps, share, at, free, of) }
			w := &kept.Wants[i]
			for _, m := range []struct {
				Most
				what string
				of   func(of func(Task) bool) Credits
			}{{w.More, "more", more}, {w.Beside, "more beside a free slot", beside}} {
				all := m.of(func(Task) bool { return true })
				others := m.of(func(t Task) bool { return t.Client != m.Client })
				if m.All != all || m.Others != others {
					fail("one more slot at agent %d: %s is %d, and %d of others than %q; want %d and %d", i, m.what,
						m.All, m.Others, m.Client, all, others)
				}
				if m.All > 0 {
					saw[m.what]++
				}
			}
		}
		checkWants(&r, &cut, kept, &o, keeps, share, fail)
	}
	for _, what := range []string{"cut tasks", "cut edges", "ties", "bills", "more",
		"more beside a free slot", "waits",
		"several of one cut"} {
		if saw[what] == 0 {
			t.Errorf("%v: the test sees no %s", saw, what)
		}
	}
	t.Log(saw)
}

// checkWants has the record of a round want what the round did, of each agent that has a seat there.
func checkWants(r, cut *Round, kept *Kept, o *Outcome, keeps []time.Duration, share uint32,
	fail func(string, ...any)) {
	at := make([]Place, len(r.Tasks)) // as the record clears
	for i := range at {
		at[i].Agent = -1
	}
	next := 0
	for _, x := range o.Awards {
		for cut.Tasks[next].ID != x.Task {
			next++
		}
		a, _ := cut.place(x.Agent)
		at[kept.Tasks[next]] = Place{Agent: kept.Agents[a]}
	}
	for _, p := range o.Planned {
		at[kept.Tasks[p.Task]] = Place{Agent: kept.Agents[p.Agent], Later: true}
	}
	for _, t := range kept.Tasks {
		if x := &kept.At[t]; at[t].Agent != x.Agent || at[t].Later != x.Later {
			return // of plans as good as each other it has another one
		}
	}
	var w wants
	full, ok := w.planned(cut, o, share, func(a int) bool { return kept.free[kept.Agents[a]] > 0 })
	if !ok {
		fail("the outcome is none of the record's")
	}
	var of []time.Duration
	for _, e := range kept.Edges {
		of = append(of, keeps[e])
	}
	if full {
		w.find(cut, of)
	}
	for a, i := range kept.Agents {
		if s := cut.Agents[a].Seats; len(s) == 0 || s[0].In != r.Agents[i].Seats[0].In {
			continue // tasks that are left out have the first
		}
		for k, m := range [2][2]Most{{kept.Wants[i].More, w.Wants[a].More},
			{kept.Wants[i].Beside, w.Wants[a].Beside}} {
			if m[0].All != m[1].All || m[0].Client != m[1].Client || m[0].Others != m[1].Others {
				fail("agent %d, %d: the round wants %+v, its record %+v", i, k, m[0], m[1])
			}
		}
	}
}

// checkCut compares welfare, awards and slot prices.
func checkCut(r, cut *Round, kept *Kept, o, whole *Outcome, saw map[string]int, fail func(string, ...any)) {
	welfare := o.Welfare
	for j, at := range kept.At {
		if slices.Contains(kept.Tasks, int32(j)) {
			continue
		}
		saw["cut tasks"]++
		if at.Agent >= 0 {
			if !at.Later {
				fail("task %d has a slot of now and was cut", j)
			}
			welfare += at.Weight
			if e := edgeOf(r, j, int(at.Agent)); at.Weight != r.Weight(*e, int(at.Seat)) {
				fail("task %d: weight %d", j, at.Weight)
			}
		}
	}
	saw["cut edges"] += cut.Pruned.Edges
	if welfare != whole.Welfare {
		fail("with those that were cut its welfare is %d, want %d", welfare, whole.Welfare)
	}
	price := func(r *Round, o *Outcome) map[string]Credits {
		list := map[string]Credits{}
		for i, a := range r.Agents {
			for k, s := range a.Seats {
				list[fmt.Sprint(a.Agent, s.In, s.Later)] += 0 // there may be two at one time, of one price
				if p := o.priceOf(i, k); p > 0 {
					list[fmt.Sprint(a.Agent, s.In, s.Later)] = p
				}
			}
		}
		return list
	}
	all := price(r, whole)
	for at, p := range price(cut, o) {
		if all[at] != p {
			fail("a slot of %s costs %d, want %d", at, p, all[at])
		}
	}
	saw["ties"] += len(o.Ties)
	saw["waits"] += len(o.Planned)
	turns := func(r *Round, o *Outcome) (sum int) {
		for _, p := range placesOf(r, o) {
			if p.award != nil {
				sum += MaxTurn - r.Tasks[p.task].Turn
			}
		}
		return sum
	}
	if is, was := turns(cut, o), turns(r, whole); len(o.Awards) != len(whole.Awards) || is != was {
		fail("%d begin, of turns %d, want %d of %d", len(o.Awards), is, len(whole.Awards), was)
	}
	if !alone(r) {
		return
	}
	awards, was := slices.Clone(o.Awards), slices.Clone(whole.Awards)
	for i := range awards { // seats that were cut are not counted
		awards[i].Seat = 0
	}
	for i := range was {
		was[i].Seat = 0
	}
	if d := gocmp.Diff(was, awards); d != "" {
		fail("other awards:\n%s", d)
	}
	for _, p := range o.Planned {
		at := kept.At[kept.Tasks[p.Task]]
		if s := r.Agents[at.Agent].Seats[at.Seat]; kept.Agents[p.Agent] != at.Agent || !at.Later ||
			s.In != cut.Agents[p.Agent].Seats[p.Seat].In {
			fail("task %d waits elsewhere", p.Task)
		}
	}
}

// alone reports whether no other plan is as good.
func alone(r *Round) bool {
	var ws workspace
	ws.layout.of(r)
	p := ws.layout.problem()
	if err := ws.solver.Solve(&p, nil); err != nil {
		panic(err)
	}
	return ws.solver.Settle(&p, func(t, a int32) uint64 { return 0 }) == nil
}

// checkBills compares what each client is left with, its seats to come counted as if they were paid: the same
// in each of equally good plans.
func checkBills(r, cut *Round, kept *Kept, o, whole *Outcome, saw map[string]int, fail func(string, ...any)) {
	clients := map[string]int{}
	for _, x := range r.Tasks {
		clients[x.Client]++
	}
	for client, tasks := range clients {
		var own, owes, prices, wants Credits // of what was cut, and of the whole
		pays, left := false, 0
		var mine []placed
		for _, p := range placesOf(cut, o) {
			if cut.Tasks[p.task].Client == client {
				mine, own, prices = append(mine, p), own+p.weight, prices+p.price
				pays = pays || p.award != nil && p.price > 0
			}
		}
		for _, x := range cut.Tasks {
			if x.Client == client {
				left++
			}
		}
		if tasks > 1 && left < tasks && left > 0 {
			saw["several of one cut"]++
		}
		if !pays {
			for _, p := range mine { // nothing but tolls and fees
				if a := p.award; a != nil && a.Premium != -a.Toll-edgeOf(cut, p.task, p.agent).Own {
					fail("task %s owes %d", a.Task, a.Premium)
				}
			}
			continue
		}
		cutWeight := Credits(0)
		for j, at := range kept.At {
			if r.Tasks[j].Client == client && at.Agent >= 0 && !slices.Contains(kept.Tasks, int32(j)) {
				cutWeight += at.Weight
			}
		}
		// By the whole round: what the others have more without it.
		wants = prices
		if r.Rule.Clarke == ClarkeClient {
			without := *r
			without.Edges = slices.DeleteFunc(slices.Clone(r.Edges),
				func(e Edge) bool { return r.Tasks[e.Task].Client == client })
			p := newPlans(&without)
			wants = p.best(func(int) bool { return false }) - (whole.Welfare - own - cutWeight)
		}
		if wants < prices {
			saw["bills"]++
		}
		for i, share := range split(wants, mine) {
			p := mine[i]
			a := p.award
			if a == nil {
				continue
			}
			e := edgeOf(cut, p.task, p.agent)
			if owes += a.Premium; a.Premium != share-a.Toll-e.Own {
				fail("task %s owes %d beside %d of toll, its part of %d is %d", a.Task, a.Premium, -a.Toll-e.Own,
					wants, share)
			}
			if a.Premium+e.Own > a.Value-a.Cost {
				fail("task %s owes more than its value", a.Task)
			}
		}
	}
}

// Every task and edge is kept or counted, and the others that are shown are the best of those that were not
// kept, of each task that begins. The round that is left shares no memory with the whole one.
func TestCutRoundsAccountForAll(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 71))
	var c Cutter
	shown := 0
	for n := range times(2000) {
		r := crowdRound(rng, n)
		got, show := r, rng.IntN(4)
		k, err := c.Cut(&got, keepsOf(nil, &got), FullShare, nil, show, nil)
		if err == nil {
			err = got.Validate()
		}
		if err != nil {
			t.Fatalf("seed %d, round %d: %v", seed, n, err)
		}
		if p := got.Pruned; len(got.Tasks)+p.Tasks+p.Planned != len(r.Tasks) ||
			len(got.Edges)+p.Edges != len(r.Edges) || len(k.Tasks) != len(got.Tasks) ||
			len(k.Agents) != len(got.Agents) || len(k.Edges) != len(got.Edges) {
			t.Fatalf("seed %d, round %d: %+v\n%+v", seed, n, got, k)
		}
		for i, e := range got.Edges {
			from := r.Edges[k.Edges[i]]
			if e.Task, e.Agent = int(k.Tasks[e.Task]), int(k.Agents[e.Agent]); e != from {
				t.Fatalf("seed %d, round %d: edge %+v, was %+v", seed, n, e, from)
			}
		}
		shown += len(got.Others)
		checkOthers(t, seed, n, &r, &got, k, show)
		data := got.AppendCanonical(nil)
		clear(r.Edges)
		for i := range r.Agents {
			clear(r.Agents[i].Seats)
		}
		clear(r.Tasks)
		if !slices.Equal(got.AppendCanonical(nil), data) {
			t.Fatalf("seed %d, round %d: it shares memory with the whole round", seed, n)
		}
	}
	if shown == 0 {
		t.Error("no other edge is shown: the test sees nothing")
	}
}

func checkOthers(t *testing.T, seed uint64, n int, r, got *Round, k *Kept, show int) {
	t.Helper()
	for j, at := range k.At {
		var rest, shown []Edge
		for i, e := range r.Edges {
			if e.Task == j && !slices.Contains(k.Edges, int32(i)) && len(r.Agents[e.Agent].Seats) > 0 &&
				at.Agent >= 0 && !at.Later {
				rest = append(rest, e)
			}
		}
		slices.SortStableFunc(rest,
			func(a, b Edge) int { return cmp.Compare(r.Weight(b, 0), r.Weight(a, 0)) })
		rest = rest[:min(show, len(rest))]
		slices.SortFunc(rest, compareEdges)
		for _, e := range got.Others {
			if e.Task, e.Agent = int(k.Tasks[e.Task]), int(k.Agents[e.Agent]); e.Task == j {
				shown = append(shown, e)
			}
		}
		if !slices.Equal(rest, shown) {
			t.Fatalf("seed %d, round %d: of task %s it shows %+v, want %+v", seed, n, r.Tasks[j].ID, shown, rest)
		}
	}
}

// bigCrowd is a round of many tasks whose seconds cost mixed amounts, for agents with free slots and seats to
// come: eight of one slot each, then twice as many each time. worths makes ties where it is small.
func bigCrowd(rng *rand.Rand, tasks, agents, slots, clients int, worths int64) Round {
	r := Round{Domain: "math", Number: 42, Rule: DefaultRule, Fee: 1000}
	for i := range agents {
		s := Supply{Agent: AgentID(fmt.Sprintf("agent-%03d", i)), Seats: open(slots / agents)}
		in := time.Duration(rng.Int64N(int64(200 * time.Millisecond)))
		for k, all := 0, 0; all < tasks; k++ {
			n := 1
			if k >= 8 {
				n = 8 << (k - 8)
			}
			all += n
			s.Seats = append(s.Seats, Seat{n, in, true})
			in += time.Duration(n) * 30 * time.Millisecond
		}
		r.Agents = append(r.Agents, s)
	}
	for j := range tasks {
		client := fmt.Sprintf("client-%03d", j%clients)
		value := 1_000_000 + 1_000*rng.Int64N(1+worths)
		r.Tasks = append(r.Tasks, Task{ID: TaskID(fmt.Sprintf("%s/task-%05d", client, j)), Client: client,
			Second: Credits(value / (1 + rng.Int64N(1+min(100, worths)))), Turn: rng.IntN(9)})
		if rng.IntN(4) == 0 {
			r.Tasks[len(r.Tasks)-1].Within = time.Duration(1 + rng.Int64N(int64(time.Minute)))
		}
		for i := range agents {
			r.Edges = append(r.Edges, Edge{Task: j, Agent: i,
				Value: Credits(value - 1000*rng.Int64N(1+worths/8)),
				Cost:  Credits(100 * rng.Int64N(1+worths/8)), Toll: -Credits(1000 * (i % 3))})
		}
	}
	r.Sort()
	return r
}

// So it is of crowds too large to try every plan of, where many bids are equal: what is left has the welfare,
// slot prices and bills that the whole round has when all of it is cleared.
func TestCutCrowdsAreTheWholeOnes(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 74))
	var c Cutter
	saw := map[string]int{}
	for n := range times(150) {
		agents := 1 + rng.IntN(6)
		r := bigCrowd(rng, 20+rng.IntN(60), agents, agents*(1+rng.IntN(3)), 1+rng.IntN(30),
			[]int64{0, 3, 20, 20_000}[n%4])
		r.Rule.Clarke = []string{ClarkeTask, ClarkeClient}[n/4%2]
		cut := r
		kept, err := c.Cut(&cut, keepsOf(nil, &cut), FullShare, nil, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		fail := func(format string, args ...any) {
			t.Helper()
			t.Fatalf("seed %d, round %d: %s", seed, n, fmt.Sprintf(format, args...))
		}
		o, err := ClearChecked(&cut, nil)
		if err != nil {
			fail("%v", err)
		}
		whole, err := ClearChecked(&r, nil)
		if err != nil {
			fail("%v", err)
		}
		checkCut(&r, &cut, kept, &o, &whole, saw, fail)
		keeps := func(r *Round, o *Outcome) map[string]Credits {
			sum := map[string]Credits{}
			for _, p := range placesOf(r, o) {
				sum[r.Tasks[p.task].Client] += p.weight
			}
			for client, weight := range sum {
				sum[client] -= externality(r, o, client, weight)
			}
			return sum
		}
		if r.Rule.Clarke == ClarkeTask {
			continue
		}
		was := keeps(&r, &whole)
		for client, is := range keeps(&cut, &o) {
			pays := false
			for _, p := range placesOf(&cut, &o) {
				pays = pays || cut.Tasks[p.task].Client == client && p.award != nil && p.price > 0
			}
			for j, at := range kept.At {
				if r.Tasks[j].Client == client && at.Agent >= 0 && !slices.Contains(kept.Tasks, int32(j)) {
					is += at.Weight
				}
			}
			if pays && is != was[client] {
				fail("%s keeps %d, of all that wait %d", client, is, was[client])
			}
			if pays {
				saw["bills"]++
			}
		}
	}
	if saw["cut tasks"] == 0 || saw["bills"] == 0 {
		t.Errorf("%v: the test sees nothing", saw)
	}
	t.Log(saw)
}
