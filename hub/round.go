package hub

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"souk/bus"
	"souk/hub/regime"
	"souk/ledger"
	"souk/market"
)

// scratch is memory of a round that the next one uses again.
type scratch struct {
	tasks  []*task
	agents []*agent // with a free slot
	free   []int
	place  []int // of an agent in the round, by its index in agents; -1: no edge
	quotes []quote
	edges  []edge
	tolls  []market.Credits // the regime's, by task and agent; none where it is idle

	inTasks  []*task // those with an edge, in the round's order
	inAgents []*agent
	chosen   []int // the quote of each edge
}

// maxSeats bounds the tiers of a round, so that the solver's sums hold for the dearest tasks
// (market.MaxWorth).
const maxSeats = 4000

// edge is an edge of the next round, with the quote it was made from.
type edge struct{ task, agent, quote int }

// clear holds one round: it builds the edges, clears them, checks the outcome, and records round and holds in
// one frame before anything else. Tasks that were not placed wait for news.
func (n *Node) clear() {
	s := &n.round
	s.tasks = n.batch.Take(s.tasks[:0])
	slices.SortFunc(s.tasks, func(a, b *task) int { return cmp.Compare(a.id, b.id) })
	r, tasks, agents, chosen := n.assemble()
	if len(r.Edges) == 0 {
		n.left = append(n.left, s.tasks...)
		return
	}
	o, err := n.solve(&r)
	if err != nil {
		n.fault(fmt.Errorf("round %d is not awarded: %w", r.Number, err))
		n.left = append(n.left, s.tasks...)
		return
	}
	if len(o.Awards) == 0 {
		// No task is worth the cost and charge of a free slot now. Nothing is recorded, and no task has lost
		// to another.
		for _, t := range tasks {
			t.dear++
		}
		n.left = append(n.left, s.tasks...)
		return
	}
	n.award(&r, &o, tasks, agents, chosen)
}

// assemble makes the round of the tasks in scratch and the agents that have room. It returns the tasks and
// agents that have an edge, in the round's order, and for each edge the place of its quote in scratch.
func (n *Node) assemble() (r market.Round, tasks []*task, agents []*agent, chosen []int) {
	s := &n.round
	s.agents, s.free, s.place = s.agents[:0], s.free[:0], s.place[:0]
	s.quotes, s.edges = s.quotes[:0], s.edges[:0]
	tasks, agents, chosen = s.inTasks[:0], s.inAgents[:0], s.chosen[:0]
	for _, a := range n.roster {
		if free := a.free(n); free > 0 {
			s.agents, s.free, s.place = append(s.agents, a), append(s.free, free), append(s.place, -1)
		}
	}
	last, prev := n.book.LastRound()
	n.toll(regime.Seed(prev, last+1))
	for i, t := range s.tasks {
		for k, a := range s.agents {
			if !n.usable(t, a) {
				continue
			}
			q := n.quote(t, a, false)
			if n.now.Add(q.forecast.TTFT).After(t.deadline) {
				continue
			}
			// A hold cannot exceed the reservation, so no more is offered than that. The reservation covers
			// every quote as it stood when the task came.
			q.within(t.reserved)
			if q.value-q.cost-n.cfg.Fee < 0 {
				continue
			}
			s.edges = append(s.edges, edge{i, k, len(s.quotes)})
			s.quotes = append(s.quotes, q)
			s.place[k] = 0
		}
	}
	r = market.Round{Domain: n.cfg.Domain, Number: last + 1, Prev: prev, Rule: n.cfg.market(), Fee: n.cfg.Fee}
	if len(s.edges) == 0 {
		return r, nil, nil, nil
	}
	// The record of the round keeps these, so they cannot be scratch. They are allocated in few pieces.
	tiers := make([]market.Tier, 0, len(s.agents))
	most := 0
	if n.cfg.Tiers {
		most = max(1, maxSeats/len(s.agents))
	}
	r.Agents = make([]market.Supply, 0, len(s.agents))
	for k, a := range s.agents {
		if s.place[k] == 0 {
			s.place[k] = len(agents)
			agents = append(agents, a)
			first := len(tiers)
			tiers = a.offer(tiers, s.free[k], len(s.tasks), most)
			own := tiers[first:len(tiers):len(tiers)]
			r.Agents = append(r.Agents, market.Supply{Agent: market.AgentID(a.id), Tiers: own})
		}
	}
	r.Edges = make([]market.Edge, len(s.edges))
	r.Tasks = make([]market.Task, 0, len(s.tasks))
	before := -1
	for i, e := range s.edges {
		if e.task != before {
			before = e.task
			t := s.tasks[e.task]
			tasks = append(tasks, t)
			r.Tasks = append(r.Tasks, market.Task{ID: t.id, Client: t.key.client})
		}
		q := &s.quotes[e.quote]
		r.Edges[i] = market.Edge{Task: len(tasks) - 1, Agent: s.place[e.agent], Value: q.value, Cost: q.cost}
		if len(s.tolls) > 0 {
			r.Edges[i].Toll = s.tolls[e.task*len(s.agents)+e.agent]
		}
		chosen = append(chosen, e.quote)
	}
	r.Sellers = n.sellers(agents)
	s.inTasks, s.inAgents, s.chosen = tasks, agents, chosen
	return r, tasks, agents, chosen
}

// toll sets the regime's toll on every task and agent that may meet, whatever was bid. The scale and the
// largest draw are taken over all such pairs, not only over those that become edges: bids
// decide which do, and bids must not decide tolls.
func (n *Node) toll(seed [32]byte) {
	s, p := &n.round, n.cfg.Regime
	s.tolls = s.tolls[:0]
	if p.Idle() || len(s.agents) == 0 {
		return
	}
	var saved []market.Credits
	draws := make([]float64, 0, len(s.tasks)*len(s.agents))
	sum, count := market.Credits(0), market.Credits(0)
	for _, t := range s.tasks {
		for _, a := range s.agents {
			if !n.usable(t, a) {
				saved, draws = append(saved, 0), append(draws, math.Inf(-1))
				continue
			}
			q := n.quote(t, a, false)
			fresh := a.price.Cost(market.Usage{Prompt: q.prompt, Output: q.forecast.Output})
			saved, draws = append(saved, fresh-q.cost), append(draws, regime.Draw(seed, string(t.id), a.id))
			if total, ok := sum.Add(q.cost); ok {
				sum, count = total, count+1
			}
		}
	}
	for i := range s.tasks {
		row := draws[i*len(s.agents) : (i+1)*len(s.agents)]
		most := slices.Max(row)
		for k, draw := range row {
			toll := market.Credits(0)
			if !math.IsInf(draw, -1) {
				toll = p.Toll(sum/max(1, count), draw, most, saved[i*len(s.agents)+k])
			}
			s.tolls = append(s.tolls, toll)
		}
	}
}

// award records a cleared round with its holds and hands out its tasks.
func (n *Node) award(r *market.Round, o *market.Outcome, tasks []*task, agents []*agent, chosen []int) {
	records := make([]ledger.Record, 1, 1+len(o.Awards))
	records[0] = ledger.NewRound(n.cfg.Journal, *r, *o, n.salt())
	holds := make([]*hold, len(o.Awards))
	placed := make([]*task, len(o.Awards))
	i := 0
	for slot := range o.Awards {
		aw := &o.Awards[slot]
		for r.Tasks[i].ID != aw.Task {
			i++
		}
		t := tasks[i]
		e, _ := slices.BinarySearchFunc(r.Edges, i,
			func(e market.Edge, task int) int { return cmp.Compare(e.Task, task) })
		for r.Agents[r.Edges[e].Agent].Agent != aw.Agent {
			e++
		}
		h := n.newHold(t, agents[r.Edges[e].Agent], &n.round.quotes[chosen[e]], r.Number, slot, aw)
		h.congestion = r.Agents[r.Edges[e].Agent].Tiers[aw.Tier].Toll
		records = append(records, ledger.NewHold(n.cfg.Journal, h.rec, n.salt()))
		holds[slot], placed[slot] = h, t
	}
	if err := n.commit(records...); err != nil {
		n.fault(fmt.Errorf("round %d is not awarded: %w", r.Number, err))
		n.left = append(n.left, n.round.tasks...)
		return
	}
	n.stats.round(r, o)
	for slot, h := range holds {
		n.start(placed[slot], h, &o.Awards[slot])
	}
	n.notePrices(o, agents)
	n.notePeaks()
	for _, t := range n.round.tasks {
		if t.state == waiting {
			n.left = append(n.left, t)
		}
	}
	for _, t := range tasks {
		if t.state == waiting {
			t.rounds++
		}
	}
	n.status.changed = true
}

// newHold is the hold for an award.
func (n *Node) newHold(t *task, a *agent, q *quote, round uint64, slot int, aw *market.Award) *hold {
	h := &hold{
		id: ledger.HoldID(n.cfg.Journal, round, slot), agent: a,
		features: q.features, most: q.most, secret: n.salts.Uint64()>>1 | 1, sent: n.now,
	}
	h.first = a.worstFirst(t, q)
	if t.session != 0 && t.msg.Prompt.Loose != bus.LooseMedia { // pictures and sound have names alone
		h.implied = a.belief.Implied(t.session, &t.msg.Prompt)
	}
	h.timer.owner = h
	service := time.Duration(q.maxTokens) * n.slowest(a)
	h.timeout = service + n.cfg.HoldGrace/2
	h.expires = n.now.Add(service + n.cfg.HoldGrace)
	h.rec = ledger.Hold{
		Client: t.key.client, Task: t.key.id, Attempt: t.msg.Attempt, Agent: a.id, Model: a.reg.Model,
		Round: round, Slot: slot, Kind: bus.DispatchTask,
		Amount:  market.Hold(aw.Premium, q.worst, min(t.terms.Cap(), t.reserved)),
		Premium: aw.Premium, Fee: n.cfg.Fee, Quoted: aw.Cost, Tariff: a.tariff, Settle: n.cfg.Settle,
		Price:  a.price,
		Prompt: q.prompt, Cached: q.features.Cached, Output: q.forecast.Output, MaxTokens: q.maxTokens,
		Expires: h.expires.UnixNano(), Boot: a.reg.Boot, Digest: t.digest,
	}
	return h
}

// start lets an awarded task run: its hold stands in a frame of this Ready.
func (n *Node) start(t *task, h *hold, aw *market.Award) {
	n.wait(t, -1)
	n.release(t)
	t.state, t.hold, h.task = running, h, t
	if t.carried() == 0 {
		t.whole = h.rec.MaxTokens
	}
	n.holds[h.id] = h
	h.agent.holds = append(h.agent.holds, h)
	h.run = h.agent.belief.Sent(&t.msg.Prompt, h.rec.Prompt, h.rec.Output)
	n.timers.set(&t.timer, time.Time{})
	h.award = *aw
	n.handOut(h)
}

// handOut sends a hold's task to its agent, and waits for the reply.
func (n *Node) handOut(h *hold) {
	t := h.task
	n.timers.set(&h.timer, n.now.Add(n.cfg.DispatchTimeout))
	n.out.Dispatches = append(n.out.Dispatches, n.dispatch(t, h, &h.award))
	undelayed := t.free && t.rounds == 0 && t.dear == 0 && t.refusals == 0 && h.again == 0
	n.out.Placed = append(n.out.Placed, Placed{h.agent.id, t.arrived, undelayed})
}

// notePrices keeps the slot prices of a round for the status.
func (n *Node) notePrices(o *market.Outcome, agents []*agent) {
	for _, a := range agents {
		a.slotPrice = 0
	}
	for _, p := range o.Prices {
		if p.Tier == 0 {
			agents[p.Agent].slotPrice = p.Price
		}
	}
}
