package market

import (
	"cmp"
	"encoding/binary"
	"slices"

	"souk/market/flow"
)

// Cutter solves a round of all who wait, and takes out of it what its outcome does not depend on. So a hub
// plans for everybody, and still records and proves a small round. The zero value is ready for use; it keeps
// its buffers. Not for concurrent use.
//
// What stays are the tasks that are given a slot now, and what proves that they have it and what they owe: of
// each seat with a slot price the task that would take it at any less, the seat that this has, and so on to
// one that has no seat, or one without a price; and for a client with several tasks those that move where its
// are not there. All others are taken out together with the slots that they have, and of those that stay all
// edges but those that this names. The duals of the whole round restricted to what is left prove its plan;
// the chains of witnesses are in it, so its slot prices are the whole round's; and so are its bills, for the
// same reason without a client's tasks.
type Cutter struct {
	ws    workspace
	proof []flow.Witness
	kept  Kept
	seats []bool  // of the layout: that stay
	tasks []bool  // likewise
	edges []bool  // likewise, of the round
	queue []int32 // seats whose witness is still to be looked at
	index []int32
	by    []int32 // of each seat, from 1: its witness in proof
	left  []int32 // of each seat: its slots without those of the tasks that are taken out
	other []int32 // edges that are shown beside
	named []bool  // agents that stay
	free  []int   // of each agent: free slots that the plan leaves
}

// Kept says what became of a round's lists, by their indexes before Cut. It is valid until the next Cut.
type Kept struct {
	Tasks, Agents, Edges []int32 // that were kept, ascending

	At []Place // of each task: the seat that it was given
	// of each agent: what one more slot there would have added to the plan, at its first seat; 0: one stays
	// free
	More []Credits
	By   []int32   // to whom: a task, or -1
	Else []Credits // what it would have added to tasks of other clients than that one's
}

// Place is a seat, by index into Round.Agents and its Seats. Agent is -1 for none.
type Place struct {
	Agent, Seat int32
	Later       bool
	Weight      Credits // of the task there
	Price       Credits // of a slot there
}

// FullShare is a share of 100 %.
const FullShare = 1 << 16

// Cut solves r and reduces it to what its outcome depends on. It sets Others, to the show best of the edges
// of each task that is given a slot now that it did not take, and Pruned; everything else is set before. The
// lists of r are new afterwards, and share no memory with the old ones. share, of [FullShare], is what the
// weight of a task at a seat to come counts for in Kept.More. Under pricing posted nothing is cut, since all
// clients are served in a line.
func (c *Cutter) Cut(r *Round, share uint32, show int, stop func() bool) (*Kept, error) {
	k, ws := &c.kept, &c.ws
	agents := len(r.Agents)
	*k = Kept{k.Tasks[:0], k.Agents[:0], k.Edges[:0], resize(k.At, len(r.Tasks)), zeroed(k.More, agents),
		resize(k.By, agents), zeroed(k.Else, agents)}
	for t := range k.At {
		k.At[t] = Place{Agent: -1}
	}
	for a := range k.By {
		k.By[a] = -1
	}
	r.Pruned = Pruned{}
	if r.Rule.Pricing == PricingPosted {
		ws.layout.first = ws.layout.first[:0]
		for t := range r.Tasks {
			k.Tasks = append(k.Tasks, int32(t))
		}
		return k, nil
	}
	l := &ws.layout
	l.of(r)
	if err := c.solve(r, stop); err != nil {
		return k, err
	}
	s := &ws.solver
	for t, a := range s.Match {
		if a >= 0 {
			at := l.seats[a]
			k.At[t] = Place{at.agent, at.at, l.later(r, a), Credits(l.weight[l.index(int32(t), a)]),
				Credits(s.Price[a])}
		}
	}
	c.more(r, share)
	if err := c.choose(r, stop); err != nil {
		return k, err
	}
	c.write(r, show)
	return k, nil
}

// solve finds the plan, of equals by turns and then by a hash that the rounds before seed, and the witnesses
// of its prices.
func (c *Cutter) solve(r *Round, stop func() bool) error {
	l, s := &c.ws.layout, &c.ws.solver
	prefer, seed := preferenceOf(len(l.seats)), binary.BigEndian.Uint64(r.Prev[:])
	second := func(t, a int32) uint64 { // it is nothing to anybody which seat to come he waits for
		if l.later(r, a) {
			return 0
		}
		of := uint64(uint32(t))<<32 | uint64(uint32(l.seats[a].agent))
		return prefer.of(&r.Tasks[t], false, mixed(seed^of))
	}
	if len(r.Tasks) == 1 { // nobody is in its way
		best := int32(-1)
		for i, w := range l.weight {
			if best < 0 || w > l.weight[best] ||
				w == l.weight[best] && second(0, l.seat[i]) > second(0, l.seat[best]) {
				best = int32(i)
			}
		}
		s.Match, s.Price, c.proof = append(s.Match[:0], -1), zeroed(s.Price, len(l.seats)), c.proof[:0]
		if best >= 0 {
			s.Match[0] = l.seat[best]
		}
		return nil
	}
	p := l.problem()
	if err := s.Solve(&p, stop); err != nil {
		return err
	}
	s.Settle(&p, second)
	c.proof = s.Witnesses(c.proof)
	return nil
}

// more finds what one more slot would have added at each agent's first seat: to somebody who has none there
// now, less what he has, of which a seat to come counts by share.
func (c *Cutter) more(r *Round, share uint32) {
	k := &c.kept
	c.free = zeroed(c.free, len(r.Agents))
	for a := range r.Agents {
		for _, s := range r.Agents[a].Seats {
			if !s.Later {
				c.free[a] += s.Slots
			}
		}
	}
	for t := range k.At {
		if at := &k.At[t]; at.Agent >= 0 && !at.Later {
			c.free[at.Agent]--
		}
	}
	for _, e := range r.Edges {
		if c.free[e.Agent] > 0 { // a slot stays free: one more adds nothing, whoever its toll keeps away
			continue
		}
		seats := r.Agents[e.Agent].Seats
		at := &k.At[e.Task]
		if len(seats) == 0 || int(at.Agent) == e.Agent && !at.Later {
			continue
		}
		own := at.Weight - at.Price
		if at.Agent < 0 {
			own = 0
		} else if at.Later {
			own = Credits(uint64(own)>>16*uint64(share)) + Credits(uint64(own)&0xffff*uint64(share)>>16)
		}
		bare := e.Value - r.Tasks[e.Task].Delay(seats[0].In) - e.Cost - r.Fee
		x, by := bare-own, k.By[e.Agent]
		mine := by >= 0 && r.Tasks[by].Client == r.Tasks[e.Task].Client
		switch {
		case x > k.More[e.Agent]:
			if by >= 0 && !mine {
				k.Else[e.Agent] = k.More[e.Agent]
			}
			k.More[e.Agent], k.By[e.Agent] = x, int32(e.Task)
		case !mine:
			k.Else[e.Agent] = max(k.Else[e.Agent], x)
		}
	}
}

// choose marks the tasks, seats and edges that stay.
func (c *Cutter) choose(r *Round, stop func() bool) error {
	l, s := &c.ws.layout, &c.ws.solver
	c.seats, c.tasks, c.edges = zeroed(c.seats, len(l.seats)), zeroed(c.tasks, len(r.Tasks)),
		zeroed(c.edges, len(r.Edges))
	c.by = zeroed(c.by, len(l.seats))
	for i, w := range c.proof {
		c.by[w.Seat] = int32(i + 1)
	}
	c.queue = c.queue[:0]
	for t := range r.Tasks {
		if at := &c.kept.At[t]; at.Agent >= 0 && !at.Later {
			c.task(int32(t))
		}
	}
	c.follow()
	if r.Rule.Clarke != ClarkeClient || len(c.proof) == 0 {
		return nil
	}
	groups := l.groups(r, nil, s.Match, s.Price)
	if len(groups) == 0 {
		return nil
	}
	p := l.problem()
	c.ws.others.Of(s, &p, c.proof)
	for again := true; again; { // what stays for one client may be another's
		again = false
		for i := range groups {
			g := &groups[i]
			if g.tasks == nil || !c.bills(r, g) {
				continue
			}
			if err := c.ws.others.Without(g.tasks, stop); err != nil {
				return err
			}
			for _, t := range g.tasks {
				if a := s.Match[t]; a >= 0 && s.Price[a] > 0 {
					c.task(t)
				}
			}
			for t, a := range c.ws.others.Match {
				if a != s.Match[t] && !slices.Contains(g.tasks, int32(t)) {
					if c.task(int32(t)); a >= 0 {
						c.edge(int32(t), a)
					}
				}
			}
			c.follow()
			g.tasks, again = nil, true
		}
	}
	return nil
}

// bills reports whether a client with several tasks may be billed for them together: several of them stay or
// have a slot with a price, and in this plan or in another as good one begins where a slot has a price.
func (c *Cutter) bills(r *Round, g *group) bool {
	l, s := &c.ws.layout, &c.ws.solver
	several, pays := 0, false
	for _, t := range g.tasks {
		a := s.Match[t]
		if c.tasks[t] || a >= 0 && s.Price[a] > 0 {
			several++
		}
		if !c.tasks[t] {
			continue
		}
		own := int64(0)
		if a >= 0 {
			own = l.weight[l.index(t, a)] - s.Price[a]
		}
		for i := l.off[t]; i < l.off[t+1] && !pays; i++ {
			a := l.seat[i]
			pays = c.seats[a] && c.edges[l.edge[i]] && s.Price[a] > 0 && l.weight[i]-s.Price[a] == own &&
				!l.later(r, a)
		}
	}
	return several > 1 && pays
}

// task has a task stay, with the seat that it has.
func (c *Cutter) task(t int32) {
	if c.tasks[t] {
		return
	}
	c.tasks[t] = true
	if a := c.ws.solver.Match[t]; a >= 0 {
		c.edge(t, a)
	}
}

// edge has an edge of a task to a seat stay, and the seat.
func (c *Cutter) edge(t, a int32) {
	l := &c.ws.layout
	c.edges[l.edge[l.index(t, a)]] = true
	if !c.seats[a] {
		c.seats[a] = true
		c.queue = append(c.queue, a)
	}
}

// follow has those stay who are the witnesses of the prices of the seats that do.
func (c *Cutter) follow() {
	for len(c.queue) > 0 {
		a := c.queue[len(c.queue)-1]
		c.queue = c.queue[:len(c.queue)-1]
		if i := c.by[a]; i > 0 {
			w := &c.proof[i-1]
			c.task(w.Task)
			c.edge(w.Task, a)
		}
	}
}

// slots says how many slots of each seat are left without those of the tasks that were taken out.
func (c *Cutter) slots() []int32 {
	c.left = append(c.left[:0], c.ws.layout.slots...)
	for t, a := range c.ws.solver.Match {
		if a >= 0 && !c.tasks[t] {
			c.left[a]--
		}
	}
	return c.left
}

func zeroed[T any](s []T, n int) []T {
	s = resize(s, n)
	clear(s)
	return s
}

func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/4)
	}
	return s[:n]
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
	first := len(c.other)
	for i := from; i < to; i++ {
		if !c.edges[i] && len(r.Agents[r.Edges[i].Agent].Seats) > 0 {
			c.other = append(c.other, int32(i))
		}
	}
	list := c.other[first:]
	slices.SortStableFunc(list, func(a, b int32) int {
		return cmp.Compare(r.Weight(r.Edges[b], 0), r.Weight(r.Edges[a], 0))
	})
	list = list[:min(len(list), show)]
	slices.Sort(list)
	c.other = c.other[:first+len(list)]
}

// Prices are the slot prices of an agent's seats in the round that was cut last; nil under pricing posted.
func (c *Cutter) Prices(agent int) []int64 {
	l := &c.ws.layout
	if len(l.first) == 0 {
		return nil
	}
	return c.ws.solver.Price[l.first[agent]:l.first[agent+1]]
}
