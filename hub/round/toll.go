package round

import (
	"slices"
	"time"

	"souk/hub/estimate"
	"souk/market"
)

// Tolls hold the prices of slots in one round.
type Tolls struct {
	slots   []slot         // of each agent
	common  market.Credits // what everybody would pay
	least   int            // where that is; -1: nobody pays anything
	refused []string       // clients, for whose sake everybody does: see [market.Refuses]
	but     string         // the client without whom they are
}

// slot holds the inputs of one agent's tolls.
type slot struct {
	second  market.Credits // price
	running int
	service time.Duration // for which a task of its class keeps what is short
	bound   bool          // and that is the time for prompts
	refused uint8         // see [market.Load]
}

// clocked is the time of a snapshot as a record says it.
func clocked(from *estimate.Snapshot) int64 { return max(0, from.Now/int64(time.Millisecond)) }

// set makes them those of a round with these agents, in the memory that they have. Everybody would pay the
// least toll of those that run something. It depends on no task, and on no model that a task names. Where
// nobody is refused it moves nobody, so nobody does.
func (t *Tolls) set(from *estimate.Snapshot, rates *market.Rates, refused []refusal) {
	at := clocked(from)
	t.slots, t.least, t.common = slices.Grow(t.slots[:0], len(from.Agents)), -1, 0
	known := rates.At(at)
	for i := range from.Agents {
		a := &from.Agents[i]
		t.slots = append(t.slots, slot{})
		s := &t.slots[i]
		if s.bound = a.PrefillBound; len(known) > 0 {
			s.second = known[a.ID].PriceAt(at)
		}
		if i > 0 && a.Class == from.Agents[i-1].Class && s.bound == t.slots[i-1].bound {
			s.service = t.slots[i-1].service
		} else if c := &from.Classes[a.Class]; s.bound {
			s.service = market.WholeService(c.Prefill)
		} else {
			s.service = market.WholeService(c.Own)
		}
		if s.running = max(0, min(a.Running, market.MaxSlots)); s.running > 0 {
			if c := market.PerSecond(s.second, s.service); t.least < 0 || c < t.common {
				t.least, t.common = i, c
			}
		}
	}
	if t.refused = t.refused[:0:0]; t.common == 0 {
		t.least = -1
		return
	}
	for i, x := range refused {
		t.refused = append(t.refused, x.client)
		for k := range from.Agents {
			if _, in := slices.BinarySearch(x.there, from.Agents[k].ID); in {
				t.slots[k].refused |= 1 << i
			}
		}
	}
}

// Others are the tolls had one client or another not been there.
type Others struct {
	whole *Tolls
	by    map[string]int32 // clients: in list, from 1; 0: without it they are the same
	list  []Tolls
}

// set makes them those of a round without each client that waits, in the memory that they have.
func (o *Others) set(whole *Tolls, from *estimate.Snapshot, waiters []estimate.Waiter, rates *market.Rates) {
	at := clocked(from)
	o.whole, o.list = whole, o.list[:0]
	if o.by == nil {
		o.by = map[string]int32{}
	}
	clear(o.by)
	for i := range waiters {
		o.by[waiters[i].Client] = 0
	}
	for i := range from.Runs {
		run := &from.Runs[i]
		if x := o.own(run.Client); x != nil && run.Agent >= 0 {
			x.slots[run.Agent].running = max(0, x.slots[run.Agent].running-1)
		}
	}
	for k := range from.Agents {
		if whole.slots[k].second > 0 { // else nobody's leaving makes it less
			r := rates.Of(from.Agents[k].ID, at)
			for i := range r.Excess {
				if x := o.own(r.Excess[i].Client); x != nil {
					x.slots[k].second = r.Less(at, i)
				}
			}
		}
	}
	for _, client := range whole.refused {
		o.own(client)
	}
	for i := range o.list { // everybody would pay what is paid at the same agent as with the client
		if x := &o.list[i]; x.least >= 0 {
			x.common = market.PerSecond(x.slots[x.least].second, x.slots[x.least].service)
		}
	}
}

// own returns the tolls without a client; nil for a client that was not asked for.
func (o *Others) own(client string) *Tolls {
	i, in := o.by[client]
	switch {
	case !in:
		return nil
	case i > 0:
		return &o.list[i-1]
	}
	k := len(o.list)
	o.list = slices.Grow(o.list, 1)[:k+1] // with the memory that it has
	x := &o.list[k]
	*x = Tolls{slots: append(x.slots[:0], o.whole.slots...), least: o.whole.least, refused: o.whole.refused,
		but: client}
	o.by[client] = int32(k + 1)
	return x
}

// Without are the tolls had a client not been there; nil if they are the same.
func (o *Others) Without(client string) *Tolls {
	if i := o.by[client]; i > 0 {
		return &o.list[i-1]
	}
	return nil
}

// Of is the toll, at least 0, of a task's stay at an agent.
func (t *Tolls) Of(i int32, stay market.Stay) market.Credits {
	s := &t.slots[i]
	if s.second == 0 {
		return 0
	}
	if market.Refuses(t.refused, s.refused, t.but) {
		return stay.Toll(s.second, s.running, 0)
	}
	return stay.Toll(s.second, s.running, t.common)
}

// stay rounds a task's stay as a record says it. Where the time for prompts is what is short it is that of
// its own prompt, and no less than a tenth of the usual: what a slot would add is divided by it.
func (t *Tolls) stay(i int32, e *estimate.Estimate) market.Stay {
	s := &t.slots[i]
	x := market.Stay{Service: s.service, Prefill: market.WholePrefill(e.Prefill)}
	if s.bound {
		x.Service = market.WholeService(max(e.Prefill, s.service/10))
	}
	return x
}
