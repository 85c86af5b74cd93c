package hub

import (
	"cmp"
	"math"
	"slices"
	"time"

	"souk/hub/line"
	"souk/market"
)

// endsAt says when slots of an open agent come free.
func (n *Node) endsAt(s *stand) *line.Ends {
	if e := &s.ends; s.ended != n.crowd.round {
		s.ended = n.crowd.round
		e.Reset()
		itl := n.itl(s.agent)
		for _, h := range s.agent.holds {
			e.Add(h.ttft+time.Duration(h.length())*itl, n.now.Sub(h.sent))
		}
		if a := s.agent; s.room < a.slots-len(a.holds)-a.stuck {
			e.Add(n.availableAt(a, s.room), 0)
		}
		e.Done()
	}
	return &s.ends
}

// askAnew asks anew how many tokens the answers have that run: they were guessed when they were sent, and the
// first answers tell much of the others.
func (n *Node) askAnew() {
	for _, h := range n.holds {
		if t := h.task; t != nil && t.msg != nil {
			usual := h.agent.predictor.Usual(t.msg.MaxTokens)
			h.output = min(n.outputs.Expect(t.source(), usual), h.rec.MaxTokens)
		}
	}
}

// length is how many tokens the answer is expected to have that runs.
func (h *hold) length() int { return cmp.Or(h.output, h.rec.Output) }

// inOrder are the agents of a group where something ends, by the wait of one who comes from elsewhere.
func (n *Node) inOrder(g *group) []int32 {
	c := &n.crowd
	if g.sorted != c.round {
		g.sorted = c.round
		left := g.stands[:0]
		for _, k := range g.stands {
			s := &c.stands[k]
			if s.next, s.ok = n.turn(k); s.ok {
				left = append(left, k)
			}
		}
		g.stands = left
		slices.SortFunc(left, func(a, b int32) int {
			if c.sooner(a, b) {
				return -1
			}
			return 1
		})
		c.putOff(g)
	}
	return g.stands
}

// putOff finds anew how late the slots of a group come, which is no sooner than it was thought to be.
func (c *crowd) putOff(g *group) {
	g.later = never
	if len(g.stands) > 0 {
		s := &c.stands[g.stands[0]]
		g.later = s.next - min(s.next, g.backlog.Queue) + g.backlog.All
	}
	soon := c.lanes[g.lane].soon
	i := 0
	for &c.groups[soon[i]] != g {
		i++
	}
	for ; i+1 < len(soon) && c.groups[soon[i+1]].later < g.later; i++ {
		soon[i], soon[i+1] = soon[i+1], soon[i]
	}
}

// never is later than any slot comes.
const never = math.MaxInt64 / 2

// soonest gives the groups of a lane by how soon their slots come, as long as one of them may be better for
// the task, which is overdue by so much, than what was found: see offer.late. Only agents count that it does
// not tell from the others. A group is passed over, and what the task would have of it not found out, if it
// may not be better even where its slots come in that time and a first token takes as little as it may: at
// the time that may is given.
func (n *Node) soonest(l *lane, over time.Duration, may func(*group, *prospect, time.Duration) bool,
	look func(*group, *prospect)) {
	c := &n.crowd
	if !c.alike || c.toldAll(l) {
		return
	}
	o := n.offeredCold(l)
	if !o.takes {
		return
	}
	p := l.first.predictor
	// An hour no forecast exceeds, so that all are as late.
	whole := o.first+l.longest > time.Hour
	// What a tree adds is in no order, and takes off so much at most.
	less := o.first + l.longest - p.Soonest(o.first, l.longest)
	for i := 0; i < len(l.soon); {
		g := &c.groups[l.soon[i]]
		if !whole && o.late < line.Far/2 {
			// Nobody behind waits less than that for a slot, and to this task all of it is longer. The last
			// bits of that may be lost.
			wait := max(0, g.later-l.longest)
			if more := line.Stretch(wait, over) - wait; g.later-less+max(0, more-2) >= o.late-o.first {
				return
			}
		}
		if g.sorted != c.round {
			if n.inOrder(g); &c.groups[l.soon[i]] != g {
				continue // another may be sooner
			}
		}
		i++
		if len(g.stands) == 0 {
			continue
		}
		next, least := &c.stands[g.stands[0]], c.least(g, o)
		at := line.Stretch(next.next, over) + least - min(next.next, g.backlog.Queue)
		if at >= o.late {
			continue
		}
		// and no deadline keeps it from being looked at: half of its first tokens may come far
		// sooner than that
		c.rough = prospect{group: next.group, quote: o, serves: true, ttft: least, service: o.stays + least,
			early: never, queue: g.backlog.Queue}
		if !may(g, &c.rough, at) {
			continue
		}
		if x := n.others(g); x != nil && x.serves {
			look(g, x)
		}
	}
}

// turn is when an open agent has a slot for who comes from elsewhere: after those who are at home there, and
// those who came from elsewhere before it.
func (n *Node) turn(k int32) (time.Duration, bool) {
	s := &n.crowd.stands[k]
	return n.endsAt(s).Nth(max(1, n.crowd.board.Len(int(k))+s.guests+1-s.room))
}

// sooner reports whether one agent stands before another in the order of a group.
func (c *crowd) sooner(a, b int32) bool {
	x, y := c.stands[a].next, c.stands[b].next
	return x < y || x == y && a < b
}

// visit has one more wait for an agent where it is not at home.
func (n *Node) visit(k int32) {
	c := &n.crowd
	s := &c.stands[k]
	s.guests++
	g := &c.groups[s.group]
	if g.sorted != c.round || !s.ok {
		return
	}
	s.next, _ = n.turn(k)
	for i := slices.Index(g.stands, k); i+1 < len(g.stands) && c.sooner(g.stands[i+1], k); i++ {
		g.stands[i], g.stands[i+1] = g.stands[i+1], k
	}
	c.putOff(g)
}

// rather is where a task would wait, or go at once, by what that takes and costs and how good it is, if its
// client had said nothing of what it is worth; nil if that is at home. So nobody's bid decides it, and no
// toll. The task's prospects were looked at.
func (n *Node) rather(t *task) *agent {
	c := &n.crowd
	f := search{task: t, terms: *t.usually(), over: t.over, left: line.Far}
	in := func(k int32) (time.Duration, bool) {
		place := c.board.Len(int(k)) + c.stands[k].guests
		if t.home == c.stands[k].agent {
			place = t.place
		}
		if place < c.stands[k].room {
			return 0, true
		}
		return n.endsAt(&c.stands[k]).Nth(place + 1 - c.stands[k].room)
	}
	c.searchAnew()
	best, at := market.Credits(0), int32(-1)
	among := int32(-1) // the group of at; -1: the task tells it from others
	try := func(k, group int32, x *prospect) {
		d, ok := in(k)
		if !ok || !x.serves || !t.lets(int(k)) {
			return
		}
		first := f.first(x, d)
		if first >= x.quote.late {
			return // one that came sooner was worse, or is as good and was looked at before
		}
		value, ok := f.worth(x, first)
		w := value - x.quote.cost
		switch {
		case !ok:
			x.quote.late = first
		case at < 0 || w > best || w == best && among > group: // of equals the first group
			best, at, among = w, k, group
		case w < best || among < 0:
			x.quote.late = first
		}
	}
	if c.has(t.home) {
		try(int32(t.home.seat), -1, n.prospect(t.home.seat))
	}
	for _, k := range c.apart {
		try(k, -1, &c.rows[c.stands[k].row])
	}
	first := func(list []int32, group int32, x *prospect) {
		for _, k := range list {
			if c.stands[k].asked != c.asked {
				try(k, group, x)
				break
			}
		}
	}
	for _, i := range c.roomy {
		g := &c.groups[i]
		if x := n.others(g); x != nil && x.serves {
			first(c.open(g), i, x)
		}
	}
	for i := range c.lanes {
		n.soonest(&c.lanes[i], f.over, func(_ *group, x *prospect, first time.Duration) bool {
			value, ok := f.worth(x, first)
			if ok && at >= 0 && value-x.quote.cost < best {
				x.quote.late, ok = first, false
			}
			return ok
		}, func(g *group, x *prospect) {
			if len(c.open(g)) == 0 {
				first(g.stands, x.group, x)
			}
		})
	}
	if at < 0 || c.stands[at].agent == t.home {
		return nil
	}
	return c.stands[at].agent
}

// open are the agents of a group that have a free slot, after all who came so far.
func (c *crowd) open(g *group) []int32 {
	for g.free < len(g.rooms) {
		s := &c.stands[g.rooms[g.free]]
		if c.board.Len(int(g.rooms[g.free]))+s.guests < s.room {
			break
		}
		g.free++
	}
	return g.rooms[g.free:]
}
