package round

import (
	"time"

	"souk/hub/estimate"
	"souk/market"
)

// Prices hold what rounds have learned. Whoever holds rounds keeps them; only [Plan.Clear] changes them.
type Prices struct {
	Rates  *market.Rates // of slots, by the rounds on record
	Kept   *Kept
	Shares *Shares
	// what one of each seat of an agent of the snapshot cost, by the last plan
	Seats func(agent int) *[]int64
}

// Plan makes rounds, one after the other: [Plan.Build], [Plan.Clear], [Plan.Apply]. All that it keeps of one
// for the next is memory, and where the solver may begin.
type Plan struct {
	Whole   market.Round // of all who wait, as they came
	rest    market.Round // what is left of it
	from    *estimate.Snapshot
	waiters []estimate.Waiter
	prices  Prices
	seats   Seats
	tolls   Tolls
	others  Others
	keeps   []time.Duration // of the edges of the whole
	room    []uint8         // of its agents: how much of each is free
	of      []int32         // of its tasks: waiters
	tasks   []int32         // of waiters: these, from 1; 0: none
	whys    []Why
	cutter  market.Cutter
	cleared Cleared
	last    Quote
	quotes  []Quote
}

// Why says how a round judged a waiter.
type Why struct {
	Best    *estimate.Offer // see [Best]
	Beyond  bool            // the round had no room for the task
	Planned int32           // the agent at which it has a seat to come, from 1; 0: it has none
	Weight  market.Credits  // what it is to have there, tolls aside
	// at each agent a slot costs the task more, beside what its client's own tasks bear of that, than it
	// would have there if it began now: prices are of earlier rounds, so no bid of others decides
	Outpriced bool
}

// Build makes the round of all who wait. The head is what a round is beside those who wait and those who
// serve. What is fixed before bids is found of every offer; those worth their cost, tolls aside, are edges.
func (p *Plan) Build(head market.Round, from *estimate.Snapshot, waiters []estimate.Waiter,
	prices Prices) []Why {
	p.set(from, waiters, prices)
	p.seats.set(from, len(waiters))
	w := &p.Whole
	head.Tasks, head.Agents, head.Edges = w.Tasks[:0], w.Agents[:0], w.Edges[:0]
	*w = head
	p.keeps, p.room, p.of, p.tasks, p.whys = p.keeps[:0], p.room[:0], p.of[:0], p.tasks[:0], p.whys[:0]
	var order []int
	if len(waiters) > 1 {
		order = prices.Shares.Turns(from.Now, from.Runs, waiters)
	}
	for i := range waiters {
		p.whys = append(p.whys, Why{Best: Best(&waiters[i])})
		p.tasks = append(p.tasks, 0)
		p.enter(int32(i))
	}
	turn := 0
	for _, k := range order {
		if i := p.tasks[k]; i > 0 && len(w.Tasks) > 1 {
			w.Tasks[i-1].Turn = min(turn, market.MaxTurn)
			turn++
		}
	}
	for k := range from.Agents {
		seats := p.seats.of(k)
		if w.Rule.Pricing == market.PricingPosted {
			seats = seats[:free(seats)]
		}
		a := &from.Agents[k]
		p.room = append(p.room, uint8(market.FullRoom*a.Free/max(1, a.Free+a.Running)))
		w.Agents = append(w.Agents, market.Supply{Agent: a.ID, Seats: seats})
	}
	return p.whys
}

// set sets what slots cost, and would without the client of each waiter.
func (p *Plan) set(from *estimate.Snapshot, waiters []estimate.Waiter, prices Prices) {
	p.from, p.waiters, p.prices = from, waiters, prices
	p.tolls.set(from, prices.Rates, prices.Kept.late(from.Now))
	p.others.set(&p.tolls, from, waiters, prices.Rates)
}

// Best finds the value of each of a waiter's offers. The best is worth most beyond its cost, whatever is
// charged; nil: there is none.
func Best(w *estimate.Waiter) (best *estimate.Offer) {
	for i := range w.Offers {
		o := &w.Offers[i]
		if i > 0 && o.Estimate == w.Offers[i-1].Estimate && o.TTFT == w.Offers[i-1].TTFT {
			o.Value = w.Offers[i-1].Value // of an agent alike
			continue
		}
		o.Value = o.Estimate.Value(w.Terms, w.Waited+o.TTFT, w.Most)
		if best == nil || o.Bare() > best.Bare() {
			best = o
		}
	}
	return best
}

// enter finds what is charged for each of a waiter's offers, and has it be a task of the round, if one is
// worth its cost.
func (p *Plan) enter(waiter int32) {
	r, w, task := &p.Whole, &p.waiters[waiter], market.Task{}
	others, first, outpriced := p.others.Without(w.Client), len(r.Edges), true
	for i := range w.Offers {
		o := &w.Offers[i]
		stays := p.tolls.stay(o.Agent, o.Estimate)
		toll := p.tolls.Of(o.Agent, stays)
		if o.Toll, o.Own = o.Extra-toll, 0; others != nil {
			o.Own = toll - min(toll, others.Of(o.Agent, stays))
		}
		if o.Bare() >= r.Fee {
			task.Within = max(task.Within, w.Left-o.Half)
			outpriced = outpriced && o.Bare()-(toll-o.Own) < r.Fee
			r.Edges = append(r.Edges, market.Edge{Task: len(r.Tasks), Agent: int(o.Agent), Value: o.Value,
				Cost: o.Cost, Toll: o.Toll, Own: o.Own})
			p.keeps = append(p.keeps, stays.Keeps(p.tolls.slots[o.Agent].running))
		}
	}
	if len(r.Edges) > first {
		p.whys[waiter].Outpriced = outpriced
		if task.Within >= p.seats.latest {
			task.Within = 0
		} else {
			task.Within = max(task.Within.Truncate(time.Microsecond), time.Microsecond)
		}
		task.ID, task.Client, task.Second = w.ID, w.Client, w.Second
		if len(p.waiters) > 1 {
			task.Second = w.First + market.Credits(float64(w.Second-w.First)*p.prices.Shares.Grows(waiter))
		}
		r.Tasks, p.of = append(r.Tasks, task), append(p.of, waiter)
		p.tasks[waiter] = int32(len(r.Tasks))
	}
}
