package market

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

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
	guess guess
	proof []flow.Witness
	kept  Kept
	seats []bool  // of the layout: that stay
	tasks []bool  // likewise
	edges []bool  // likewise, of the round
	queue []int32 // seats whose witness is still to be looked at
	index []int32
	by    []int32 // of each seat, from 1: its witness in proof
	left  []int32 // of each seat: see slots
	moved []bool  // agents whose prices a second can be learned in full from what stays
	more  int     // so many more may be
	other []int32 // edges that are shown beside
	best  []shown // these, of one task
	named []bool  // agents that stay
	held  []int32 // of each seat: see hold
	room  []uint8 // of each agent, see Cut
}

// mostMoved bounds the agents from whose wants a price is learned in full: of those where a task begins it is
// all, and of others as many as make so many together. Of all in one chain of witnesses a record of a crowd
// at a thousand agents would be eight times as long.
const mostMoved = 16

// FullShare is a share of 100 %.
const FullShare = 1 << 16

// Cut solves r and reduces it to what its outcome depends on. It sets Others, to the show best of the edges
// of each task that is given a slot now that it did not take, and Pruned; everything else is set before. The
// lists of r are new afterwards, and share no memory with the old ones. keeps are [Stay.Keeps] of each edge,
// and share, of [FullShare], is what the weight of a task at a seat to come counts for in Kept.Wants. room is
// how much of each agent is free, up to [FullRoom]: of agents that are as good to a task the emptiest has it;
// nil: all are as full. Under pricing posted, where all clients are served in a line, it is an error.
func (c *Cutter) Cut(r *Round, keeps []time.Duration, share uint32, room []uint8, show int,
	stop func() bool) (*Kept, error) {
	if r.Rule.Pricing == PricingPosted {
		return nil, fmt.Errorf("market: under pricing %q no round is cut", PricingPosted)
	}
	k, ws := &c.kept, &c.ws
	c.room = room
	*k = Kept{k.Tasks[:0], k.Agents[:0], k.Edges[:0], resize(k.At, len(r.Tasks)), k.wants}
	for t := range k.At {
		k.At[t] = Place{Agent: -1}
	}
	k.wants.of(r)
	r.Pruned = Pruned{}
	l := &ws.layout
	l.of(r)
	if err := c.solve(r, stop); err != nil {
		return k, err
	}
	s := &ws.solver
	for t, a := range s.Match {
		if a >= 0 {
			at := l.seats[a]
			k.At[t] = Place{at.agent, at.at, l.later[a], Credits(l.weight[l.index(int32(t), a)]),
				Credits(s.Price[a])}
			k.has(r, t, int(at.agent), int(at.at), k.At[t].Weight-k.At[t].Price, share)
		}
	}
	k.find(r, keeps)
	if err := c.choose(r, stop); err != nil {
		return k, err
	}
	c.write(r, show)
	return k, nil
}

// solve finds the plan, of equals by turns, then by how full agents are, and then by a hash that the rounds
// before seed, and the witnesses of its prices.
func (c *Cutter) solve(r *Round, stop func() bool) error {
	l, s := &c.ws.layout, &c.ws.solver
	prefer, seed := preferenceOf(len(l.seats)), binary.BigEndian.Uint64(r.Prev[:])
	task, agent, of := int32(-1), int32(-1), uint64(0) // that were looked at last
	second := func(t, a int32) uint64 {
		if l.later[a] { // it is nothing to anybody which seat to come he waits for
			return 0
		}
		if at := l.seats[a].agent; t != task || at != agent {
			task, agent = t, at
			lot := mixed(seed^(uint64(uint32(t))<<32|uint64(uint32(at)))) >> roomBits
			if c.room != nil {
				lot |= uint64(min(c.room[at], FullRoom)) << (64 - roomBits)
			}
			of = prefer.of(&r.Tasks[t], false, lot)
		}
		return of
	}
	if len(r.Tasks) == 1 { // nobody is in its way, and nothing is summed up
		prefer = preferenceOf(1)
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
	p, g, err := l.problem(), &c.guess, error(nil)
	if len(g.match) > 0 {
		placed, hangs := g.of(r, l)
		err = s.Resume(&p, placed, hangs, stop)
	} else {
		err = s.Solve(&p, stop)
	}
	if err != nil {
		g.match = g.match[:0]
		return err
	}
	under, based := s.Hangs(g.under)
	g.under = under
	s.Settle(&p, second)
	if g.match = g.match[:0]; based {
		g.keep(r, l, s.Match)
	}
	c.proof = s.Witnesses(c.proof)
	return nil
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
	c.moved, c.more = zeroed(c.moved, len(r.Agents)), mostMoved
	c.slots() // that nobody has, as long as nobody stays
	for t := range r.Tasks {
		if at := &c.kept.At[t]; at.Agent >= 0 && !at.Later {
			c.task(int32(t))
			c.movers(r, at.Agent)
		}
	}
	c.follow(r)
	if r.Rule.Clarke != ClarkeClient || len(c.proof) == 0 {
		return nil
	}
	groups := l.groups(r, nil, s.Match, s.Price)
	if len(groups) == 0 {
		return nil
	}
	c.hold()
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
			c.follow(r)
			g.tasks, again = nil, true
		}
	}
	return nil
}

// movers has those stay of whom an agent's price a second is learned: who would have most of one more slot
// there, and who of other clients, each beside the free slot that is best for it.
func (c *Cutter) movers(r *Round, agent int32) {
	if c.moved[agent] {
		return
	}
	c.moved[agent] = true
	c.more--
	l, w := &c.ws.layout, &c.kept.Wants[agent]
	for _, t := range [4]int32{w.More.by, w.More.next, w.Beside.by, w.Beside.next} {
		if t--; t < 0 {
			continue
		}
		c.task(t)
		e, _ := slices.BinarySearchFunc(r.Edges, Edge{Task: int(t), Agent: int(agent)}, compareEdges)
		c.edges[e] = true
		if e := c.kept.spare[t] - 1; e >= 0 {
			c.edges[e] = true
			for a := l.first[r.Edges[e].Agent]; ; a++ {
				if !l.later[a] && c.left[a] > 0 {
					c.seats[a] = true
					break
				}
			}
		}
	}
}

// hold counts the slots of each seat that the same tasks have in every plan as good as this: nothing else
// that they may have is worth as much to them at the slot prices.
func (c *Cutter) hold() {
	l, s := &c.ws.layout, &c.ws.solver
	c.held = zeroed(c.held, len(l.seats))
	for t, a := range s.Match {
		if a < 0 || s.Price[a] == 0 {
			continue
		}
		own, alone := l.weight[l.index(int32(t), a)]-s.Price[a], true
		for i := l.off[t]; i < l.off[t+1] && alone; i++ {
			alone = l.seat[i] == a || l.weight[i]-s.Price[l.seat[i]] < own
		}
		if alone && own > 0 {
			c.held[a]++
		}
	}
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
				!l.later[a] && (s.Match[t] == a || c.held[a] < l.slots[a])
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
func (c *Cutter) follow(r *Round) {
	for len(c.queue) > 0 {
		a := c.queue[len(c.queue)-1]
		c.queue = c.queue[:len(c.queue)-1]
		if i := c.by[a]; i > 0 {
			w := &c.proof[i-1]
			c.task(w.Task)
			c.edge(w.Task, a)
		}
		if c.more > 0 {
			c.movers(r, c.ws.layout.seats[a].agent)
		}
	}
}

// slots says how many slots of each seat are left without those of the tasks that do not stay.
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

func resize[T any](s []T, n int) []T { return slices.Grow(s[:0], n)[:n] }

// Prices are the slot prices of an agent's seats in the round that was cut last.
func (c *Cutter) Prices(agent int) []int64 {
	l := &c.ws.layout
	return c.ws.solver.Price[l.first[agent]:l.first[agent+1]]
}
