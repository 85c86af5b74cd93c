package market

import (
	"cmp"
	"slices"
	"time"
)

// Want measures what one more slot of an agent would have added to a plan, a second of it.
type Want struct {
	Gain        // of all clients
	Others Gain // of all but one
	Client string
}

// Gain measures what a second of a slot would add to a plan.
type Gain struct {
	More  Credits
	Worth Credits // to whoever had it, whatever else the plan has for that task: never less
	Idle  bool    // that task waits beside a free slot of another agent, which is worth its cost to it
}

// wants measures what one more slot of each agent would have added to the plan of a round.
type wants struct {
	Wants []Want
	By    []int32 // of each agent: whose More that is, a task, or -1
	Next  []int32 // likewise, of other clients than that one's

	now  []int32   // of each task: the agent where it begins, or -1
	own  []Credits // likewise: what it has in the plan
	free []int     // of each agent: free slots that the plan leaves
	idle []bool    // of each task: might have one of these
	keep []time.Duration

	rates []Rate // of each agent, as a check finds them
}

// of begins with a round in which nobody has a seat yet.
func (w *wants) of(r *Round) {
	agents := len(r.Agents)
	w.Wants, w.By, w.Next = zeroed(w.Wants, agents), resize(w.By, agents), resize(w.Next, agents)
	w.now, w.own, w.free = resize(w.now, len(r.Tasks)), zeroed(w.own, len(r.Tasks)), zeroed(w.free, agents)
	for t := range w.now {
		w.now[t] = -1
	}
	for a := range r.Agents {
		w.By[a], w.Next[a] = -1, -1
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
	for i := range r.Edges {
		e := &r.Edges[i]
		seats, most := r.Agents[e.Agent].Seats, &w.Wants[e.Agent]
		if w.free[e.Agent] > 0 || len(seats) == 0 || int(w.now[e.Task]) == e.Agent {
			continue
		}
		x, t, by := e.Value-e.Cost-r.Fee, &r.Tasks[e.Task], w.By[e.Agent]
		if !above(x-w.own[e.Task], most.Others.More, keeps[i]) { // which is never above the most
			continue
		}
		x -= t.Delay(seats[0].In)
		gain := Gain{perSecond(x-w.own[e.Task], keeps[i]), perSecond(x, keeps[i]), false}
		switch {
		case gain.More > most.More:
			if by >= 0 && t.Client != most.Client {
				most.Others, w.Next[e.Agent] = most.Gain, by
			}
			most.Gain, most.Client, w.By[e.Agent] = gain, t.Client, int32(e.Task)
		case gain.More > most.Others.More && t.Client != most.Client:
			most.Others, w.Next[e.Agent] = gain, int32(e.Task)
		}
	}
	w.idle = zeroed(w.idle, len(r.Tasks))
	for i := range r.Edges {
		e := &r.Edges[i]
		w.idle[e.Task] = w.idle[e.Task] || w.free[e.Agent] > 0 && e.Value-e.Cost > r.Fee
	}
	for a := range w.Wants {
		w.Wants[a].Idle = w.By[a] >= 0 && w.idle[w.By[a]]
		w.Wants[a].Others.Idle = w.Next[a] >= 0 && w.idle[w.Next[a]]
	}
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
