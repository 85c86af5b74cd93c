package market

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"souk/market/certify"
	"souk/market/flow"
)

// seat names a seat of an agent, by index into Round.Agents and its Seats.
type seat struct{ agent, at int32 }

// layout is a round in the form that solver and checker read: edges from tasks to seats. Edges of negative
// weight are left out: everybody is better off if such a task is not served there (iemas 4.2 discards them
// too).
type layout struct {
	seats  []seat
	first  []int32 // index of every agent's first seat, and of what would be the next agent's
	off    []int32
	seat   []int32
	weight []int64
	edge   []int32 // index into Round.Edges
	slots  []int32
	later  []bool
	delay  []int64   // what waiting for each seat costs
	second []Credits // of every agent: a task whose second costs so much

	order, awarded []int32 // of groups
}

func (l *layout) of(r *Round) {
	l.place(r)
	off := append(l.off[:0], 0)
	size := max(cap(l.seat), len(r.Edges))
	at, weight, edge := full(l.seat, size), full(l.weight, size), full(l.edge, size)
	firsts, seconds, delays := l.first, l.second, l.delay
	n, task, within, second := 0, -1, time.Duration(0), Credits(0)
	for i := range r.Edges {
		e := &r.Edges[i]
		if e.Task != task {
			for len(off) <= e.Task {
				off = append(off, int32(n))
			}
			task, second, within = e.Task, r.Tasks[e.Task].Second, r.Tasks[e.Task].Within
		}
		gross := int64(e.Value - e.Cost + e.Toll - r.Fee)
		if gross < 0 {
			continue
		}
		if seconds[e.Agent] != second {
			l.delays(r, e.Agent, second)
		}
		first := firsts[e.Agent]
		delay := delays[first:firsts[e.Agent+1]]
		if more := n + len(delay); more > len(at) {
			more += more / 2
			at, weight, edge = full(at, more), full(weight, more), full(edge, more)
		}
		for k, d := range delay {
			if w := gross - d; w >= 0 && (within == 0 || r.Agents[e.Agent].Seats[k].In <= within) {
				at[n], weight[n], edge[n] = first+int32(k), w, int32(i)
				n++
			}
		}
	}
	for len(off) <= len(r.Tasks) {
		off = append(off, int32(n))
	}
	l.off, l.seat, l.weight, l.edge = off, at[:n], weight[:n], edge[:n]
}

// delays finds the cost of waiting for each of an agent's seats to a task whose second costs so much, its
// deadline aside. A second costs many tasks the same.
func (l *layout) delays(r *Round, agent int, second Credits) {
	t := Task{Second: second}
	l.second[agent] = second
	for k, s := range r.Agents[agent].Seats {
		l.delay[l.first[agent]+int32(k)] = int64(t.Delay(s.In))
	}
}

// place numbers the seats of all agents.
func (l *layout) place(r *Round) {
	l.seats, l.slots, l.later = l.seats[:0], l.slots[:0], l.later[:0]
	l.first, l.second = l.first[:0], l.second[:0]
	for i := range r.Agents {
		l.first, l.second = append(l.first, int32(len(l.seats))), append(l.second, -1)
		for k, s := range r.Agents[i].Seats {
			l.seats = append(l.seats, seat{int32(i), int32(k)})
			l.slots, l.later = append(l.slots, int32(s.Slots)), append(l.later, s.Later)
		}
	}
	l.first = append(l.first, int32(len(l.seats)))
	l.delay = full(l.delay, len(l.seats))
}

// full is a list of so many items, which begins with all that there are.
func full[T any](s []T, n int) []T {
	if cap(s) < n {
		s = append(make([]T, 0, n), s...)
	}
	return s[:n]
}

// workspace is kept between rounds, so that clearing allocates little beyond its Outcome, and checking
// nothing.
type workspace struct {
	layout  layout
	solver  flow.Solver
	proof   []flow.Witness
	checker certify.Checker
	answer  certify.Answer
	second  []int64
	plain   []Award

	others flow.Others

	less  flow.Problem // some of the round's tasks or seats
	match []int32      // of these, and prices
	price []int64
	again flow.Solver
}

var workspaces = sync.Pool{New: func() any { return new(workspace) }}

// ErrStopped says that clearing was stopped. There is no outcome, since there are no prices.
var ErrStopped = flow.ErrStopped

// Clear decides who is served where and what everyone owes (iemas Eq. 7 and 8, with an outside option): the
// awards of greatest welfare, each at its slot price, with the proof that [Check] reads. Under pricing posted
// clients are served in a line instead. The same Round gives the same Outcome on every machine. It fails only
// on a round that [Round.Validate] refuses.
func Clear(r Round) (Outcome, error) {
	if err := r.Validate(); err != nil {
		return Outcome{}, err
	}
	return clearValid(&r, nil)
}

// ClearChecked is [Clear] and [Check] of the outcome. It calls stop after about every 65,536 edges read; once
// stop returns true, the error is ErrStopped. So stop decides whether there is an outcome, never which one.
func ClearChecked(r *Round, stop func() bool) (Outcome, error) {
	if err := r.Validate(); err != nil {
		return Outcome{}, err
	}
	o, err := clearValid(r, stop)
	if err == nil {
		err = CheckValid(r, &o)
	}
	return o, err
}

// clearValid clears a round that is valid.
func clearValid(r *Round, stop func() bool) (Outcome, error) {
	if len(r.Edges) == 0 {
		return Outcome{}, nil
	}
	ws := workspaces.Get().(*workspace)
	defer workspaces.Put(ws)
	ws.layout.of(r)
	var o Outcome
	var err error
	switch {
	case r.Rule.Pricing == PricingPosted:
		other := *r // the usual round stays off the heap
		o, err = ws.posted(&other)
	default:
		o, err = ws.assigned(r, stop)
	}
	if err != nil {
		return Outcome{}, fmt.Errorf("round %s-%d: %w", clip(r.Domain), r.Number, err)
	}
	return o, nil
}

// assigned clears a round by the assignment of greatest weight and its slot prices.
func (ws *workspace) assigned(r *Round, stop func() bool) (Outcome, error) {
	l := &ws.layout
	if len(r.Tasks) == 1 && len(l.seat) == 1 && l.weight[0] > 0 {
		// As of most rounds one task and one agent are left: it goes there, and nobody is in its way.
		var o Outcome
		l.award(r, &o, l.seat, nil)
		return o, nil
	}
	p := l.problem()
	if err := ws.solver.Solve(&p, stop); err != nil {
		return Outcome{}, err
	}
	second := ws.solver.Settle(&p, r.ties(l.seats))
	ws.proof = ws.solver.Witnesses(ws.proof)
	o := ws.outcome(r, second)
	if r.Rule.Clarke == ClarkeClient {
		if err := ws.bills(r, &o, stop); err != nil {
			return Outcome{}, err
		}
	}
	return o, nil
}

func (ws *workspace) outcome(r *Round, second []int64) Outcome {
	l, s := &ws.layout, &ws.solver
	var o Outcome
	l.award(r, &o, s.Match, s.Price)
	if len(ws.proof) > 0 {
		o.Prices = make([]SlotPrice, len(ws.proof))
		o.Witnesses = make([]Witness, len(ws.proof))
	}
	for i, w := range ws.proof {
		at := l.seats[w.Seat]
		o.Prices[i] = SlotPrice{int(at.agent), int(at.at), Credits(s.Price[w.Seat])}
		from := seat{-1, 0}
		if w.From >= 0 {
			from = l.seats[w.From]
		}
		o.Witnesses[i] = Witness{int(at.agent), int(at.at), int(w.Task), int(from.agent), int(from.at),
			int(w.Rank)}
	}
	for a, rank := range second {
		if rank != 0 {
			o.Ties = append(o.Ties, Tie{int(l.seats[a].agent), int(l.seats[a].at), rank})
		}
	}
	return o
}

// award says who is placed where by an assignment of tasks to seats. price has each seat's slot price; nil:
// all are 0.
func (l *layout) award(r *Round, o *Outcome, match []int32, price []int64) {
	served := 0
	for _, a := range match {
		if a >= 0 && !l.later[a] {
			served++
		}
	}
	if served > 0 {
		o.Awards = make([]Award, 0, served)
	}
	for t, a := range match {
		if a < 0 {
			continue
		}
		e, ok := l.edgeOf(r, int32(t), a)
		if !ok {
			panic("market: a task sits where it has no edge")
		}
		at := l.seats[a]
		o.Welfare += r.Weight(e, int(at.at))
		if l.later[a] {
			o.Planned = append(o.Planned, Planned{t, int(at.agent), int(at.at)})
			continue
		}
		var slot Credits
		if price != nil {
			slot = Credits(price[a])
		}
		o.Awards = append(o.Awards, r.award(e, at, slot))
	}
}

// award makes the award of an edge that is served from a seat at a slot price.
func (r *Round) award(e Edge, at seat, price Credits) Award {
	toll := e.Toll - r.Fee
	return Award{
		Task: r.Tasks[e.Task].ID, Agent: r.Agents[at.agent].Agent, Seat: int(at.at),
		Value: e.Value - r.Tasks[e.Task].Delay(r.Agents[at.agent].Seats[at.at].In), Cost: e.Cost,
		SlotPrice: price, Toll: toll, Premium: price - toll - e.Own,
	}
}

// problem makes the solver's input.
func (l *layout) problem() flow.Problem {
	return flow.Problem{Off: l.off, Seat: l.seat, Weight: l.weight, Slots: l.slots}
}

// index finds where in the layout task t's edge to seat a stands, which exists.
func (l *layout) index(t, a int32) int32 {
	i, _ := slices.BinarySearch(l.seat[l.off[t]:l.off[t+1]], a)
	return l.off[t] + int32(i)
}

// edgeOf finds the round's edge between task t and the agent of seat a.
func (l *layout) edgeOf(r *Round, t, a int32) (Edge, bool) {
	lo := l.off[t]
	i, ok := slices.BinarySearch(l.seat[lo:l.off[t+1]], a)
	if !ok {
		return Edge{}, false
	}
	return r.Edges[l.edge[lo+int32(i)]], true
}
