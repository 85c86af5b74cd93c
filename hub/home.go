package hub

import "souk/hub/line"

// shorter is by how many a line has to be shorter for a task to leave its own for it.
const shorter = 2

// standIn says in whose line a task stands, and reports whether it left another for a shorter one. A task
// that finds more of its prompt in one place than in others stays there, and so does one whose session has a
// seat. To any other task all agents of a class are alike, so it goes where fewer stand. Else an agent would
// have a free slot and nobody in its line, and whoever came last would take that, away from what is cached
// for it.
func (n *Node) standIn(t *task) (moves bool) {
	c := &n.crowd
	if !n.athome(t) {
		t.home = n.home(t)
		return false
	}
	k := t.home.seat
	if !t.roams || c.board.Homes(k)+c.stands[k].runs < t.home.fastest.loads.least+shorter {
		return false
	}
	if home := n.home(t); home != t.home {
		t.home, moves = home, true
	}
	return moves
}

// load counts what runs at the agents of each class.
func (c *crowd) load() {
	for k := range c.stands {
		c.stands[k].agent.fastest.loads.reset()
	}
	for k := range c.stands {
		s := &c.stands[k]
		s.agent.fastest.loads.enter(s.runs)
	}
}

// loads says how many tasks agents of a class have, of those that run there and those that are at home there.
type loads struct {
	agents []int32 // by how many tasks they have
	least  int     // that one of them has
}

func (l *loads) reset() { l.agents, l.least = l.agents[:0], 0 }

// enter counts an agent with so many.
func (l *loads) enter(tasks int) {
	l.least = min(l.least, tasks)
	if len(l.agents) == 0 {
		l.least = tasks
	}
	l.at(tasks)
	l.agents[tasks]++
}

// more has an agent with so many have one more.
func (l *loads) more(tasks int) {
	l.at(tasks + 1)
	l.agents[tasks]--
	l.agents[tasks+1]++
	for l.agents[l.least] == 0 {
		l.least++
	}
}

// at makes room to count those with so many.
func (l *loads) at(tasks int) {
	for len(l.agents) <= tasks {
		l.agents = append(l.agents, 0)
	}
}

// athome reports whether a task has a home that may still serve it.
func (n *Node) athome(t *task) bool {
	a := t.home
	if !n.crowd.has(a) || !a.suits(t) {
		return false
	}
	if a.reg.MaxModelLen == 0 {
		return true
	}
	return a.takes(n.heldBy(t, a).tokens + t.carried())
}

// home is the agent whose line a task stands in; nil if none may serve it.
func (n *Node) home(t *task) *agent {
	t.roams = false
	if a := n.seatHome(t); a != nil {
		return a
	}
	c := &n.crowd
	c.asked++
	var best line.Candidate
	var home *agent
	holds := n.heldOf(t)
	for i, h := range holds {
		if int(h.Place) < len(c.places) && c.places[h.Place] > 0 {
			s := &c.stands[c.places[h.Place]-1]
			s.asked, s.row = c.asked, int32(i)
		}
	}
	for k := range c.stands {
		s := &c.stands[k]
		a := s.agent
		here := line.Candidate{Agent: k, Load: c.board.Homes(k) + s.runs}
		if s.asked == c.asked {
			if here.Held = n.own(t, a); here.Held < 2*max(1, a.reg.BlockSize) {
				here.Held = 0
			}
		}
		if home != nil && !here.Before(best) || !a.suits(t) {
			continue
		}
		held := a.cold(t)
		if s.asked == c.asked {
			held = holds[s.row].of(a, t, c.round)
		}
		if a.takes(held.tokens + t.carried()) {
			home, best = a, here
		}
	}
	t.roams = best.Held == 0
	return home
}
