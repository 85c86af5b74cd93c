package market

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Rates hold the prices of agents' slots as the rounds of a journal taught them. Hub, standby and audit keep
// one each and come to the same, since nothing moves it but the rounds on record.
//
// Prices are learned twice: from a span of [Remembered] and the one before it, which is what is read, and
// from the span alone, which is read in the next. So nothing of a round is remembered for longer than two
// spans, and who missed some knows all prices again soon: see [Known].
type Rates struct {
	Span   int64            // of the last round that taught something
	Agents map[AgentID]Rate // those whose slots cost something, or that the last round wanted
	Fresh  map[AgentID]Rate // the same by the rounds of the span alone
	Lost   uint32           // as the last ground has it
}

// Remembered is after what time a price has waned to less than a millionth.
const Remembered = 20 * time.Second

// wanted is memory for what rounds want.
var wanted = sync.Pool{New: func() any { return new(wants) }}

func spanOf(at int64) int64 { return at / int64(Remembered/time.Millisecond) }

// Known reports whether prices are known at a time, had nothing been known before the first of two. Where the
// clock was set back nothing costs anything.
func Known(first, at int64) bool {
	spans := spanOf(at) - spanOf(first)
	return spans < 0 || spans > 1
}

// At returns the rates that count at a time, to be read.
func (x *Rates) At(at int64) map[AgentID]Rate {
	switch spanOf(at) - x.Span {
	case 0:
		return x.Agents
	case 1:
		return x.Fresh
	}
	return nil
}

// Of returns the rate of an agent's slots at a time.
func (x *Rates) Of(agent AgentID, at int64) Rate { return x.At(at)[agent] }

// Calm reports whether a round needs no ground: its agents' slots cost nothing, and nobody wants one more.
func (x *Rates) Calm(r *Round, o *Outcome) bool {
	for i := range r.Agents {
		if _, known := x.Agents[r.Agents[i].Agent]; known {
			return false
		}
	}
	if r.Rule.Pricing == PricingPosted {
		return true
	}
	w := wanted.Get().(*wants)
	defer wanted.Put(w)
	full, ok := w.planned(r, o, 0, func(int) bool { return false })
	if !full || !ok {
		return true
	}
	w.keep = zeroed(w.keep, len(r.Edges)) // whether one more is wanted depends on no time
	w.find(r, w.keep)
	return !slices.ContainsFunc(w.Wants, func(w Want) bool { return w.More.All > 0 })
}

// Learn takes in a round that is on record.
func (x *Rates) Learn(r *Round, o *Outcome, g *Ground) {
	if len(g.Loads) == 0 || len(g.Loads) != len(r.Agents) || len(g.Stays) != len(r.Edges) {
		return
	}
	if s := spanOf(g.At); s != x.Span {
		x.Agents, x.Fresh, x.Span = x.At(g.At), nil, s
	}
	x.Lost = g.Lost
	if r.Rule.Pricing == PricingPosted { // nothing is planned
		return
	}
	wants, share := wanted.Get().(*wants), FullShare-min(g.Lost, FullShare)
	defer wanted.Put(wants)
	full, ok := wants.planned(r, o, share, func(a int) bool { return g.Loads[a].Spare })
	if !ok {
		return
	}
	if full {
		wants.keep = wants.keep[:0]
		for i := range r.Edges {
			wants.keep = append(wants.keep, g.Stays[i].Keeps(g.Loads[r.Edges[i].Agent].Running))
		}
		wants.find(r, wants.keep)
	}
	for i, w := range wants.Wants {
		if a := &r.Agents[i]; len(a.Seats) > 0 {
			x.Agents, x.Fresh = learn(x.Agents, a.Agent, g.At, w), learn(x.Fresh, a.Agent, g.At, w)
		}
	}
}

// learn takes in what a round wanted of an agent. Of too many agents all others are forgotten.
func learn(known map[AgentID]Rate, id AgentID, at int64, w Want) map[AgentID]Rate {
	if len(known) == 0 && w.More.All <= 0 {
		return known
	}
	rate, in := known[id]
	if !in && w.More.All <= 0 {
		return known
	}
	if known == nil || !in && len(known) == MaxAgents {
		known = map[AgentID]Rate{}
	}
	rate.learn(at, w)
	if known[id] = rate; rate.Price == 0 && w.More.All <= 0 {
		delete(known, id)
	}
	return known
}

// ErrRates marks a round whose tolls or prices a second do not follow from the rounds before it.
var ErrRates = errors.New("not what the rounds before taught")

// Check recomputes what a round says of slots from what the rounds before it taught: what a second of one
// costs, each toll, and what of it is not charged. set is what policies and the regime charged on an edge, at
// most 0.
func (x *Rates) Check(r *Round, o *Outcome, g *Ground, set func(edge int) Credits) error {
	said := len(g.Loads) > 0
	if !said && !x.Calm(r, o) {
		return fmt.Errorf("%w: it does not say what its tolls are made of, and a slot costs something or is "+
			"wanted", ErrRates)
	}
	known := x.At(g.At)
	lowest := known[g.Common]
	least := PerSecond(lowest.PriceAt(g.At), g.Service)
	all := uint8(1)<<len(g.Refused) - 1 // refused clients
	if n := len(g.Refused); n > 0 && (g.Common == "" || n > MostRefused || !Refuses(g.Refused, all, "")) {
		return fmt.Errorf("%w: %d refused clients are named, which charges nobody more", ErrRates, n)
	}
	w := wanted.Get().(*wants)
	defer wanted.Put(w)
	w.rates = resize(w.rates, len(r.Agents))
	if said {
		if k, in := r.place(g.Common); in && (g.Loads[k].Running == 0 || g.Loads[k].Service != g.Service) {
			return fmt.Errorf("%w: everybody is said to pay agent %s's price for %v, and %d run there for %v",
				ErrRates, g.Common, g.Service, g.Loads[k].Running, g.Loads[k].Service)
		}
		for i := range r.Agents {
			l, id := &g.Loads[i], r.Agents[i].Agent
			w.rates[i] = known[id]
			if want := w.rates[i].PriceAt(g.At); l.Second != want {
				return fmt.Errorf("%w: a second at agent %s costs %s, want %s", ErrRates, id, l.Second, want)
			}
			if l.Refused&^all != 0 {
				return fmt.Errorf("%w: agent %s has refused clients that are not named", ErrRates, id)
			}
			here := PerSecond(l.Second, l.Service) // of equal agents it is the first
			if l.Running > 0 && (here < least || here == least && id < g.Common) {
				return fmt.Errorf("%w: everybody is said to pay %s at agent %s, and at %s it is %s", ErrRates,
					least, g.Common, id, here)
			}
		}
	}
	for i := range r.Edges {
		e, toll, own := &r.Edges[i], Credits(0), Credits(0)
		if said && g.Loads[e.Agent].Second > 0 { // else a slot there costs others nothing
			l, stay := &g.Loads[e.Agent], &g.Stays[i]
			common := g.common(l, lowest.PriceAt(g.At), "")
			if toll = stay.Toll(l.Second, l.Running, common); toll > 0 { // else nothing of it is anybody's
				client := r.Tasks[e.Task].Client
				own = toll - min(toll, stay.Toll(w.rates[e.Agent].Without(g.At, client),
					max(0, l.Running-stay.Mine), g.common(l, lowest.Without(g.At, client), client)))
			}
		}
		if want := set(i) - toll; e.Toll != want || e.Own != own {
			return fmt.Errorf("%w: task %s on agent %s: toll %s, of which %s is not charged, want %s and %s",
				ErrRates, r.Tasks[e.Task].ID, r.Agents[e.Agent].Agent, e.Toll, e.Own, want, own)
		}
	}
	return nil
}

// Validate judges rates that were kept elsewhere.
func (x *Rates) Validate() error {
	if x.Lost > FullShare || max(len(x.Agents), len(x.Fresh)) > MaxAgents {
		return fmt.Errorf("%d agents' slots cost something, %d is lost: out of bounds", len(x.Agents), x.Lost)
	}
	for _, known := range [2]map[AgentID]Rate{x.Agents, x.Fresh} {
		for id, r := range known {
			if r.At < 0 || r.Price < 0 || r.Price > MaxWorth || len(r.Excess) > mostExcess ||
				slices.ContainsFunc(r.Excess,
					func(e Excess) bool { return e.Price <= 0 || e.Price > r.Price }) {
				return fmt.Errorf("what the slots of agent %s cost is out of bounds", clip(string(id)))
			}
		}
	}
	return nil
}
