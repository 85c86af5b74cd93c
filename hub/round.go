package hub

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"souk/hub/regime"
	"souk/market"
)

// scratch is what a round is made of, in memory that the next one uses again.
type scratch struct {
	made       uint64   // rounds, whether anything came of them
	tasks      []*task  // that wait, by arrival
	agents     []*agent // that have room, by lot: of equals the first are taken
	free       []int    // slots of each
	atOnce     bool     // the slots of all agents are sold in one round
	first, end int      // of agents: those whose slots the round sells
	meets      []int    // of agents: how many tasks may meet it
	placed     []*task  // in the rounds of the moment
	pairs      []pair
	spared     int // pairs like others
	spreads    spreads
	waits      []market.Wait // of tasks; Loss 0: none
	// of tasks: the agent that the wait is for
	waitFor []*agent
	yields  []bool  // of tasks: see task.yields
	passed  []*task // whose turn another of their client had
	anew    bool    // some were in an earlier round
	all     bool    // they are all who wait
	from    []int   // of tasks: the first of their pairs
	depths  []int32 // how many prefixes of a prompt agents hold, by the place of their cache

	// of the regime's tolls, where it is not idle
	seed   [32]byte
	scales []market.Credits // of tasks, the mean of what they would cost
	most   []float64        // of tasks, the largest of their draws

	whole   market.Round  // of all that wait, by arrival, before pruning
	parts   []market.Toll // of the tolls of its edges
	tiers   []market.Tier
	edged   []*task // its tasks
	index   []int32 // of these in tasks
	clients []int32 // of these, numbered
	sellers []*agent
	place   []int // of an agent in it, by its index in agents; -1: no edge
	pruner  market.Pruner
	kept    *market.Kept
	rest    market.Round // that it leaves
	won     []won        // its awards
	left    []*task      // the tasks of the round that is left after it, by id
	seen    []seenAt
}

// pair is a task and an agent that may meet, whatever is bid, with what the round needs of the quote.
type pair struct {
	task, agent int32         // in scratch
	half        time.Duration // within which its first token comes as often as not
	value, cost market.Credits
	saved       market.Credits // by what the agent holds
	toll        market.Credits // all of it
	parts       market.Toll    // of it, the crowd's
}

const (
	// maxSeats bounds the tiers of a round, so that the solver's sums hold for the dearest tasks
	// (market.MaxWorth).
	maxSeats = 4000
	// maxPairs bounds the pairs that a round weighs, 70 MB: 2,048 tasks that wait all meet 256 free agents.
	// Where they may meet more, they meet the others after these; or, where all slots are sold at once, the
	// latest to come are in the next round.
	maxPairs = 1 << 19
	// maxLooks bounds how often a round looks whether a task may go to a free agent, 60 ms: 2,048 tasks look
	// at 2,048 agents of another model. Where there are more, the latest to come are in the next round, too.
	maxLooks = 1 << 22
	// shown is how many agents a round's record names that a task might have had instead.
	shown = 3
)

// clear holds a round of all that wait, or several of this moment: see portion. Tasks that were not placed
// wait for news.
func (n *Node) clear() {
	n.collect()
	s := &n.round
	sold := false
	for agents, free := s.agents, s.free; ; n.meetOthers() {
		few := n.few(len(agents))
		s.agents, s.free, s.end = agents[:few], free[:few], 0
		agents, free = agents[few:], free[few:]
		n.meetAll()
		n.restAfter(few, len(agents))
		for again := true; again; again = s.end < few {
			n.portion()
			sold = n.sell() || sold
		}
		for i, t := range s.tasks {
			if t.state == waiting {
				t.yields = s.yields[i]
			}
		}
		if len(agents) == 0 {
			break
		}
	}
	n.settle(sold)
}

// sell holds one round: it builds the edges, prunes what cannot matter, clears the rest, checks the outcome,
// and records round and holds in one frame before anything else. It reports whether anybody was given a slot.
func (n *Node) sell() bool {
	s := &n.round
	for _, t := range s.tasks {
		t.outcome = unmet
	}
	r := n.assemble()
	var o market.Outcome
	var err error
	if len(r.Edges) > 0 {
		o, err = n.solve(r)
	}
	if err == nil && len(o.Awards) > 0 {
		err = n.award(r, &o)
	} // else nothing is recorded: no free slot is worth to anybody what it charges now
	if err != nil {
		n.fault(fmt.Errorf("round %d is not awarded: %w", r.Number, err))
		s.kept = nil
	}
	sold := err == nil && len(o.Awards) > 0
	n.noteOutcomes(sold)
	n.lookLater()
	return sold
}

// collect takes the tasks that wait and the agents that have room.
func (n *Node) collect() {
	s := &n.round
	n.alone()
	s.made++
	s.passed = s.passed[:0]
	s.agents, s.free = s.agents[:0], s.free[:0]
	n.seats.capped = false
	n.standUp()
	n.letsIn()
	for i := range n.crowd.stands {
		x := &n.crowd.stands[i]
		if room := n.offers(x.agent, x.room); room > 0 {
			s.agents, s.free = append(s.agents, x.agent), append(s.free, room)
		}
	}
	last, prev := n.book.LastRound()
	lot := binary.BigEndian.Uint64(prev[:]) + last
	for i := len(s.agents) - 1; i > 0; i-- {
		lot = lot*6364136223846793005 + 1442695040888963407 // Knuth's MMIX
		j := int((lot >> 32) * uint64(i+1) >> 32)
		s.agents[i], s.agents[j], s.free[i], s.free[j] = s.agents[j], s.agents[i], s.free[j], s.free[i]
	}
	s.atOnce = n.sellsAtOnce()
	s.tasks = n.batch.Take(s.tasks[:0], n.meetable())
	if n.batch.Len() == 0 { // else the next round is of this moment, too: for those that this one cannot meet
		n.batch.Cleared(n.now)
	}
	s.anew, s.all = false, n.batch.All() == 0
	for _, t := range s.tasks {
		s.anew = s.anew || t.met
		t.met, t.again = true, false
	}
	s.placed = s.placed[:0]
	s.first, s.end = 0, len(s.agents)
	n.admitted()
}

// meetable is how many of the tasks that wait the round can meet: the first to come. Agents that a task may
// not go to do not count, or a fleet of another model that is idle would keep those who came late from the
// slot that all of them wait for.
func (n *Node) meetable() int {
	c, agents := &n.crowd, max(1, len(n.round.agents))
	if n.batch.Len() <= maxPairs/agents {
		return n.batch.Len()
	}
	if !n.round.atOnce { // all meet some agents after the others: see few
		return min(maxLooks/agents, n.batch.Len())
	}
	pairs := 0
	return min(maxLooks/agents, n.batch.While(func(t *task) bool {
		for _, i := range c.roomy {
			if g := &c.groups[i]; g.first.mayServe(t) {
				pairs += len(g.rooms)
			}
		}
		return pairs <= maxPairs
	}))
}

// mayServe reports whether agents of a's kind may serve t, whatever some of them hold of its prompt.
func (a *agent) mayServe(t *task) bool {
	return (t.msg.Model == "" || t.msg.Model == a.model) && a.reads(t) &&
		a.takes(a.cold(t).tokens+t.carried())
}

// meet quotes every task on every agent that may serve it, bids aside, and charges it. Of agents that are
// equal in all, a task looks at as many as there are tasks, as one of these is always free, or at one where
// it has a place of its own: so an idle fleet makes a round neither large nor slow. A regime draws for each
// agent, so under one no two are equal; nor are those for whom somebody waits.
func (n *Node) meet() {
	s := &n.round
	s.pairs, s.from, s.spared = s.pairs[:0], resized(s.from, len(s.tasks)+1), 0
	s.waits, s.waitFor = resized(s.waits, len(s.tasks)), resized(s.waitFor, len(s.tasks))
	s.yields = resized(s.yields, len(s.tasks))
	pair := func(i int) {
		n.prospects(s.tasks[i])
		n.pair(i)
		s.from[i+1] = len(s.pairs)
	}
	s.spreads.any = false
	if n.plain() {
		n.spreadOut()
		n.eachInLine(func(i int) {
			pair(i)
			n.charge(i, s.pairs[s.from[i]:])
		})
		return
	}
	for i := range s.tasks {
		pair(i)
	}
	n.tolls() // what is drawn for all pairs comes first
	n.eachInLine(func(i int) {
		n.prospects(s.tasks[i])
		n.charge(i, s.pairs[s.from[i]:s.from[i+1]])
	})
}

// eachInLine gives the tasks of the round in turn, and has everybody who waits by then wait where it rather
// does.
func (n *Node) eachInLine(do func(i int)) {
	s, c := &n.round, &n.crowd
	several := len(c.everybody) > 1 && n.cfg.Crowd.Waiting && n.cfg.Pricing != market.PricingPosted
	i := 0
	for _, t := range c.everybody {
		if i < len(s.tasks) && s.tasks[i] == t {
			do(i)
			i++
			if t.guest = nil; several {
				t.guest = n.rather(t)
			}
		} // else it waits for news, where it was
		if several && c.has(t.guest) {
			n.visit(int32(t.guest.seat))
		}
	}
}

// pair lists the agents that a task of the round may have a slot of. Its prospects were looked at.
func (n *Node) pair(i int) {
	s := &n.round
	n.kinds.visits++
	if s.spreads.any {
		for _, k := range n.looks(i) {
			n.pairWith(i, int(k))
		}
		return
	}
	for k := range s.agents {
		n.pairWith(i, k)
	}
}

// pairWith has a task look at an agent, unless it looked at enough that are equal: where its client has tasks
// running, none is.
func (n *Node) pairWith(i, k int) {
	s, c := &n.round, &n.crowd
	t, a, idle := s.tasks[i], s.agents[k], n.plain()
	x := n.prospect(a.seat)
	if !x.serves || !t.lets(a.seat) {
		return
	}
	if stand := &c.stands[a.seat]; idle && len(s.tasks) < len(s.agents) &&
		c.board.Homes(a.seat) == 0 && n.besideOthers(stand, t) == stand.beside &&
		c.kindOf(stand).equals(n.kinds.visits, a, len(a.holds), s.free[k], stand.backlog,
			x.quote.held) >= len(s.tasks) {
		s.spared++
		return
	}
	q := x.quote
	p := pair{task: int32(i), agent: int32(k), half: x.ttft - x.early, value: t.valueOf(x), cost: q.cost}
	if !idle {
		p.saved = a.saves(q.prompt, q.output, q.cost)
	}
	s.pairs = append(s.pairs, p)
}

// valueOf is what a slot that it has now is worth to a task, lowered where no more can be held.
func (t *task) valueOf(x *prospect) market.Credits {
	q := x.quote
	return min(t.stated().Value(market.Quote{TTFT: x.ttft, Cost: q.cost, Quality: q.quality}), q.most)
}

// resized is a list of so many zeros, in its memory.
func resized[T any](list []T, n int) []T {
	list = slices.Grow(list[:0], n)[:n]
	clear(list)
	return list
}

// tolls sets the regime's toll on every task and agent that may meet, whatever was bid. The scale and the
// largest draw are taken over all such pairs of the task, not only over those that become edges: bids decide
// which do, and bids must not decide tolls. Nor does it matter which other tasks are in the round: one that
// bids below any cost is not.
func (n *Node) tolls() {
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
			pairs[k].toll = n.toll(scale, draws[k], most, pairs[k].saved)
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

// assemble makes the round of all pairs that are timely and worth their cost, of tasks that still wait with
// agents whose slots it sells, and prunes it.
func (n *Node) assemble() *market.Round {
	s := &n.round
	last, prev := n.book.LastRound()
	w := &s.whole
	*w = market.Round{Domain: n.cfg.Domain, Number: last + 1, Prev: prev, Rule: n.cfg.market(),
		Fee: n.cfg.Fee, Tasks: w.Tasks[:0], Agents: w.Agents[:0], Edges: w.Edges[:0]}
	s.edged, s.left, s.sellers, s.tiers = s.edged[:0], s.left[:0], s.sellers[:0], s.tiers[:0]
	s.index, s.clients, s.place = s.index[:0], s.clients[:0], resized(s.place, len(s.agents))
	s.parts = s.parts[:0]
	before := int32(-1)
	for i := range s.pairs {
		p := &s.pairs[i]
		if int(p.agent) < s.first || int(p.agent) >= s.end {
			continue
		}
		t := s.tasks[p.task]
		if t.state != waiting {
			continue
		}
		if p.half > t.left {
			t.short = true
			continue
		}
		if p.value-p.cost-n.cfg.Fee < 0 {
			t.outcome = tooExpensive
			continue
		}
		if p.task != before {
			before = p.task
			x := market.Task{ID: t.id, Client: t.key.client}
			if wait := &s.waits[p.task]; wait.Loss > 0 {
				x.Wait = wait
			}
			w.Tasks, s.edged, s.index = append(w.Tasks, x), append(s.edged, t), append(s.index, p.task)
			s.clients = append(s.clients, int32(t.account.number))
		}
		w.Edges = append(w.Edges, market.Edge{Task: len(w.Tasks) - 1, Agent: int(p.agent), Value: p.value,
			Cost: p.cost, Toll: p.toll})
		s.parts = append(s.parts, p.parts)
		s.place[p.agent] = 1
	}
	most := 0
	if n.cfg.Tiers {
		most = max(1, maxSeats/max(1, s.end-s.first))
	}
	for k, a := range s.agents {
		if s.place[k] == 0 {
			continue
		}
		s.place[k] = len(s.sellers)
		s.sellers = append(s.sellers, a)
		first := len(s.tiers)
		s.tiers = a.offer(s.tiers, s.free[k], len(w.Tasks), most)
		w.Agents = append(w.Agents, market.Supply{Agent: market.AgentID(a.id),
			Tiers: s.tiers[first:len(s.tiers):len(s.tiers)]})
	}
	for i := range w.Edges {
		w.Edges[i].Agent = s.place[w.Edges[i].Agent]
	}
	w.Sellers = n.sellers(s.sellers)
	if slices.ContainsFunc(s.parts, func(p market.Toll) bool { return p != market.Toll{} }) {
		w.Parts = s.parts
	}
	s.rest = *w
	return n.prune()
}

// prune leaves of the round of all that wait what matters. It is valid until the next.
func (n *Node) prune() *market.Round {
	s := &n.round
	r := &s.rest
	s.pruner.Clients = s.clients
	s.kept = s.pruner.Prune(r, n.cfg.Batch.MaxBatch, shown)
	if r.Rule.Pricing != market.PricingPosted { // whose rounds say nothing of what was pruned
		r.Pruned.Edges += s.spared
	}
	r.Pruned.Beyond += n.batch.Len() // whom there were too many agents to meet
	r.Sort()
	s.left = s.left[:0]
	for _, i := range s.kept.Tasks {
		s.left = append(s.left, s.edged[i])
	}
	slices.SortFunc(s.left, func(a, b *task) int { return cmp.Compare(a.id, b.id) })
	return r
}

// taskOutcome is what a round meant to a task that it did not place.
type taskOutcome uint8

const (
	unmet        taskOutcome = iota // there was no free agent that could serve it in time
	tooExpensive                    // no free slot was worth what it charged
	deferred                        // waiting was worth more than any
	outbid                          // the slots went to others
	overLimit                       // the round was at its limit
)

// noteOutcomes says what the round meant to each task that it did not place. sold says whether slots went to
// anybody.
func (n *Node) noteOutcomes(sold bool) {
	s := &n.round
	if k := s.kept; k != nil {
		for _, t := range s.edged {
			t.outcome = tooExpensive
		}
		if sold { // else nobody lost to another
			for _, i := range k.Tasks {
				s.edged[i].outcome = outbid
			}
		}
		for _, set := range []struct {
			tasks   []int32
			outcome taskOutcome
		}{{k.TooExpensive, tooExpensive}, {k.Outbid, outbid}, {k.Waiting, deferred}, {k.OverLimit,
			overLimit}} {
			for _, i := range set.tasks {
				s.edged[i].outcome = set.outcome
			}
		}
	}
	for _, t := range s.tasks {
		if t.state != waiting {
			continue
		}
		switch t.outcome {
		case outbid:
			t.rounds++
		case tooExpensive:
			t.tooExpensive++
		case deferred:
			t.deferred++
		case overLimit:
			if t.again = true; sold {
				t.overLimit++
			}
		}
	}
}

// settle lets those that no round of the moment placed wait. sold says whether slots went to anybody.
func (n *Node) settle(sold bool) {
	s := &n.round
	for _, t := range s.passed {
		t.passed = true
	}
	n.leaves()
	switch apart := n.rests.apart; {
	case n.batch.All() == n.batch.Len():
	case s.all:
		n.allAsked(func(*agent) bool { return true })
	case len(apart) > 0:
		n.allAsked(func(a *agent) bool { return slices.Contains(apart, a.model) })
	}
	n.rests.apart = n.rests.apart[:0]
	if sold && n.seats.capped {
		n.batch.News(n.now) // an agent has more slots
	}
	n.refuseTooLarge()
	for _, t := range s.placed {
		n.admitFunded(t.account) // its hold may be less than was reserved
	}
}
