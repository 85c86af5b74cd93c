package hub

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"souk/hub/regime"
	"souk/hub/round"
	"souk/market"
)

// scratch is what a round is made of, in memory that the next one uses again.
type scratch struct {
	tasks  []*task       // that wait, by arrival
	out    int           // who wait, too, and are left out, as they are too many
	agents []*agent      // that take tasks, now or as soon as they have a slot, by id
	sides  []round.Agent // what the round needs of each
	loads  []backlog     // of each
	at     []int32       // in agents, from 1, by the place of a cache; 0: none
	pairs  []pair
	depths []int32 // how many prefixes of a prompt agents hold, by the place of their cache
	tolls  round.Tolls
	less   map[string]*round.Tolls // tolls without a client
	rows   []held                  // of each agent, for the task at hand
	told   []bool

	// of the regime's tolls, where it is not idle
	seed   [32]byte
	scales []market.Credits // of tasks, the mean of what they would cost
	most   []float64        // of tasks, the largest of their draws

	whole  market.Round // of all that wait, by arrival, before it is cut
	edged  []*task      // its tasks
	within int          // of these, the first so many are in the round
	edges  []int32      // of its edges: their pairs
	cutter market.Cutter
	rest   market.Round // what is left of it
	won    []won        // its awards
	left   []*task      // the tasks of what is left, by id
	seen   []seenAt
}

// pair is a task and an agent that may meet, whatever is bid.
type pair struct {
	task, agent      int32         // in scratch
	first            time.Duration // to the first token, prompts before it aside
	half             time.Duration // within which it comes as often as not, these included
	service, prefill time.Duration
	value, cost      market.Credits // value as it stands now, all that was waited included
	saved            market.Credits // by what the agent holds
	toll, own        market.Credits
}

const (
	// maxSeats bounds the agents of a round, so that the solver's sums hold for the dearest tasks
	// (market.MaxWorth).
	maxSeats = 4000
	// mostTasks and maxPairs bound the tasks of a round, and the pairs that it weighs, 40 MB.
	mostTasks = 2048
	maxPairs  = 1 << 19
	// shown is how many agents a round's record names that a task might have had instead.
	shown = 3
	// again is how soon those are looked at again who wait beside a slot that is free, and who is nearly
	// worth no more than it costs.
	again = 50 * time.Millisecond
)

// planning is what is known of slots and their prices, beyond the agents themselves.
type planning struct {
	kept    round.Kept
	classes map[string]*round.Class
	again   timer
	rest    bool // the next round is of those that the last had no room for, and of nobody that it left
	spent   spent
}

// due implements timed.
func (p *planning) due(n *Node) { n.news() }

// classOf is what agents of a class share. Classes that no agent of the roster is of are forgotten once there
// are many.
func (n *Node) classOf(class string) *round.Class {
	p := &n.plan
	c := p.classes[class]
	if c == nil {
		if len(p.classes) > 4*n.cfg.MaxAgents || p.classes == nil {
			p.classes = map[string]*round.Class{}
			for _, a := range n.roster {
				if a.alike != nil {
					p.classes[a.model+"/"+a.class] = a.alike
				}
			}
		}
		c = new(round.Class)
		p.classes[class] = c
	}
	return c
}

// open reports whether an agent takes tasks, now or as soon as it has a slot.
func (a *agent) open(n *Node) bool { return a.there(n) && n.nano >= a.avoidUntil }

// there reports whether it does but for what it refused a moment ago.
func (a *agent) there(n *Node) bool {
	return a.joined && a.sells && n.nano <= a.silentFrom && a.ready && a.listed
}

// itl is the time between tokens of an agent; where none was seen, a quarter of the slowest expected.
func (n *Node) itl(a *agent) time.Duration {
	return cmp.Or(a.predictor.ITL(), n.cfg.Prior.Slowest/4)
}

// clear holds a round of all that wait. Who is given no slot waits for news.
func (n *Node) clear() {
	n.collect()
	n.meet()
	n.judgePairs()
	r := n.assemble()
	if err := n.sell(r); err != nil {
		n.fault(fmt.Errorf("round %d is not awarded: %w", r.Number, err))
	}
	n.leaves()
	n.unsown()
}

// collect takes the tasks that wait and the agents that are open.
func (n *Node) collect() {
	s := &n.round
	n.letsIn()
	if !n.plan.rest {
		n.batch.Wake()
	}
	n.plan.rest = false
	n.standUp()
	s.tasks = n.fit(n.take(s.tasks[:0]))
	n.batch.Cleared(n.now)
	n.agree(s.tasks)
	for _, t := range s.tasks {
		t.met, t.barred = true, false
		t.waited, t.left = n.now.Sub(t.waits()), t.deadline.Sub(n.now)
	}
	n.admitted()
	round.Seat(s.sides, len(s.tasks))
}

// fit leaves out of a round those who are too many for it: see [round.Fit].
func (n *Node) fit(all []*task) []*task {
	s := &n.round
	s.out = 0
	most := min(mostTasks, maxPairs/max(1, len(s.agents)))
	if len(all) <= most {
		return all
	}
	clients := make([]string, len(all))
	for i, t := range all {
		clients[i] = t.key.client
	}
	in := all[:0]
	for i, fits := range round.Fit(clients, most) {
		if t := all[i]; fits {
			in = append(in, t)
		} else {
			n.batch.Leave(t, t.arrived)
			s.out++
		}
	}
	clear(all[len(in):])
	return in
}

// standUp finds out which agents take tasks, and what a round needs of each.
func (n *Node) standUp() {
	s := &n.round
	s.agents, s.sides, s.loads = s.agents[:0], s.sides[:0], s.loads[:0]
	clear(s.at)
	for _, a := range n.roster {
		if !a.open(n) {
			continue
		}
		k, in := len(s.agents), n.backlog(a)
		s.agents, s.loads = append(s.agents, a), append(s.loads, in)
		if k < cap(s.sides) {
			s.sides = s.sides[:k+1] // with the memory of its seats
		} else {
			s.sides = append(s.sides, round.Agent{})
		}
		x := &s.sides[k]
		*x = round.Agent{ID: market.AgentID(a.id), Class: a.alike, Rate: &a.slotRate, Slots: a.slots,
			Second: a.slotRate.Price(n.nano), Running: len(a.holds) + a.stuck, Free: a.idle(),
			Ahead: in.Queue, Seats: x.Seats}
		for _, h := range a.holds {
			if x.Age = n.now.Sub(h.sent); x.Age <= round.Overdue*a.alike.Service() {
				x.Since = h.sent.UnixNano()
				break
			}
			x.Overdue++
		}
		if a.stuck > 0 { // when it ends nobody knows
			x.Overdue, x.Age = x.Overdue+a.stuck, max(x.Age, n.now.Sub(a.excessSince))
		}
		place := int(a.place)
		for place >= len(s.at) {
			s.at = append(s.at, 0)
		}
		s.at[place] = int32(k) + 1
	}
}

// meet finds out what every task would have of every agent that may serve it, and what its slot costs.
func (n *Node) meet() {
	s := &n.round
	s.pairs = s.pairs[:0]
	s.tolls = round.NewTolls(n.nano, s.sides)
	s.less = map[string]*round.Tolls{}
	for i, t := range s.tasks {
		s.rows, s.told = resized(s.rows, len(s.agents)), resized(s.told, len(s.agents))
		holds := n.heldOf(t)
		for k := range holds {
			h := &holds[k]
			if int(h.Place) < len(s.at) && s.at[h.Place] > 0 {
				at := s.at[h.Place] - 1
				s.rows[at], s.told[at] = h.of(s.agents[at], t), true
			}
		}
		tolls := n.without(t)
		for k, a := range s.agents {
			if !a.suits(t) {
				continue
			}
			if !t.lets(k) {
				t.barred = true
				continue
			}
			held := s.rows[k]
			if !s.told[k] {
				held = a.cold(t)
			}
			if p, ok := n.pair(t, k, held); ok {
				p.task = int32(i)
				toll := s.tolls.Of(k, p.service, p.prefill)
				p.toll = -toll
				if tolls != nil {
					p.own = toll - min(toll, tolls.Of(k, p.service, p.prefill))
				}
				s.pairs = append(s.pairs, p)
			}
		}
	}
	n.tolled()
}

// without are the tolls had the client of a task not been there; nil if they are the same.
func (n *Node) without(t *task) *round.Tolls {
	s := &n.round
	client := t.key.client
	if x, ok := s.less[client]; ok {
		return x
	}
	run := make([]int, len(s.agents))
	differs := false
	for k, a := range s.agents {
		for _, h := range a.holds {
			if h.rec.Client == client {
				run[k]++
				differs = true
			}
		}
		differs = differs || a.slotRate.Owes(client)
	}
	if !differs {
		s.less[client] = nil
		return nil
	}
	x := s.tolls.Without(client, run)
	s.less[client] = &x
	return &x
}

// pair is what a task would have of the k-th agent, which holds so much of its prompt; false if that may not
// serve it in time.
func (n *Node) pair(t *task, k int, held held) (pair, bool) {
	a := n.round.agents[k]
	q := n.noted(t, a, held)
	if !a.takes(q.prompt) {
		return pair{}, false
	}
	in := n.round.loads[k]
	ttft := a.predictor.Later(q.first, q.work, in)
	p := pair{agent: int32(k), first: max(0, ttft-in.Queue), half: a.predictor.Half(ttft), cost: q.cost,
		prefill: q.computes, service: a.alike.Service()}
	if p.half > t.left {
		t.short = true
		return pair{}, false
	}
	// A hold cannot exceed the reservation, so no more is offered than that. The reservation covers every
	// quote as it stood when the task came.
	p.value = min(q.room(t.reserved), t.stated().Value(market.Quote{TTFT: t.waited + p.first, Cost: q.cost,
		Quality: q.quality}))
	if !n.plain() {
		p.saved = a.saves(q.prompt, q.output, q.cost)
	}
	return p, true
}

// resized is a list of so many zeros, in its memory.
func resized[T any](list []T, n int) []T {
	list = slices.Grow(list[:0], n)[:n]
	clear(list)
	return list
}

// tolled adds the regime's toll to every task and agent that may meet, whatever was bid. The scale and the
// largest draw are taken over all such pairs of the task, not only over those that become edges: bids decide
// which do, and bids must not decide tolls. Nor does it matter which other tasks are in the round.
func (n *Node) tolled() {
	s := &n.round
	if len(s.pairs) == 0 || n.params().Idle() {
		return
	}
	last, prev := n.book.LastRound()
	s.seed = regime.Seed(prev, last+1)
	s.scales, s.most = resized(s.scales, len(s.tasks)), resized(s.most, len(s.tasks))
	var draws []float64
	s.eachTask(func(pairs []pair) {
		i := pairs[0].task
		sum, count := market.Credits(0), market.Credits(0)
		draws = draws[:0]
		for _, x := range pairs {
			draws = append(draws, n.cfg.Parts.Toll.Draw(s.seed, string(s.tasks[i].id), s.agents[x.agent].id))
			if total, ok := sum.Add(x.cost); ok {
				sum, count = total, count+1
			}
		}
		scale, most := sum/max(1, count), slices.Max(draws)
		s.scales[i], s.most[i] = scale, most
		for k := range pairs {
			pairs[k].toll += n.toll(scale, draws[k], most, pairs[k].saved)
		}
	})
}

// eachTask gives the pairs of each task in turn.
func (s *scratch) eachTask(f func([]pair)) {
	for from := 0; from < len(s.pairs); {
		to := from + 1
		for to < len(s.pairs) && s.pairs[to].task == s.pairs[from].task {
			to++
		}
		f(s.pairs[from:to])
		from = to
	}
}

// assemble makes the round of all pairs that are worth their cost, tolls aside.
func (n *Node) assemble() *market.Round {
	s := &n.round
	last, prev := n.book.LastRound()
	w := &s.whole
	*w = market.Round{Domain: n.cfg.Domain, Number: last + 1, Prev: prev, Rule: n.cfg.market(),
		Fee: n.cfg.Fee, Tasks: w.Tasks[:0], Agents: w.Agents[:0], Edges: w.Edges[:0]}
	s.edged, s.edges = s.edged[:0], s.edges[:0]
	before := int32(-1)
	for i := range s.pairs {
		p := &s.pairs[i]
		if p.value-p.cost-n.cfg.Fee < 0 {
			continue
		}
		if p.task != before {
			before = p.task
			t := s.tasks[p.task]
			w.Tasks = append(w.Tasks, market.Task{ID: t.id, Client: t.key.client, Second: t.second})
			s.edged = append(s.edged, t)
		}
		x := &w.Tasks[len(w.Tasks)-1]
		x.Within = max(x.Within, s.tasks[p.task].left-max(0, p.half-s.loads[p.agent].Queue))
		w.Edges = append(w.Edges, market.Edge{Task: len(w.Tasks) - 1, Agent: int(p.agent), Value: p.value,
			Cost: p.cost, Toll: p.toll, Own: p.own})
		s.edges = append(s.edges, int32(i))
	}
	s.within = len(s.edged)
	latest := s.latest()
	for i := range w.Tasks {
		if x := &w.Tasks[i]; x.Within >= latest {
			x.Within = 0
		} else {
			x.Within = max(x.Within.Truncate(time.Microsecond), time.Microsecond)
		}
	}
	n.turns()
	posted := n.cfg.Pricing == market.PricingPosted
	for k := range s.sides {
		seats := s.sides[k].Seats
		if posted {
			seats = seats[:free(seats)]
		}
		w.Agents = append(w.Agents, market.Supply{Agent: s.sides[k].ID, Seats: seats})
	}
	w.Sellers = n.sellers(s.agents)
	s.rest = *w
	return w
}

// latest is when the last seat of all comes.
func (s *scratch) latest() (in time.Duration) {
	for i := range s.sides {
		if seats := s.sides[i].Seats; len(seats) > 0 {
			in = max(in, seats[len(seats)-1].In)
		}
	}
	return in
}

// turns says who goes first of tasks that are worth the same: the client with fewer that run, then who came
// first.
func (n *Node) turns() {
	s := &n.round
	order := make([]int, len(s.edged))
	runs := map[string]int{}
	for _, a := range s.agents {
		for _, h := range a.holds {
			runs[h.rec.Client]++
		}
	}
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(runs[s.edged[a].key.client], runs[s.edged[b].key.client])
	})
	for turn, i := range order {
		s.whole.Tasks[i].Turn = min(turn, market.MaxTurn)
	}
}

// free is how many seats are free, which stand first.
func free(seats []market.Seat) int {
	k := slices.IndexFunc(seats, func(s market.Seat) bool { return s.Later })
	if k < 0 {
		return len(seats)
	}
	return k
}

// sell plans for everybody, learns prices of it, and records what begins now and the holds for it in one
// frame before anything else.
func (n *Node) sell(whole *market.Round) error {
	s := &n.round
	var stop func() bool
	if n.Limit != nil {
		stop = n.Limit()
	}
	k, err := s.cutter.Cut(&s.rest, n.plan.kept.Share(), shown, stop)
	if errors.Is(err, market.ErrStopped) {
		n.stats.Stopped++
		return n.sellPosted(whole)
	}
	if err != nil {
		return err
	}
	if whole.Rule.Pricing == market.PricingPosted {
		return n.sellPosted(whole)
	}
	for i, a := range s.agents {
		if n.seeds.in {
			break // of one task of the hub's own nobody learns what slots are worth
		}
		client := ""
		if by := k.By[i]; by >= 0 {
			client = s.edged[by].key.client
		}
		a.slotRate.Learn(n.nano, a.alike.Service(), client, k.More[i], k.Else[i])
		a.slotPrice = market.PerSecond(a.slotRate.Price(n.nano), a.alike.Service())
		a.seatPrices = a.seatPrices[:0]
		for _, p := range s.cutter.Prices(i) {
			a.seatPrices = append(a.seatPrices, market.Credits(p))
		}
	}
	n.planned(k)
	r := &s.rest
	if len(r.Tasks) == 0 {
		return nil // nobody begins
	}
	r.Pruned.Beyond = s.out
	return n.begin(r, k, stop)
}

// begin clears what is left of a round, and starts those who begin.
func (n *Node) begin(r *market.Round, k *market.Kept, stop func() bool) error {
	s := &n.round
	r.Sort()
	s.left = s.left[:0]
	for _, i := range k.Tasks {
		s.left = append(s.left, s.edged[i])
	}
	slices.SortFunc(s.left, func(a, b *task) int { return cmp.Compare(a.id, b.id) })
	o, err := market.ClearChecked(r, stop)
	if errors.Is(err, market.ErrStopped) {
		n.stats.Stopped++
		return n.sellPosted(&s.whole)
	}
	if err != nil || len(o.Awards) == 0 {
		return err
	}
	return n.award(r, &o)
}

// sellPosted clears the round at posted prices: configured, or where a solve had to be stopped. Such a round
// has no prices, and says so.
func (n *Node) sellPosted(whole *market.Round) error {
	s := &n.round
	r := &s.rest
	*r = *whole
	if r.Rule.Pricing != market.PricingPosted {
		r.Rule.Instead, r.Rule.Pricing = r.Rule.Pricing, market.PricingPosted
	}
	r.Agents = slices.Clone(r.Agents) // a record keeps nothing of what the next round is made in
	for i := range r.Agents {
		seats := r.Agents[i].Seats
		r.Agents[i].Seats = slices.Clone(seats[:free(seats)])
	}
	r.Tasks, r.Edges = slices.Clone(r.Tasks), slices.Clone(r.Edges)
	beyond, most := 0, n.cfg.Batch.MaxBatch
	if s.within = most; len(r.Tasks) > most {
		beyond = len(r.Tasks) - most
		r.Tasks = r.Tasks[:most]
		r.Edges = slices.DeleteFunc(r.Edges, func(e market.Edge) bool { return e.Task >= most })
	}
	k, err := s.cutter.Cut(r, 0, 0, nil)
	if err != nil {
		return err
	}
	r.Pruned.Beyond = beyond + s.out
	return n.begin(r, k, nil)
}

// planned notes what those are to have who are given a seat to come.
func (n *Node) planned(k *market.Kept) {
	s := &n.round
	for i := range s.whole.Edges {
		e := &s.whole.Edges[i]
		at := &k.At[e.Task]
		if t := s.edged[e.Task]; at.Later && int(at.Agent) == e.Agent {
			t.plannedFor = s.agents[e.Agent]
			if t.worth == 0 {
				t.worth = at.Weight - e.Toll
			}
		}
	}
}

// Took says how long the last Ready took.
func (n *Node) Took(d time.Duration) { n.batch.Took(d) }
