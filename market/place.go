package market

// places are what the first rule of a [Pruner] looks for: of as many tasks as can be found one, a place of
// their own.
//
// Each task looks for one that is worth most to it, of those agents that nobody else would rather have than
// what it looks for itself. Who finds none looks for one that is worth less to it: then the agents that are
// worth more are wanted by it, and nobody has a place of its own there. Who had one looks again. What a task
// looks for only falls, and agents that are wanted stay so, so this has an end.
type places struct {
	rows   []row
	agents []place
	queue  []int32 // tasks that look, by their rows
}

// row is a task that looks for a place.
type row struct {
	lo, hi int   // its edges
	worth  int64 // of what it looks for; below 0: nothing any more
	edge   int32 // to its place; -1: it has none
	next   int32 // of those who have theirs there, by their rows; -1: none
	tries  int   // how often it looked for less
}

// place is an agent.
type place struct {
	wanted bool  // by a task for which it is more than what it looks for
	taken  int   // places
	first  int32 // of those who have them
}

// mostTries bounds how often a task looks for less.
const mostTries = 4

// settle drops the edges of tasks with a place of their own to agents that are worth no more to them.
func (p *Pruner) settle() {
	if !p.enough() {
		return
	}
	s := &p.own
	s.agents = resize(s.agents, len(p.agents))
	for k := range s.agents {
		s.agents[k] = place{first: -1}
	}
	s.queue = s.queue[:0]
	for i := len(s.rows) - 1; i >= 0; i-- {
		s.queue = append(s.queue, int32(i))
	}
	for len(s.queue) > 0 {
		i := s.queue[len(s.queue)-1]
		s.queue = s.queue[:len(s.queue)-1]
		for s.rows[i].worth >= 0 && !p.find(i) {
			p.lower(i)
		}
	}
	for i := range s.rows {
		x := &s.rows[i]
		for e := x.lo; x.edge >= 0 && e < x.hi; e++ {
			p.keep[e] = p.keep[e] && (p.weight[e] > x.worth || int32(e) == x.edge)
		}
	}
}

// enough lists the tasks, and reports whether there may be places for all of them: a crowd has none.
func (p *Pruner) enough() bool {
	s := &p.own
	s.rows = s.rows[:0]
	slots, wide := 0, false
	for k := range p.agents {
		slots += p.agents[k].first
	}
	for _, at := range p.rows() {
		x := row{lo: at[0], hi: at[1], worth: -1, edge: -1, next: -1}
		edges := 0
		for e := x.lo; e < x.hi; e++ {
			if p.keep[e] {
				x.worth = max(x.worth, p.weight[e])
				edges++
			}
		}
		if edges == 0 {
			continue
		}
		wide = wide || edges > 1
		if s.rows = append(s.rows, x); len(s.rows) > slots {
			return false
		}
	}
	return wide && len(s.rows) > 1
}

// find gives a task a place that is worth what it looks for: at an agent that nobody has, if there is one.
// The rows of tasks that see the same agents are gone through from different ends, so that the first look
// mostly finds one.
func (p *Pruner) find(i int32) bool {
	s := &p.own
	x := &s.rows[i]
	found := -1
	n := x.hi - x.lo
	for d, from := 0, int(i)%n; d < n; d++ {
		e := x.lo + from + d
		if e >= x.hi {
			e -= n
		}
		if !p.keep[e] || p.weight[e] != x.worth {
			continue
		}
		k := p.round.Edges[e].Agent
		a := &s.agents[k]
		if a.wanted || a.taken >= p.agents[k].first {
			continue
		}
		if found < 0 || a.taken < s.agents[p.round.Edges[found].Agent].taken {
			found = e
		}
		if a.taken == 0 {
			break
		}
	}
	if found < 0 {
		return false
	}
	a := &s.agents[p.round.Edges[found].Agent]
	x.edge, x.next, a.first = int32(found), a.first, i
	a.taken++
	return true
}

// lower has a task look for less, and those look again whose places it wants.
func (p *Pruner) lower(i int32) {
	s := &p.own
	x := &s.rows[i]
	x.tries++
	less := int64(-1)
	for e := x.lo; e < x.hi; e++ {
		if p.keep[e] && p.weight[e] < x.worth {
			less = max(less, p.weight[e])
		}
	}
	if x.tries > mostTries {
		less = -1
	}
	for e := x.lo; e < x.hi; e++ {
		if !p.keep[e] || p.weight[e] <= less {
			continue
		}
		a := &s.agents[p.round.Edges[e].Agent]
		a.wanted = true
		for j := a.first; j >= 0; {
			y := &s.rows[j]
			s.queue = append(s.queue, j)
			j, y.next, y.edge = y.next, -1, -1
		}
		a.first, a.taken = -1, 0
	}
	x.worth = less
}
