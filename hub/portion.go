package hub

import "souk/market"

// mostPortions bounds the rounds that sell the slots of agents that were met together.
const mostPortions = 16

// sellsAtOnce reports whether one round sells the slots of all agents: where no more tasks wait than fit, and
// where slots suffice for all who wait. There nobody is left without one, and each finds its home.
func (n *Node) sellsAtOnce() bool {
	return n.batch.Len() <= n.cfg.Batch.MaxBatch || n.cfg.Pricing == market.PricingPosted || n.roomForAll()
}

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

// portion has the next round sell the slots of so many agents, by lot, that all tasks that can matter to it
// fit, and the rounds after it, in the same moment, those of the others. Else who came last would be left out
// whatever they bid. How many agents these are follows from how many slots they have free and how many tasks
// may meet them, and from no bid. Where that would be more than mostPortions rounds, or one agent has too
// many slots, there are fewer, and more tasks than fit may matter after all.
//
// Tasks and agents have met once for all these rounds, and nothing comes between. What a task was quoted
// holds in each, as an agent sells its slots in one of them alone. So whoever is left was offered every slot
// that was free, as in a single round, and may wait for news.
func (n *Node) portion() {
	s := &n.round
	if s.first, s.end = s.end, len(s.agents); s.atOnce {
		return
	}
	least := s.first + (len(s.agents)+mostPortions-1)/mostPortions
	for k, slots, agents := s.first, 0, 0; k < len(s.agents); k++ {
		if s.meets[k] == 0 {
			continue // nobody may go there
		}
		slots += min(s.free[k], s.meets[k])
		agents++
		if k >= least && agents > 1 && market.MostKept(n.cfg.Clarke, agents, slots) > n.cfg.Batch.MaxBatch {
			s.end = k
			return
		}
	}
}

// sells are the agents whose slots the round sells.
func (s *scratch) sells() []*agent { return s.agents[s.first:s.end] }

// few is how many of so many agents the tasks of the round meet at once. They meet the others after these.
func (n *Node) few(agents int) int {
	s := &n.round
	if s.atOnce {
		return agents
	}
	return min(agents, max(1, maxPairs/max(1, len(s.tasks))))
}

// meetAll has the tasks and agents of the round meet.
func (n *Node) meetAll() {
	s := &n.round
	n.lineUp()
	n.meet()
	if n.judgePairs(); s.atOnce {
		return
	}
	s.meets = resized(s.meets, len(s.agents))
	for i := range s.pairs {
		s.meets[s.pairs[i].agent]++
	}
}

// meetOthers has the tasks that still wait meet other agents next.
func (n *Node) meetOthers() {
	s := &n.round
	waits := s.tasks[:0]
	for _, t := range s.tasks {
		if t.state == waiting {
			waits = append(waits, t)
		} else {
			s.placed = append(s.placed, t)
		}
	}
	s.tasks = waits
	n.standUp()
}
