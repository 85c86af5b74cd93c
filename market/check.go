package market

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"souk/market/certify"
)

// ErrOutcome marks an outcome that is not the round's.
var ErrOutcome = errors.New("wrong outcome")

// Check verifies, without solving, that o is the outcome of r: the welfare is the greatest, the prices are
// the least (so payments are exactly Clarke's, see the package comment), ties are broken by the round's seed,
// and every sum of every award is right. It takes time linear in the edges, which it reads once, and once
// more for each client whose several tasks are priced together. Of a posted round it verifies that every
// client got what suits it best of what was left. The errors are ErrOutcome, or those of [Clear].
func Check(r Round, o Outcome) error {
	if err := r.Validate(); err != nil {
		return err
	}
	return CheckValid(&r, &o)
}

// CheckValid is [Check] of a round that [Round.Validate] has passed.
func CheckValid(r *Round, o *Outcome) error {
	ws := workspaces.Get().(*workspace)
	defer workspaces.Put(ws)
	ws.layout.weigh(r)
	var err error
	switch {
	case r.Rule.Pricing == PricingPosted:
		other := *r // the usual round stays off the heap
		err = ws.checkPosted(&other, o)
	default:
		err = ws.checkAssigned(r, o)
	}
	if err != nil {
		return fmt.Errorf("round %s-%d: %w: %w", clip(r.Domain), r.Number, ErrOutcome, err)
	}
	return nil
}

// checkAssigned checks what [workspace.assigned] gives.
func (ws *workspace) checkAssigned(r *Round, o *Outcome) error {
	l, ans := &ws.layout, &ws.answer
	ans.Match, ans.Price, ans.Witnesses, ans.Second = ans.Match[:0], ans.Price[:0], ans.Witnesses[:0], nil
	for range l.seats {
		ans.Price = append(ans.Price, 0)
	}
	last := int32(-1)
	for _, p := range o.Prices {
		a, err := l.find(r, p.Agent, p.Seat)
		if err != nil {
			return fmt.Errorf("slot price: %w", err)
		}
		if a <= last || p.Price <= 0 {
			return fmt.Errorf("slot price %s of agent %s: out of order or not positive", p.Price,
				r.Agents[p.Agent].Agent)
		}
		last, ans.Price[a] = a, int64(p.Price)
	}
	if err := ws.awards(r, o); err != nil {
		return err
	}
	for _, w := range o.Witnesses {
		a, err := l.find(r, w.Agent, w.Seat)
		if err != nil {
			return fmt.Errorf("witness: %w", err)
		}
		from := int32(-1)
		if w.FromAgent != -1 {
			if from, err = l.find(r, w.FromAgent, w.FromSeat); err != nil {
				return fmt.Errorf("witness of %s: from: %w", r.Agents[w.Agent].Agent, err)
			}
		} else if w.FromSeat != 0 {
			return fmt.Errorf("witness of %s: seat %d of no agent", r.Agents[w.Agent].Agent, w.FromSeat)
		}
		if w.Task < 0 || w.Task >= len(r.Tasks) || w.Rank < 1 || w.Rank > len(l.seats) {
			return fmt.Errorf("witness of %s: task %d, rank %d: out of range", r.Agents[w.Agent].Agent,
				w.Task, w.Rank)
		}
		ans.Witnesses = append(ans.Witnesses,
			certify.Witness{Seat: a, Task: int32(w.Task), From: from, Rank: int32(w.Rank)})
	}
	if err := ws.certify(r, o); err != nil {
		return err
	}
	return ws.checkClients(r, o)
}

// weigh reads a round for the check as [layout.of] does for the solver, and shares no line with it: it adds
// up each weight by itself, of value, what the time costs, cost, toll and fee. So a mistake in what the
// solver read shows as an outcome that is not the round's.
func (l *layout) weigh(r *Round) {
	l.seats, l.first, l.slots, l.later, l.off = l.seats[:0], l.first[:0], l.slots[:0], l.later[:0], l.off[:0]
	most := 1
	for i := range r.Agents {
		seats := r.Agents[i].Seats
		l.first, most = append(l.first, int32(len(l.seats))), max(most, len(seats))
		for k := range seats {
			l.seats = append(l.seats, seat{int32(i), int32(k)})
			l.slots, l.later = append(l.slots, int32(seats[k].Slots)), append(l.later, seats[k].Later)
		}
	}
	l.first = append(l.first, int32(len(l.seats)))
	n := 0
	room := min(cap(l.seat), cap(l.weight), cap(l.edge))
	placed, weight, edge := l.seat[:room], l.weight[:room], l.edge[:room]
	for from := 0; from < len(r.Edges); {
		task := r.Edges[from].Task
		for len(l.off) <= task {
			l.off = append(l.off, int32(n))
		}
		second, within := r.Tasks[task].Second, r.Tasks[task].Within
		i := from
		for ; i < len(r.Edges) && r.Edges[i].Task == task; i++ {
			e := &r.Edges[i]
			if n+most > room {
				room = n + n/2 + len(r.Edges) - i + most
				placed, weight, edge = full(placed, room), full(weight, room), full(edge, room)
			}
			at, seats := l.first[e.Agent], r.Agents[e.Agent].Seats
			for k := range seats {
				lost := Credits(0)
				if in := seats[k].In; within != 0 && in > within { // its deadline has passed by then
					lost = MaxCredits
				} else if in > 0 {
					lost = late(second, in)
				}
				if w := e.Value + e.Toll - r.Fee - e.Cost - lost; w >= 0 {
					placed[n], weight[n], edge[n] = at+int32(k), int64(w), int32(i)
					n++
				}
			}
		}
		from = i
	}
	for len(l.off) <= len(r.Tasks) {
		l.off = append(l.off, int32(n))
	}
	l.seat, l.weight, l.edge = placed[:n], weight[:n], edge[:n]
}

// late returns the cost of a time at a price a second, as [Task.Delay] says, found otherwise: whole seconds
// first.
func late(second Credits, in time.Duration) Credits {
	const unit = Credits(time.Second)
	whole, rest := Credits(in/time.Second), Credits(in%time.Second)
	if whole > 0 && second > MaxCredits/whole {
		return MaxCredits
	}
	part := second % unit * rest
	return min(MaxCredits, second*whole+second/unit*rest+part/unit+min(1, part%unit))
}

// awards checks the figures of every award, and notes at which seat each task is, and what each award would
// be if its task were priced by itself.
func (ws *workspace) awards(r *Round, o *Outcome) error {
	l, ans := &ws.layout, &ws.answer
	ws.plain = ws.plain[:0]
	var welfare Credits
	for range r.Tasks {
		ans.Match = append(ans.Match, -1)
	}
	at := 0
	for i, a := range o.Awards {
		if i > 0 && a.Task <= o.Awards[i-1].Task {
			return fmt.Errorf("award of task %s: %s", clip(string(a.Task)),
				orderFault(a.Task == o.Awards[i-1].Task))
		}
		for at < len(r.Tasks) && r.Tasks[at].ID < a.Task {
			at++
		}
		if at == len(r.Tasks) || r.Tasks[at].ID != a.Task {
			return fmt.Errorf("award of task %s: no such task in the round", clip(string(a.Task)))
		}
		agent, ok := r.place(a.Agent)
		if !ok {
			return fmt.Errorf("award of task %s: no agent %s in the round", a.Task, clip(string(a.Agent)))
		}
		s, e, err := l.seated(r, at, agent, a.Seat, false)
		if err != nil {
			return fmt.Errorf("award of task %s: %w", a.Task, err)
		}
		want := r.award(e, l.seats[s], Credits(ans.Price[s]))
		ws.plain = append(ws.plain, want)
		if r.Rule.Clarke == ClarkeClient && r.Rule.Pricing != PricingPosted {
			want.Premium = a.Premium // see checkClients
		}
		if a != want {
			return fmt.Errorf("award of task %s is %+v, want %+v", a.Task, a, want)
		}
		ans.Match[at] = s
		welfare += a.Value - a.Cost + a.Toll
	}
	last := -1
	for _, p := range o.Planned {
		if p.Task <= last || p.Task >= len(r.Tasks) {
			return fmt.Errorf("plan of task %d: out of order or of no task", p.Task)
		}
		last = p.Task
		if ans.Match[p.Task] >= 0 {
			return fmt.Errorf("plan of task %s: it has an award", r.Tasks[p.Task].ID)
		}
		s, _, err := l.seated(r, p.Task, p.Agent, p.Seat, true)
		if err != nil {
			return fmt.Errorf("plan of task %s: %w", r.Tasks[p.Task].ID, err)
		}
		ans.Match[p.Task] = s
		i, _ := slices.BinarySearch(l.seat[l.off[p.Task]:l.off[p.Task+1]], s)
		welfare += Credits(l.weight[int(l.off[p.Task])+i])
	}
	if welfare != o.Welfare {
		return fmt.Errorf("welfare is %s, want %s", o.Welfare, welfare)
	}
	return nil
}

// seated finds the seat of a task, and its edge there.
func (l *layout) seated(r *Round, task, agent, at int, later bool) (int32, Edge, error) {
	s, err := l.find(r, agent, at)
	if err != nil {
		return 0, Edge{}, err
	}
	e, ok := l.edgeOf(r, int32(task), s)
	switch {
	case !ok:
		return 0, Edge{}, fmt.Errorf("no such edge to %s in the round, or one that loses", r.Agents[agent].Agent)
	case l.later[s] != later:
		return 0, Edge{}, fmt.Errorf("seat %d of %s: awards are of seats that are free, plans of those to come", at,
			r.Agents[agent].Agent)
	}
	return s, e, nil
}

func (ws *workspace) certify(r *Round, o *Outcome) error {
	l, ans := &ws.layout, &ws.answer
	in := certify.Instance{Off: l.off, Seat: l.seat, Weight: l.weight, Slots: l.slots}
	if len(o.Ties) == 0 {
		// An outcome lists the second prices that are not 0: none where the best is the only one, nor where
		// all are 0.
		if err := ws.checker.Check(in, *ans); !errors.Is(err, certify.ErrTie) {
			return err
		}
	}
	ws.second = append(ws.second[:0], make([]int64, len(l.seats))...)
	last := int32(-1)
	for _, t := range o.Ties {
		a, err := l.find(r, t.Agent, t.Seat)
		if err != nil {
			return fmt.Errorf("tie: %w", err)
		}
		if a <= last || t.Rank == 0 {
			return fmt.Errorf("tie of %s: out of order or 0", r.Agents[t.Agent].Agent)
		}
		last, ws.second[a] = a, t.Rank
	}
	ans.Second = ws.second
	in.Hash = r.ties(l.seats)
	return ws.checker.Check(in, *ans)
}

// find numbers a seat of an agent.
func (l *layout) find(r *Round, agent, at int) (int32, error) {
	if agent < 0 || agent >= len(r.Agents) {
		return 0, fmt.Errorf("agent index %d, want 0 to %d", agent, len(r.Agents)-1)
	}
	if at < 0 || at >= len(r.Agents[agent].Seats) {
		return 0, fmt.Errorf("seat %d of agent %s, which has %d", at, r.Agents[agent].Agent,
			len(r.Agents[agent].Seats))
	}
	return l.first[agent] + int32(at), nil
}
