package hub

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"souk/bus"
	"souk/hub/estimate"
	"souk/hub/forecast"
	"souk/hub/policy"
	"souk/hub/round"
	"souk/hub/session"
	"souk/hub/tariff"
	"souk/ledger"
	"souk/market"
)

// scratch is the memory of a round, used again by the next one.
type scratch struct {
	tasks  []*task  // that wait, by arrival
	agents []*agent // that take tasks, now or as soon as they have a slot, by id
	at     []int32  // in agents, from 1, by the place of a cache; 0: none
	// of each agent
	classes []*forecast.Class
	loads   []estimate.Delay
	from    estimate.Snapshot
	prices  round.Prices
	waiters []estimate.Waiter // the tasks
	offers  []estimate.Offer  // of all of them
	plan    round.Plan
	depths  []int32 // how many prefixes of a prompt agents hold, by the place of their cache
	held    []int32 // likewise, by agent
	sheet   forecast.Sheet
	alone   estimate.Estimate // of a task that comes
	offer   [2]estimate.Offer // of agents alike, and of one alone
}

const (
	// mostTasks and maxPairs bound the tasks of a round, and the pairs that it weighs, 40 MB.
	mostTasks = 2048
	maxPairs  = 1 << 19
)

// planning holds the state of slots and their prices that belongs to no single agent.
type planning struct {
	kept   round.Kept
	shares round.Shares
	rest   bool // the next round is of whom the last left out
}

// clear holds a round of all that wait. Who is given no slot waits for news.
func (n *Node) clear() {
	s := &n.round
	out := n.collect()
	n.meet()
	n.charge()
	last, prev := n.turn.Book.LastRound()
	head := market.Round{Domain: n.cfg.Domain, Number: last + 1, Prev: prev, Rule: n.cfg.Rule.Rule,
		Fee: n.cfg.Fee, Sellers: s.sellers(&n.cfg.Rule)}
	whys := s.plan.Build(head, &s.from, s.waiters, s.prices)
	var stop func() bool
	if n.Limit != nil {
		stop = n.Limit()
	}
	// of one task of the hub's own nobody learns what slots are worth
	c, err := s.plan.Clear(s.own() == nil, out, n.cfg.Batch.MaxBatch, stop)
	if c.Round.Rule.Instead != "" {
		n.stats.Stopped++
	}
	for i, x := range whys {
		if t := s.tasks[i]; x.Planned > 0 {
			t.Planned, t.Worth = s.agents[x.Planned-1].ID(), cmp.Or(t.Worth, x.Weight)
		}
	}
	if err == nil && len(c.Outcome.Awards) > 0 {
		err = n.award(c)
	}
	if err != nil {
		n.turn.Fault(fmt.Errorf("round %d is not awarded: %w", head.Number, err))
	}
	n.leaves(whys)
	s.own().notPrewarmed(n)
}

// collect takes the tasks that wait and the agents that are open. So many more wait, and are left out.
func (n *Node) collect() int {
	s := &n.round
	if !n.plan.rest {
		n.queue.Wake()
	}
	n.snapshot()
	var out []*task
	s.tasks, out = round.Fit(n.takeRound(s.tasks[:0]), func(t *task) string { return t.Client() },
		min(mostTasks, maxPairs/max(1, len(s.agents))))
	for _, t := range out { // a round of their own follows
		n.queue.Again(t)
	}
	n.plan.rest = len(out) > 0
	n.agree(s.tasks)
	n.admitted()
	return len(out)
}

// admitted leaves the tasks in a round whose sessions have a place, or need none. Who has one is known before
// any bid of the round is read.
func (n *Node) admitted() {
	if !n.sessions.Admits() {
		return
	}
	s := &n.round
	agents, tasks := make([]*session.Agent, len(s.agents)), make([]*session.Task, len(s.tasks))
	for k, a := range s.agents {
		agents[k] = &a.sessions
	}
	for i, t := range s.tasks {
		tasks[i] = &t.place
	}
	n.sessions.Admit(agents, tasks, func(i int, may []bool) (need int) {
		t := s.tasks[i]
		if t.only != nil || t.GoesOn() {
			return 0 // what has begun goes on
		}
		for k, a := range s.agents {
			if n.goes(t, a) {
				if may[k] = true; need == 0 {
					e := n.estimate(t, a, n.heldBy(t, a))
					need = a.sessions.Need(e.Prompt + e.Output)
				}
			}
		}
		return need // 0: no open agent serves it, it waits for one that does, and for no place
	})
	s.tasks = slices.DeleteFunc(s.tasks, func(t *task) bool { return t.place.Outside() })
}

// snapshot finds out which agents take tasks, and what a round reads of each.
func (n *meeting) snapshot() {
	s := &n.round
	n.fleet.Snapshot(&s.from, n.turn.Now(), n.turn.Nano())
	s.agents, s.classes, s.loads = s.agents[:0], s.classes[:0], s.loads[:0]
	s.prices = round.Prices{Rates: n.turn.Book.Rates(),
		Kept: &n.plan.kept, Shares: &n.plan.shares, Slots: s.prices.Slots[:0]}
	clear(s.at)
	for _, a := range n.fleet.All() {
		if !a.Open(n.turn.Nano()) {
			continue
		}
		for int(a.place) >= len(s.at) {
			s.at = append(s.at, 0)
		}
		s.agents, s.classes = append(s.agents, a), append(s.classes, n.class(a))
		s.loads, s.prices.Slots = append(s.loads, a.Besides()), append(s.prices.Slots, &a.slotPrices)
		s.at[a.place] = int32(len(s.agents))
	}
}

// meet finds out what every task would have of every agent that may serve it.
func (n *meeting) meet() {
	s := &n.round
	s.waiters, s.offers = s.waiters[:0], slices.Grow(s.offers[:0], len(s.tasks)*len(s.agents))
	s.sheet.Clear()
	for _, t := range s.tasks {
		first := len(s.offers)
		n.offered(t, true)
		s.waiters = append(s.waiters, n.waiter(t, s.offers[first:len(s.offers):len(s.offers)]))
	}
}

// charge has the regime and policies judge whatever may meet, before any bid is read.
func (n *Node) charge() {
	s := &n.round
	last, prev := n.turn.Book.LastRound()
	n.regimes.Charge(last+1, prev, &s.from, s.waiters,
		func(o *estimate.Offer) market.Credits {
			return s.classes[o.Agent].Cost(o.Prompt, 0, o.Output) - o.Cost
		})
	for _, i := range n.policies.Judge(&s.from, s.waiters, func(i int) (policy.Asker, bool) {
		t := s.tasks[i]
		return policy.Asker{Session: t.asks.Source.Session, Role: t.Msg.RoleKey(), Since: t.Arrived()},
			t.only == nil
	}, func(k int) policy.Agent {
		a := s.agents[k]
		return policy.Agent{Split: slices.Contains(a.Reg().Features, bus.Split),
			Second: forecast.Second(a.predictor, &a.rate, a.Reg().Price)}
	}) {
		s.tasks[i].Barred = true
	}
}

func (n *meeting) waiter(t *task, offers []estimate.Offer) estimate.Waiter {
	now := n.turn.Now()
	return estimate.Waiter{ID: t.Name(), Client: t.Client(), Terms: t.Stated(), Most: t.money.Reserved(),
		First: t.Second(0), Second: t.Second(t.InLine(now)), Waited: t.Waited(now), InLine: t.InLine(now),
		Left: t.TimeLeft(now), Rounds: t.Rounds(), Offers: offers}
}

// offered appends what a task would have of each agent that may serve it. placed: as far as its session has a
// place there.
func (n *meeting) offered(t *task, placed bool) {
	s, left := &n.round, t.TimeLeft(n.turn.Now())
	s.held = resized(s.held, len(s.agents))
	for _, h := range n.prefixes.Look(&t.asks.Holders, &t.Msg.Prompt) {
		if int(h.Place) < len(s.at) && s.at[h.Place] > 0 {
			s.held[s.at[h.Place]-1] = h.Depth
		}
	}
	n.reaches(t, func(o *estimate.Offer) {
		switch {
		case placed && !t.place.May(int(o.Agent)): // its session has no place there
			t.Barred = true
		case o.Half > left:
			t.Short = true
		default:
			s.offers = append(s.offers, *o)
		}
	})
}

// reaches shows what a task would have of each agent of the round that may serve it, of whose prompt it holds
// so much: one offer for agents alike that stand side by side and hold nothing.
func (n *meeting) reaches(t *task, show func(o *estimate.Offer)) {
	s, last := &n.round, -1
	s.sheet.Next(&t.asks)
	alone := t.only != nil || len(t.FailedAt) > 0 // what keeps it from one agent is not its class
	for k, held := range s.held {
		o := &s.offer[0]
		if alone || held > 0 {
			o = &s.offer[1]
			*o = n.offer(t, k)
		} else if last < 0 || s.classes[last] != s.classes[k] || s.loads[last] != s.loads[k] {
			*o, last = n.offer(t, k), k
		}
		if o.Agent = int32(k); o.Estimate != nil {
			show(o)
		}
	}
}

// offer forecasts a task at the k-th agent of the round; without an estimate where it may not go there. Its
// first token comes after the prompts that the agent has in hand.
func (n *meeting) offer(t *task, k int) (o estimate.Offer) {
	s := &n.round
	a, c := s.agents[k], s.classes[k]
	held := a.expect(c, &t.Msg.Prompt, s.held[k])
	if t.obstacle(a, c, held) == estimate.None {
		o.Estimate = s.sheet.Of(n.forecasts, n.turn.Nano(), c, held)
		o.TTFT = a.later(o.Estimate, s.loads[k])
		o.Half = a.predictor.Half(o.TTFT)
	}
	return o
}

// expected returns the forecast of an offer of the round as its record says it, at a time of the hub.
func (s *scratch) expected(now int64, o *estimate.Offer) ledger.Seen {
	a := s.agents[o.Agent]
	f := a.predictor.Timed(o.First, o.Work, o.Output, a.Backlog(now))
	return ledger.Seen{Prompt: o.Prompt, Cached: o.Cached, Output: f.Output, Evidence: a.evidence(),
		First: f.TTFT, Least: f.Low, Most: f.High}
}

// evidence returns the source on which the forecast of an agent's cache rests.
func (a *agent) evidence() ledger.Evidence {
	switch {
	case a.cache.Rules():
		return ledger.EvidenceEvents
	case a.cache.Speaks():
		return ledger.EvidencePartly
	}
	return ledger.EvidenceSent
}

// sellers lists the seller of each agent's slots, where there are tariffs.
func (s *scratch) sellers(r *tariff.Rule) (all []market.Seller) {
	if r.Pricing == market.PricingTariff || r.Pricing == market.PricingPosted && len(r.Tariffs) > 0 {
		for _, a := range s.agents {
			all = append(all, a.Seller())
		}
	}
	return all
}

// resized is a list of so many zeros, in its memory.
func resized[T any](list []T, n int) []T {
	list = slices.Grow(list[:0], n)[:n]
	clear(list)
	return list
}

// Took says how long the last Ready took.
func (n *Node) Took(d time.Duration) { n.queue.Took(d) }
