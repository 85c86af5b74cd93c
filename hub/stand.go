package hub

import (
	"slices"
	"time"

	"souk/bus"
	"souk/hub/line"
	"souk/hub/prefix"
	"souk/market"
)

// A round asks of every task that waits what each open agent would be for it. Most agents are alike to it: of
// one kind, with as much in hand, and holding nothing of its prompt. So agents are put into groups once
// a round, a task is quoted once on each group, and one by one only on those that hold some of its prompt.

// stand is an open agent in one round.
type stand struct {
	agent         *agent
	room, running int // slots that are free; tasks that a task would run beside
	burden        burden
	runs          int // tasks that run
	group         int32
	told          uint64         // the last round in which an agent was told from the others of its group
	row           int32          // in crowd.rows, for the task that is looked at: see asked
	asked         uint64         // the last task that told it from the others of its group
	beside        market.Credits // the toll for what a task does to those who run there
	charge        market.Credits // of its last tier

	ends  line.Ends     // of what runs there, where they were asked for
	ended uint64        // in which round that was
	next  time.Duration // until there is a slot for one more than those who wait there
	ok    bool          // there is such a time
	// tasks that would rather wait here than where they are at home, of those that came so far
	guests int
}

// group is open agents that are alike but for what they hold and who waits for them.
type group struct {
	first  *agent
	burden burden
	parses bool
	size   int
	most   market.Credits // of its agents' tolls and charges, together

	stands []int32 // by the wait of one more, where it was asked for
	sorted uint64  // in which round that was
	rooms  []int32 // that have a free slot
	free   int     // of these, how many at the beginning have not any more, after all who came so far

	// of the task that is looked at
	apart int   // agents that it tells from the others
	row   int32 // of the others, in crowd.rows; -1: there are none
	rows  int32 // the last of those that its agents have; -1: there are none
}

// prospect is what a task would have of open agents of a group that hold as much of its prompt.
type prospect struct {
	group         int32
	before        int32 // of the group's rows, that which was made before; -1: it is the first
	serves        bool
	held          held
	ttft, service time.Duration // beside what is in hand there
	queue         time.Duration // of the first, that passes while it waits
	quality       float64
	quote         offer
	load          market.Credits // the toll for the time that it takes longer than elsewhere
}

// offer is what a round reads of a quote.
type offer struct {
	prompt, cached, output int // tokens that are expected
	cost                   market.Credits
	most                   market.Credits // of value: no more can be held
	value                  market.Credits // at most that
}

// fewRows is how many rows of a group are looked through for one that fits, before another is made.
const fewRows = 8

// notes are what a task keeps while it waits: its quotes, and what agents hold of its prompt.
type notes struct {
	quotes [quotesKept]quoted
	looked bool
	since  uint64 // by the index's changes: when holds was looked up
	holds  []holding
	found  []prefix.Holder
}

// holding is what an agent holds of a task's prompt.
type holding struct {
	prefix.Holder
	known         bool   // held is of these:
	changes, fits uint64 // of the agent's belief, and of its predictor
	round         uint64 // in which it was found to be so
	held          held
}

// standUp finds out which agents take tasks, now or as soon as they have a slot, how much room they have, and
// which of them are alike.
func (n *Node) standUp() {
	c := &n.crowd
	c.round++
	c.slots, c.free, c.full = 0, 0, false
	c.stands, c.groups = c.stands[:0], c.groups[:0]
	clear(c.places)
	for _, a := range n.roster {
		if !a.open(n) {
			continue
		}
		a.seat = len(c.stands)
		c.stands = again(c.stands)
		s := &c.stands[a.seat]
		n.stand(s, a)
		c.slots, c.free, c.full = c.slots+a.slots, c.free+s.room, c.full || s.room == 0
		s.group = n.groupOf(a, s.burden)
		g := &c.groups[s.group]
		g.size, g.stands, g.most = g.size+1, append(g.stands, int32(a.seat)), 0
		if s.room > 0 {
			g.rooms = append(g.rooms, int32(a.seat))
		}
		place := a.belief.Place()
		for place >= len(c.places) {
			c.places = append(c.places, 0)
		}
		c.places[place] = int32(a.seat) + 1
	}
}

// stand says how an open agent stands before anybody has joined a line.
func (n *Node) stand(s *stand, a *agent) {
	s.guests, s.agent, s.room, s.charge = 0, a, max(0, a.slots-len(a.holds)-a.stuck), 0
	s.room = n.roomOf(a, s.room)
	s.runs = len(a.holds)
	s.running = min(s.runs, max(0, a.slots-1)) // where there is no room it will be one task less
	s.burden = n.burden(a)
	if k := len(a.tiers); n.cfg.Tiers && k > 0 {
		s.charge = a.tiers[k-1].Toll
	}
}

// again is a list with one more, which is what stood there before, with its memory.
func again[T any](list []T) []T {
	if len(list) < cap(list) {
		return list[:len(list)+1]
	}
	var none T
	return append(list, none)
}

// groupOf is the group of an open agent.
func (n *Node) groupOf(a *agent, in burden) int32 {
	c, k := &n.crowd, n.kind(a)
	parses := slices.Contains(a.reg.Features, bus.Parsers)
	if k.round != c.round {
		k.round, k.groups = c.round, k.groups[:0]
	}
	for _, i := range k.groups {
		g := &c.groups[i]
		if g.burden == in && g.first.fastest == a.fastest && g.parses == parses {
			return i
		}
	}
	i := int32(len(c.groups))
	c.groups = again(c.groups)
	g := &c.groups[i]
	*g = group{first: a, burden: in, parses: parses, stands: g.stands[:0], rooms: g.rooms[:0]}
	k.groups = append(k.groups, i)
	return i
}

// heldOf is what agents hold of a task's prompt.
func (n *Node) heldOf(t *task) []holding {
	k, x := n.notes(t), n.prefixes
	if k.looked && k.since == x.Changes() {
		return k.holds
	}
	if marks := t.msg.Prompt.Marks; !k.looked || x.Changed(marks, k.since) {
		k.looked, k.holds = true, k.holds[:0]
		k.found = x.Holders(k.found[:0], marks)
		for _, f := range k.found {
			k.holds = append(k.holds, holding{Holder: f})
		}
	}
	k.since = x.Changes()
	return k.holds
}

// of is what an agent holds. No belief changes in a round before it is awarded.
func (h *holding) of(a *agent, t *task, round uint64) held {
	if h.round == round {
		return h.held
	}
	h.round = round
	changes, fits := a.belief.Changes(), a.predictor.Fits()
	if !h.known || h.changes != changes || h.fits != fits {
		p := &t.msg.Prompt
		h.known, h.changes, h.fits = true, changes, fits
		h.held.tokens, h.held.cached = a.belief.ExpectAt(p, h.Depth, a.predictor.Tokens(p.Tokens))
	}
	return h.held
}

// prospects finds out what a task would have of every open agent: see Node.prospect.
func (n *Node) prospects(t *task) {
	c := &n.crowd
	c.asked++
	c.rows, c.apart = c.rows[:0], c.apart[:0]
	for i := range c.groups {
		g := &c.groups[i]
		g.apart, g.row, g.rows = 0, -1, -1
	}
	holds := n.heldOf(t)
	// where agents are drawn for one by one, or the task may not go to some, no two are alike
	alike := n.cfg.Regime.Idle() && t.only == nil && len(t.failedAt) == 0
	for i := range holds {
		h := &holds[i]
		if int(h.Place) < len(c.places) && c.places[h.Place] > 0 {
			seat := c.places[h.Place] - 1
			n.tell(t, seat, h.of(c.stands[seat].agent, t, c.round), alike)
		}
	}
	if c.has(t.home) {
		n.tellCold(t, int32(t.home.seat), alike) // it has a place in the line there
	}
	if !alike {
		for seat := range c.stands {
			n.tellCold(t, int32(seat), false)
		}
	}
	for i := range c.groups {
		if g := &c.groups[i]; g.apart < g.size {
			g.row = n.row(t, g.first, int32(i), g.first.cold(t), alike)
		}
	}
	// how long it takes where it takes least in a class
	for i := range c.rows {
		x := &c.rows[i]
		if !x.serves {
			continue
		}
		f := c.groups[x.group].first.fastest
		if f.asked != c.asked {
			f.asked, f.service = c.asked, x.service
		} else {
			f.service = min(f.service, x.service)
		}
	}
	for i := range c.rows {
		if x := &c.rows[i]; x.serves {
			x.load = c.tolls.Avoidable(x.service-c.groups[x.group].first.fastest.service, t.purse.pressure)
		}
	}
}

// cold is what is expected of a prompt that an agent holds nothing of.
func (a *agent) cold(t *task) held { return held{tokens: a.predictor.Tokens(t.msg.Prompt.Tokens)} }

// tell tells an agent from the others of its group.
func (n *Node) tell(t *task, seat int32, held held, alike bool) {
	c := &n.crowd
	s := &c.stands[seat]
	s.asked, s.row = c.asked, n.row(t, s.agent, s.group, held, alike)
	c.groups[s.group].apart++
	c.apart = append(c.apart, seat)
}

// tellCold tells an agent that holds nothing of the prompt, unless it is told.
func (n *Node) tellCold(t *task, seat int32, alike bool) {
	if s := &n.crowd.stands[seat]; s.asked != n.crowd.asked {
		n.tell(t, seat, s.agent.cold(t), alike)
	}
}

// row is the row of what a task would have of an agent of a group.
func (n *Node) row(t *task, a *agent, group int32, held held, alike bool) int32 {
	c := &n.crowd
	g := &c.groups[group]
	if alike {
		k := g.rows
		for range fewRows {
			if k < 0 {
				break
			}
			if c.rows[k].held == held {
				return k
			}
			k = c.rows[k].before
		}
	}
	i := int32(len(c.rows))
	c.rows = again(c.rows)
	x := &c.rows[i]
	x.group, x.before, x.held = group, g.rows, held
	g.rows = i
	if x.serves = a.suits(t); !x.serves {
		return i
	}
	q := n.quotedHolding(t, a, g.burden, held)
	if x.serves = a.takes(q.prompt); x.serves {
		// A hold cannot exceed the reservation, so no more is offered than that. The reservation covers every
		// quote as it stood when the task came.
		x.quote = offer{q.prompt, held.cached, q.forecast.Output, q.cost, q.room(t.reserved),
			q.within(t.reserved)}
		x.ttft, x.queue, x.quality = q.forecast.TTFT, g.burden.Queue, a.quality(t.msg.Domain)
		x.service = n.service(a, x.ttft, x.quote.output)
		if n.cfg.Seats.Seconds { // the time to its first token is charged by Node.delays
			x.service -= x.ttft
		}
	}
	return i
}

// prospect is what the task whose prospects were looked at would have of an open agent.
func (n *Node) prospect(seat int) *prospect {
	c := &n.crowd
	if s := &c.stands[seat]; s.asked == c.asked {
		return &c.rows[s.row]
	}
	return &c.rows[c.groups[c.stands[seat].group].row]
}

// endsAt says when slots of an open agent come free.
func (n *Node) endsAt(s *stand) *line.Ends {
	if e := &s.ends; s.ended != n.crowd.round {
		s.ended = n.crowd.round
		e.Reset()
		itl := n.itl(s.agent)
		for _, h := range s.agent.holds {
			e.Add(h.ttft+time.Duration(h.rec.Output)*itl, n.now.Sub(h.sent))
		}
		if left, deep := n.deep(s.agent); deep && len(s.agent.holds)+s.agent.stuck < s.agent.slots {
			e.Add(left, 0)
		}
		e.Done()
	}
	return &s.ends
}

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
	}
	return g.stands
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
}

// rather is where a task would wait, or go at once, by what that takes and costs and how good it is, if its
// client had said nothing of what it is worth; nil if that is at home. So nobody's bid decides it, and no
// toll. The task's prospects were looked at.
func (n *Node) rather(t *task) *agent {
	c := &n.crowd
	f := search{task: t, terms: t.usual.Judge(), waited: t.waited, left: line.Far}
	worth := func(x *prospect, d time.Duration) market.Credits {
		value, _, _ := f.patience(x, d)
		return value - x.quote.cost
	}
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
	best, at := market.Credits(0), int32(-1)
	if c.has(t.home) {
		k := int32(t.home.seat)
		if d, ok := in(k); ok && t.lets(int(k)) {
			best, at = worth(n.prospect(t.home.seat), d), k
		}
	}
	try := func(k int32, x *prospect) {
		if d, ok := in(k); ok && x.serves && t.lets(int(k)) {
			if w := worth(x, d); at < 0 || w > best {
				best, at = w, k
			}
		}
	}
	for _, k := range c.apart {
		try(k, &c.rows[c.stands[k].row])
	}
	for i := range c.groups {
		g := &c.groups[i]
		if g.row < 0 || !c.rows[g.row].serves {
			continue
		}
		for g.free < len(g.rooms) && c.board.Len(int(g.rooms[g.free]))+c.stands[g.rooms[g.free]].guests >=
			c.stands[g.rooms[g.free]].room {
			g.free++
		}
		first := g.rooms[g.free:]
		if len(first) == 0 {
			first = n.inOrder(g)
		}
		for _, k := range first {
			if c.stands[k].asked != c.asked {
				try(k, &c.rows[g.row])
				break
			}
		}
	}
	if at < 0 || c.stands[at].agent == t.home {
		return nil
	}
	return c.stands[at].agent
}
