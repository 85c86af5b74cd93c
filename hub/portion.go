package hub

import (
	"cmp"
	"slices"

	"souk/market"
)

// portions are several rounds, one after another, each of which sells the slots of some agents: see portion.
type portions struct {
	more   bool   // agents are left for the next of them
	news   bool   // has come since the last of them
	number uint64 // of this round
	before uint64 // the last round before the first of them
	begun  uint64 // the first of them since the last news
	least  int    // agents of one
	capped bool   // an agent was given less than it has slots for, and may take more
}

// mostPortions bounds such rounds, each of which looks at all who wait: 20 ms where 2,000 wait for 64 agents.
const mostPortions = 16

// portion has a round sell the slots of so many agents, by lot, that all tasks that can matter to it fit,
// and the next round, at once, those of the others. Else who came last would be left out whatever they bid.
// Which agents these are and how many follows from how many slots are free and how many tasks wait. Where
// that would be more than mostPortions rounds, or one agent has too many slots, there are fewer, and more
// tasks than fit may matter after all. After news it begins anew, as an agent that was sold may have
// another slot; but those that were not sold yet come first, or where news come all the time they never
// would. Where slots suffice for all who wait nobody is left without one, so all are sold at once: each
// task finds its home there.
func (n *Node) portion() {
	s, most := &n.round, n.cfg.Batch.MaxBatch
	x := &s.portions
	whole := n.batch.Len() <= most || n.cfg.Pricing == market.PricingPosted || n.roomForAll()
	first := whole || !x.more || x.news
	if !x.more {
		x.before = x.number
	}
	x.number++
	if x.more, x.news = false, false; first {
		x.begun = x.number
	}
	if whole {
		return
	}
	wanted := n.wantedGroups()
	s.agents = slices.DeleteFunc(s.agents, func(a *agent) bool {
		return a.portion >= x.begun || !wanted[n.crowd.stands[a.seat].group]
	})
	slices.SortStableFunc(s.agents, func(a, b *agent) int {
		return cmp.Compare(max(a.portion, x.before), max(b.portion, x.before))
	})
	s.free = s.free[:len(s.agents)]
	if first {
		x.least = (len(s.agents) + mostPortions - 1) / mostPortions
	}
	slots := 0
	for i, a := range s.agents {
		s.free[i] = n.crowd.stands[a.seat].room
		if slots += s.free[i]; i >= max(1, x.least) && market.MostKept(n.cfg.Clarke, i+1, slots) > most {
			s.agents, s.free, x.more = s.agents[:i], s.free[:i], true
			return
		}
		a.portion = x.number
	}
}

// offeredAll reports whether a task that was not placed was in all rounds of which the last was just held, so
// that it was offered the slots of all agents. One that came since the first was not.
func (n *Node) offeredAll(t *task) bool { return t.portion <= n.round.portions.begun }

// roomForAll reports whether there are slots for all tasks that wait, each of which all of them may have.
func (n *Node) roomForAll() bool {
	c, slots := &n.crowd, 0
	for _, i := range c.roomy {
		g := &c.groups[i]
		if n.batch.While(g.first.mayServe) < n.batch.Len() {
			continue
		}
		for _, k := range g.rooms {
			slots += c.stands[k].room
		}
	}
	return slots >= n.batch.Len()
}

// wantedGroups says of each group whether any task that waits may go to its agents.
func (n *Node) wantedGroups() []bool {
	c := &n.crowd
	wanted := resized(n.round.wanted, len(c.groups))
	n.round.wanted = wanted
	for _, i := range c.roomy {
		first := c.groups[i].first
		wanted[i] = n.batch.While(func(t *task) bool { return !first.mayServe(t) }) < n.batch.Len()
	}
	return wanted
}
