package market

import (
	"cmp"
	"slices"
	"time"
)

// Want measures, for each second of it, what one more slot of an agent would have added to a plan.
type Want struct {
	// More counts what somebody would have at the agent's first seat, less what he has in the plan.
	More Most
	// Beside is the price of a second at which that seat were as good to somebody who waits as a slot of
	// another agent that the plan leaves free. Below it he goes on waiting beside the free one.
	Beside Most
}

// Most is the greatest of some amounts that several clients have.
type Most struct {
	All    Credits // of all clients
	Others Credits // of all but Client
	Client string

	by, next int32 // tasks whose amounts these are, from 1
}

// take counts the amount of a client's task.
func (m *Most) take(c Credits, client string, task int) {
	switch {
	case c > m.All:
		if client != m.Client {
			m.Others, m.next = m.All, m.by
		}
		m.All, m.Client, m.by = c, client, int32(task)+1
	case c > m.Others && client != m.Client:
		m.Others, m.next = c, int32(task)+1
	}
}

// without returns the greatest had a client not been there.
func (m *Most) without(client string) Credits {
	if client == m.Client {
		return m.Others
	}
	return m.All
}

// wants measures what one more slot of each agent would have added to the plan of a round.
type wants struct {
	Wants []Want

	now   []int32   // of each task: the agent where it begins, or -1
	own   []Credits // likewise: what it has in the plan
	free  []int     // of each agent: free slots that the plan leaves
	spare []int32   // of each task: the edge to the free slot that is best for it, from 1
	keep  []time.Duration

	rates []Rate // of each agent, as a check finds them
}

// of begins with a round in which nobody has a seat yet.
func (w *wants) of(r *Round) {
	agents, tasks := len(r.Agents), len(r.Tasks)
	w.Wants, w.free = zeroed(w.Wants, agents), zeroed(w.free, agents)
	w.now, w.own, w.spare = resize(w.now, tasks), zeroed(w.own, tasks), zeroed(w.spare, tasks)
	for t := range w.now {
		w.now[t] = -1
	}
	for a := range r.Agents {
		for _, s := range r.Agents[a].Seats {
			if !s.Later {
				w.free[a] += s.Slots
			}
		}
	}
}

// has says that a task is given a seat, and what it so has: the weight less the slot price, since others have
// the seat that it leaves. A seat to come counts by share, of [FullShare].
func (w *wants) has(r *Round, task, agent, seat int, own Credits, share uint32) {
	if w.own[task] = max(0, own); r.Agents[agent].Seats[seat].Later {
		w.own[task] = Part(w.own[task], int64(share), FullShare)
		return
	}
	w.now[task] = int32(agent)
	w.free[agent]--
}

// find finds it: the most that somebody would have at an agent's first seat who has none of now there, less
// what he has in this plan, for each second of slots that he keeps. By a mean service who keeps slots for
// longer would have made a second so dear that he was kept out, and so made it dearer still. Where a slot
// stays free one more adds nothing, whoever its toll keeps away. keeps are [Stay.Keeps] of each edge.
func (w *wants) find(r *Round, keeps []time.Duration) {
	if !slices.ContainsFunc(w.free, func(n int) bool { return n <= 0 }) {
		return
	}
	if slices.ContainsFunc(w.free, func(n int) bool { return n > 0 }) {
		for i := range r.Edges {
			e := &r.Edges[i]
			if w.free[e.Agent] > 0 && w.now[e.Task] < 0 && r.alone(e) > 0 &&
				(w.spare[e.Task] == 0 || r.alone(e) > r.alone(&r.Edges[w.spare[e.Task]-1])) {
				w.spare[e.Task] = int32(i) + 1
			}
		}
	}
	for i := range r.Edges {
		e := &r.Edges[i]
		seats, most := r.Agents[e.Agent].Seats, &w.Wants[e.Agent]
		if w.free[e.Agent] > 0 || len(seats) == 0 || int(w.now[e.Task]) == e.Agent {
			continue
		}
		x, t, s := e.Value-e.Cost-r.Fee, &r.Tasks[e.Task], w.spare[e.Task]
		if !above(x-w.own[e.Task], most.More.Others, keeps[i]) &&
			(s == 0 || !above(x-r.alone(&r.Edges[s-1]), most.Beside.Others, keeps[i])) {
			continue
		}
		if x -= t.Delay(seats[0].In); x <= w.own[e.Task] {
			continue
		}
		most.More.take(perSecond(x-w.own[e.Task], keeps[i]), t.Client, e.Task)
		if s > 0 {
			most.Beside.take(perSecond(x-r.alone(&r.Edges[s-1]), keeps[i]), t.Client, e.Task)
		}
	}
}

// alone returns what an edge's task would have at the agent's first slot, if that is free; 0: nothing.
func (r *Round) alone(e *Edge) Credits {
	seats, within := r.Agents[e.Agent].Seats, r.Tasks[e.Task].Within
	if len(seats) == 0 || seats[0].Later || within > 0 && seats[0].In > within {
		return 0
	}
	return max(0, r.Weight(*e, 0))
}

// planned begins with the plan of an outcome; ok is false where that is none of the round's. full says that
// an agent has no slot left: then find finds the wants, of which else there are none. Where spare says so
// more slots of an agent stay free than stand in the round.
func (w *wants) planned(r *Round, o *Outcome, share uint32, spare func(agent int) bool) (full, ok bool) {
	task, agent := -1, -1
	for i := range r.Edges {
		e := &r.Edges[i]
		if !r.holds(e) || e.Task < task || e.Task == task && e.Agent <= agent {
			return false, false
		}
		task, agent = e.Task, e.Agent
	}
	w.of(r)
	put := func(task, agent, seat int) bool {
		i, end := 0, len(r.Edges)
		for i < end {
			k := (i + end) / 2
			if e := &r.Edges[k]; e.Task < task || e.Task == task && e.Agent < agent {
				i = k + 1
			} else {
				end = k
			}
		}
		if i == len(r.Edges) || r.Edges[i].Task != task || r.Edges[i].Agent != agent ||
			uint(seat) >= uint(len(r.Agents[agent].Seats)) {
			return false
		}
		own := r.Weight(r.Edges[i], seat)
		k, priced := slices.BinarySearchFunc(o.Prices, [2]int{agent, seat}, func(p SlotPrice, at [2]int) int {
			return cmp.Or(cmp.Compare(p.Agent, at[0]), cmp.Compare(p.Seat, at[1]))
		})
		if priced {
			own -= min(own, max(0, o.Prices[k].Price))
		}
		w.has(r, task, agent, seat, own, share)
		return true
	}
	next := 0
	for i := range o.Awards {
		a := &o.Awards[i]
		for next < len(r.Tasks) && r.Tasks[next].ID < a.Task {
			next++
		}
		agent, ok := r.place(a.Agent)
		if !ok || next == len(r.Tasks) || r.Tasks[next].ID != a.Task || !put(next, agent, a.Seat) {
			return false, false
		}
	}
	for _, p := range o.Planned {
		if !put(p.Task, p.Agent, p.Seat) {
			return false, false
		}
	}
	for a := range w.free {
		if spare(a) {
			w.free[a] = max(1, w.free[a])
		}
		full = full || w.free[a] <= 0
	}
	return full, true
}
