package market

// guess names likely seats of those who wait, by the plan before: most of them were in it, and
// most of what they had then they have again.
type guess struct {
	tasks  []TaskID
	agents []AgentID
	seats  []seat
	first  []int32 // as in layout
	slots  []int32
	later  []bool // of each seat: it was to come
	match  []int32
	under  []int32 // what each seat hung under: see [flow.Solver.Hangs]

	were   []int32 // scratch, see below
	taken  []int32 // of each agent: slots that were given away
	to     []int32 // of each seat: what it is now, or -1
	room   []int32 // likewise: slots of that which nobody was given yet
	placed []int32 // of each task now
	hangs  []int32 // of each seat now
}

// keep notes the plan of a round.
func (g *guess) keep(r *Round, l *layout, match []int32) {
	g.tasks, g.agents, g.later = g.tasks[:0], g.agents[:0], g.later[:0]
	for i := range r.Tasks {
		g.tasks = append(g.tasks, r.Tasks[i].ID)
	}
	for i := range r.Agents {
		g.agents = append(g.agents, r.Agents[i].Agent)
		for _, s := range r.Agents[i].Seats {
			g.later = append(g.later, s.Later)
		}
	}
	g.seats, g.first = append(g.seats[:0], l.seats...), append(g.first[:0], l.first...)
	g.slots, g.match = append(g.slots[:0], l.slots...), append(g.match[:0], match...)
}

// of says where the tasks of a round may be, and what its seats may hang under.
func (g *guess) of(r *Round, l *layout) (placed, hangs []int32) {
	g.carry(r, l)
	g.hangs = resize(g.hangs, len(l.seats))
	for a := range g.hangs {
		g.hangs[a] = -1
	}
	for a, b := range g.under {
		if to := g.to[a]; to >= 0 && b >= 0 {
			g.hangs[to] = g.to[b]
		}
	}
	g.placed = resize(g.placed, len(r.Tasks))
	g.were = were(g.were, g.tasks, len(r.Tasks), func(i int) TaskID { return r.Tasks[i].ID })
	for t, k := range g.were {
		if g.placed[t] = -1; k >= 0 && g.match[k] >= 0 {
			g.placed[t] = g.slot(l, g.match[k])
		}
	}
	return g.placed, g.hangs
}

// slot takes one of the slots that a seat is now: of several seats the next where one is full.
func (g *guess) slot(l *layout, a int32) int32 {
	to := g.to[a]
	for to >= 0 && g.room[a] == 0 {
		if to++; int(to) == len(l.seats) || l.seats[to].at == 0 { // the next agent's
			to = -1
		} else {
			g.room[a] = l.slots[to]
		}
		g.to[a] = to
	}
	g.room[a]--
	return to
}

// carry finds what each seat is now: slots that were given away are no more, and each behind them has come so
// much nearer.
func (g *guess) carry(r *Round, l *layout) {
	g.taken, g.to = zeroed(g.taken, len(g.agents)), resize(g.to, len(g.seats))
	g.room = resize(g.room, len(g.seats))
	for _, a := range g.match {
		if a >= 0 && !g.later[a] {
			g.taken[g.seats[a].agent]++
		}
	}
	for a := range g.to {
		g.to[a] = -1
	}
	g.were = were(g.were, g.agents, len(r.Agents), func(i int) AgentID { return r.Agents[i].Agent })
	for i, k := range g.were {
		if k < 0 {
			continue
		}
		now, end, upto := l.first[i], l.first[i+1], int32(0) // upto: slots before now
		before := -g.taken[k]
		for a := g.first[k]; a < g.first[k+1]; a++ {
			for now < end && upto+l.slots[now] <= before {
				upto += l.slots[now]
				now++
			}
			if before >= 0 && now < end {
				g.to[a], g.room[a] = now, upto+l.slots[now]-before
			}
			before += g.slots[a]
		}
	}
}

// were finds where each of some items stood in a list of others, -1 where it did not, if both are in one
// order. It soon gives up where they are not.
func were[T comparable](out []int32, list []T, n int, item func(i int) T) []int32 {
	out = resize(out, n)
	next, most := 0, 4*(len(list)+n)
	for i := range n {
		x, k := item(i), next
		for k < len(list) && list[k] != x && most > 0 {
			k, most = k+1, most-1
		}
		if out[i] = -1; k < len(list) && list[k] == x {
			out[i], next = int32(k), k+1
		}
	}
	return out
}
