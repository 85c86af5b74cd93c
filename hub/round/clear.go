package round

import (
	"cmp"
	"errors"
	"slices"

	"souk/hub/estimate"
	"souk/market"
)

// Cleared is the part of a round that begins now, as it is recorded.
type Cleared struct {
	Round   *market.Round
	Outcome market.Outcome
	Tasks   []int32 // of its tasks: waiters
	Agents  []int32 // of its agents: their places in the snapshot
	Ground  market.Ground
}

const (
	shown = 3 // agents that a round's record names that a task might have had instead
	// Pairs of a task and an agent of a round at posted prices, where all edges stay: each takes 82 bytes at
	// most with what was expected of it, and 512 where something is charged, so a frame has room for them.
	mostPosted, mostCharged = 1 << 18, 60_000
)

// Clear plans for everybody, remembers what seats cost if it may, and clears what begins now. out are too
// many for a round and were left out of this one; most is how many tasks one at posted prices has. Once stop
// says so the solver ends early: then posted prices stand in.
func (p *Plan) Clear(learn bool, out, most int, stop func() bool) (*Cleared, error) {
	c := &p.cleared
	*c = Cleared{Round: &p.rest, Tasks: c.Tasks[:0], Agents: c.Agents[:0]}
	if p.Whole.Rule.Pricing == market.PricingPosted {
		return c, p.posted(out, most)
	}
	p.rest = p.Whole
	k, err := p.cutter.Cut(&p.rest, p.keeps, p.prices.Kept.Share(), p.room, shown, stop)
	if err == nil {
		if learn {
			for i := range p.from.Agents {
				x := p.prices.Seats(i)
				*x = append((*x)[:0], p.cutter.Prices(i)...)
			}
		}
		for i := range p.Whole.Edges { // what those are to have who are given a seat to come
			e := &p.Whole.Edges[i]
			if at := &k.At[e.Task]; at.Later && int(at.Agent) == e.Agent {
				why := &p.whys[p.of[e.Task]]
				why.Planned, why.Weight = at.Agent+1, at.Weight-e.Toll
			}
		}
		if len(p.rest.Tasks) == 0 {
			return c, nil // nobody begins
		}
		for _, i := range k.Tasks {
			c.Tasks = append(c.Tasks, p.of[i])
		}
		c.Agents, p.rest.Pruned.Beyond = append(c.Agents, k.Agents...), out
		err = p.begin(stop)
	}
	if errors.Is(err, market.ErrStopped) {
		c.Tasks, c.Agents = c.Tasks[:0], c.Agents[:0]
		err = p.posted(out, most)
	}
	return c, err
}

// begin clears what is left of a round.
func (p *Plan) begin(stop func() bool) (err error) {
	c := &p.cleared
	slices.SortFunc(c.Tasks, func(a, b int32) int { return cmp.Compare(p.waiters[a].ID, p.waiters[b].ID) })
	p.rest.Sort() // agents are by id
	if c.Outcome, err = market.ClearChecked(&p.rest, stop); err == nil {
		c.Ground = p.ground()
	}
	return err
}

// ground returns the inputs of a cleared round's tolls, from which the next prices are learned, too.
func (p *Plan) ground() (g market.Ground) {
	c, r := &p.cleared, &p.rest
	if p.prices.Rates.Calm(r, &c.Outcome) {
		return g
	}
	g = market.Ground{At: clocked(p.from), Lost: market.FullShare - p.prices.Kept.Share(),
		Loads: make([]market.Load, len(r.Agents)), Stays: make([]market.Stay, len(r.Edges))}
	if k := p.tolls.least; k >= 0 {
		g.Common, g.Service = p.from.Agents[k].ID, p.tolls.slots[k].service
		g.Refused = p.tolls.refused
	}
	begin := map[market.AgentID]int{}
	for _, aw := range c.Outcome.Awards {
		begin[aw.Agent]++
	}
	for i, k := range c.Agents {
		s := &p.tolls.slots[k]
		g.Loads[i] = market.Load{Second: s.second, Service: s.service, Running: s.running,
			Spare: p.from.Agents[k].Free > begin[r.Agents[i].Agent], Refused: s.refused}
	}
	for i, e := range r.Edges {
		at, w := c.Agents[e.Agent], &p.waiters[c.Tasks[e.Task]]
		k, _ := slices.BinarySearchFunc(w.Offers, at,
			func(o estimate.Offer, agent int32) int { return cmp.Compare(o.Agent, agent) })
		g.Stays[i] = p.tolls.stay(at, w.Offers[k].Estimate)
		if x := p.others.Without(w.Client); x != nil {
			g.Stays[i].Mine = p.tolls.slots[at].running - x.slots[at].running
		}
	}
	return g
}

// posted clears the round at posted prices, without slot prices: by config, or as a solve was stopped.
func (p *Plan) posted(out, most int) error {
	r, c := &p.rest, &p.cleared
	*r = p.Whole
	if r.Rule.Pricing != market.PricingPosted {
		r.Rule.Instead, r.Rule.Pricing = r.Rule.Pricing, market.PricingPosted
	}
	r.Agents = slices.Clone(r.Agents) // a record keeps nothing of what the next round is made in
	for i := range r.Agents {
		seats := r.Agents[i].Seats
		r.Agents[i].Seats = slices.Clone(seats[:free(seats)])
		c.Agents = append(c.Agents, int32(i))
	}
	pairs := mostPosted
	for i := range p.waiters {
		if slices.ContainsFunc(p.waiters[i].Offers, func(o estimate.Offer) bool { return o.Extra < 0 }) {
			pairs = mostCharged
		}
	}
	most = min(most, len(r.Tasks), max(1, pairs/max(1, len(r.Agents))))
	for _, w := range p.of[most:] {
		p.whys[w].Beyond = true
	}
	c.Tasks, r.Pruned.Beyond = append(c.Tasks, p.of[:most]...), out+len(r.Tasks)-most
	r.Tasks, r.Edges = slices.Clone(r.Tasks[:most]), slices.DeleteFunc(slices.Clone(r.Edges),
		func(e market.Edge) bool { return e.Task >= most })
	return p.begin(nil)
}

// Apply says which waiter has each of the slots that a cleared round awards.
func (p *Plan) Apply(c *Cleared) (waiters []int32) {
	task := 0
	for _, x := range c.Outcome.Awards {
		for c.Round.Tasks[task].ID != x.Task {
			task++
		}
		waiters = append(waiters, c.Tasks[task])
	}
	return waiters
}
