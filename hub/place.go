package hub

import (
	"slices"

	"souk/market"
)

// Where idle agents that are equal to every task of a round have a slot for each of them, each task has a
// place of its own at one of these, and need not look at the others: it finds no better slot there, and
// nobody takes its place from it (see market.Pruner). So a burst on an idle fleet is not every task times
// every agent.

// spread is idle agents that every task of a round finds equal.
type spread struct {
	first   *agent
	group   int32
	free    int
	all     int     // with those that some task tells from the others
	members []int32 // in scratch.agents, that none does
	wide    bool    // their first tiers have a slot for each task
	seen    int     // of all, those that the task at hand looks at
}

// spreads groups the agents of a round.
type spreads struct {
	any    bool
	list   []spread
	of     []int32 // of each agent of the round, from 1; 0: none
	others []int32 // agents of none
	at     []int32 // of each open agent: where it is among those of the round, from 1; 0: nowhere
	look   []int32 // agents that a task looks at
	tiers  []market.Tier
}

// spreadOut finds them.
func (n *Node) spreadOut() {
	s, c, x := &n.round, &n.crowd, &n.round.spreads
	x.any, x.list = false, x.list[:0]
	if len(s.tasks) < 2 || len(s.tasks) > c.free || n.cfg.Pricing == market.PricingPosted ||
		slices.ContainsFunc(s.tasks, (*task).particular) {
		return
	}
	x.at = resized(x.at, len(c.stands))
	for k, a := range s.agents {
		x.at[a.seat] = int32(k) + 1
	}
	for _, t := range s.tasks { // who holds some of a prompt is told from others
		for _, h := range n.heldOf(t) {
			if int(h.Place) < len(c.places) && c.places[h.Place] > 0 {
				c.stands[c.places[h.Place]-1].told = c.round
			}
		}
	}
	x.of = resized(x.of, len(s.agents))
	for k, a := range s.agents {
		if len(a.holds) == 0 {
			x.of[k] = x.alike(n, k, a)
		}
	}
	for i := range x.list {
		w := &x.list[i]
		slots := w.free
		if n.cfg.Tiers {
			x.tiers = w.first.offer(x.tiers[:0], w.free, len(s.tasks), 1)
			slots = x.tiers[0].Slots
		}
		w.wide = len(w.members)*slots >= len(s.tasks)
		x.any = x.any || w.wide
	}
	x.others = x.others[:0]
	for k := range s.agents {
		if i := x.of[k]; i == 0 || !x.list[i-1].wide {
			x.others = append(x.others, int32(k))
		}
	}
}

// particular reports whether a task may not go to some agents, whatever they are.
func (t *task) particular() bool { return t.only != nil || len(t.failedAt) > 0 || t.may != nil }

// alike counts an idle agent among those that it equals, and says which these are.
func (x *spreads) alike(n *Node, k int, a *agent) int32 {
	s, c := &n.round, &n.crowd
	stand := &c.stands[a.seat]
	i := slices.IndexFunc(x.list, func(w spread) bool {
		return w.group == stand.group && w.free == s.free[k] && w.first.slots == a.slots &&
			w.first.stuck == a.stuck && slices.Equal(w.first.tiers, a.tiers)
	})
	if i < 0 {
		if len(x.list) == mostMet {
			return 0
		}
		i = len(x.list)
		x.list = again(x.list)
		w := &x.list[i]
		*w = spread{first: a, group: stand.group, free: s.free[k], members: w.members[:0]}
	}
	w := &x.list[i]
	w.all++
	// nor may anybody be charged for going there before another
	if _, asserted := c.board.Next(a.seat, s.free[k]); !asserted && stand.told != c.round {
		w.members = append(w.members, int32(k))
	}
	return int32(i) + 1
}

// looks lists the agents that a task of the round looks at, and counts those that it need not. Its prospects
// were looked at.
func (n *Node) looks(i int) []int32 {
	s, c, x := &n.round, &n.crowd, &n.round.spreads
	x.look = append(x.look[:0], x.others...)
	for j := range x.list {
		x.list[j].seen = 0
	}
	for _, seat := range c.apart {
		k := x.at[seat] - 1
		if k < 0 || x.of[k] == 0 {
			continue
		}
		if w := &x.list[x.of[k]-1]; w.wide {
			w.seen++
			x.look = append(x.look, k)
		}
	}
	for j := range x.list {
		w := &x.list[j]
		if !w.wide {
			continue
		}
		if y := n.others(&c.groups[w.group]); y == nil || !y.serves {
			continue
		}
		if k := w.members[i%len(w.members)]; c.stands[s.agents[k].seat].asked != c.asked {
			w.seen++
			x.look = append(x.look, k)
		}
		s.spared += w.all - w.seen
	}
	slices.Sort(x.look)
	return x.look
}
