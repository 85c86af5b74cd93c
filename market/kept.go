package market

import (
	"slices"
)

// Kept says what became of a round's lists, by their indexes before Cut. It is valid until the next Cut.
type Kept struct {
	Tasks, Agents, Edges []int32 // that were kept, ascending

	At []Place // of each task: the seat that it was given
	wants
}

// Place is a seat, by index into Round.Agents and its Seats. Agent is -1 for none.
type Place struct {
	Agent, Seat int32
	Later       bool
	Weight      Credits // of the task there
	Price       Credits // of a slot there
}

// write makes the lists of the round that is left.
func (c *Cutter) write(r *Round, show int) {
	k := &c.kept
	c.index = resize(c.index, len(r.Tasks)+len(r.Agents))
	task, agent := c.index[:len(r.Tasks)], c.index[len(r.Tasks):]
	for t := range r.Tasks {
		switch at := &k.At[t]; {
		case c.tasks[t]:
			task[t] = int32(len(k.Tasks))
			k.Tasks = append(k.Tasks, int32(t))
		case at.Agent < 0:
			r.Pruned.Tasks++
		default:
			r.Pruned.Planned++
		}
	}
	c.other, c.named = c.other[:0], zeroed(c.named, len(r.Agents))
	for from := 0; from < len(r.Edges); {
		t, to := r.Edges[from].Task, from
		for to < len(r.Edges) && r.Edges[to].Task == t {
			if c.edges[to] {
				k.Edges = append(k.Edges, int32(to))
			}
			to++
		}
		if at := &k.At[t]; c.tasks[t] && at.Agent >= 0 && !at.Later {
			c.others(r, from, to, show)
		}
		from = to
	}
	r.Pruned.Edges = len(r.Edges) - len(k.Edges)
	r.Agents, r.Sellers = c.agents(r, agent)
	place := func(list []int32) []Edge {
		edges := listOf[Edge](len(list))
		for _, i := range list {
			e := r.Edges[i]
			e.Task, e.Agent = int(task[e.Task]), int(agent[e.Agent])
			edges = append(edges, e)
		}
		return edges
	}
	r.Edges, r.Others = place(k.Edges), place(c.other)
	tasks := listOf[Task](len(k.Tasks))
	for _, t := range k.Tasks {
		tasks = append(tasks, r.Tasks[t])
	}
	r.Tasks = tasks
}

// agents lists those that stay, with the seats and slots that do, and notes where each is by then.
func (c *Cutter) agents(r *Round, index []int32) (agents []Supply, sellers []Seller) {
	k, l := &c.kept, &c.ws.layout
	slots, seats := c.slots(), 0
	for a, stays := range c.seats {
		if stays && slots[a] > 0 {
			c.named[l.seats[a].agent] = true
			seats++
		}
	}
	for _, i := range c.other {
		c.named[r.Edges[i].Agent] = true
	}
	for a, named := range c.named {
		if named {
			index[a] = int32(len(k.Agents))
			k.Agents = append(k.Agents, int32(a))
		}
	}
	agents, all := listOf[Supply](len(k.Agents)), listOf[Seat](seats)
	for _, a := range k.Agents {
		from := len(all)
		for i, s := range r.Agents[a].Seats {
			if at := l.first[a] + int32(i); c.seats[at] && slots[at] > 0 {
				s.Slots = min(int(slots[at]), len(k.Tasks)) // more slots than tasks change nothing
				all = append(all, s)
			}
		}
		x := Supply{Agent: r.Agents[a].Agent}
		if len(all) > from {
			x.Seats = all[from:len(all):len(all)]
		}
		agents = append(agents, x)
		if len(r.Sellers) == len(r.Agents) {
			sellers = append(sellers, r.Sellers[a])
		}
	}
	return agents, sellers
}

// listOf is an empty list with room for n; nil for none.
func listOf[T any](n int) []T {
	if n == 0 {
		return nil
	}
	return make([]T, 0, n)
}

// others lists the best edges of a task that were not kept, in the order of the round; of equals the first.
func (c *Cutter) others(r *Round, from, to, show int) {
	c.best = c.best[:0]
	for i := from; i < to; i++ {
		e := &r.Edges[i]
		if c.edges[i] || len(r.Agents[e.Agent].Seats) == 0 {
			continue
		}
		k, w := len(c.best), r.Weight(*e, 0)
		for k > 0 && c.best[k-1].weight < w {
			k--
		}
		if k < show {
			c.best = slices.Insert(c.best[:min(len(c.best), show-1)], k, shown{w, int32(i)})
		}
	}
	first := len(c.other)
	for _, x := range c.best {
		c.other = append(c.other, x.edge)
	}
	slices.Sort(c.other[first:])
}

// shown is an edge that is shown beside, by its weight at the agent's first seat.
type shown struct {
	weight Credits
	edge   int32
}
