package hub

import (
	"cmp"
	"math"
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
	lane   int32
	burden burden
	size   int
	most   market.Credits // of its agents' tolls and charges, together

	stands []int32 // by the wait of one more, where it was asked for
	sorted uint64  // in which round that was
	rooms  []int32 // that have a free slot
	free   int     // of these, how many at the beginning have not any more, after all who came so far
	// how much later a first token comes at least of a slot that is waited for here than of one at an agent
	// that is idle
	later time.Duration

	// of the task that is looked at
	asked uint64        // which one that is
	apart int           // agents that it tells from the others
	row   int32         // of the others, in crowd.rows; -1: it was not asked for
	rows  int32         // the last of those that its agents have; -1: there are none
	least time.Duration // that a first token takes there; below 0: it was not asked for
}

// lane is the groups of agents that are quoted alike. Most tasks look at few of them.
type lane struct {
	first   *agent
	kind    *kind
	parses  bool
	longest time.Duration // of their burdens
	size    int           // agents
	calm    []int32       // the groups, those first that delay a task least
	soon    []int32       // those first whose slots come soonest: see group.later

	asked uint64 // the task that is looked at
	apart int    // agents that it tells from others
}

// prospect is what a task would have of open agents of a group that hold as much of its prompt.
type prospect struct {
	group         int32
	before        int32 // of the group's rows, that which was made before; -1: it is the first
	serves        bool
	loaded        bool // load is known
	quote         *offer
	ttft, service time.Duration  // beside what is in hand there
	early         time.Duration  // by which half of all first tokens come before it
	queue         time.Duration  // of the first, that passes while it waits
	load          market.Credits // the toll for the time that it takes longer than elsewhere: see Node.loads
}

// offer is what a round reads of a quote: that of a task on agents of a kind that hold so much of its prompt,
// whatever they have in hand.
type offer struct {
	kind  *kind
	held  held
	suits bool // where none of them is told from the others by its name
	takes bool

	prompt, output int           // tokens that are expected
	first          time.Duration // to the first token where nothing is in hand, by the line alone
	work           float64       // thousand tokens to compute
	computes       time.Duration // these
	stays          time.Duration // that it keeps a slot after that
	cost           market.Credits
	most           market.Credits // of value: no more can be held
	quality        float64

	late time.Duration // of the search at hand: to a first token that is too late to be better
}

// fewOffers is how many offers are looked through for one that fits, before another is made.
const fewOffers = 8

// notes are what a task keeps while it waits: its quotes, and what agents hold of its prompt.
type notes struct {
	quotes [quotesKept]noted
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
	c.stands, c.groups, c.lanes = c.stands[:0], c.groups[:0], c.lanes[:0]
	c.roomy = c.roomy[:0]
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
		c.lanes[g.lane].size++
		if s.room > 0 {
			if len(g.rooms) == 0 {
				c.roomy = append(c.roomy, s.group)
			}
			g.rooms = append(g.rooms, int32(a.seat))
		}
		place := a.belief.Place()
		for place >= len(c.places) {
			c.places = append(c.places, 0)
		}
		c.places[place] = int32(a.seat) + 1
	}
	for i := range c.lanes {
		l := &c.lanes[i]
		slices.SortFunc(l.calm, func(a, b int32) int {
			return cmp.Compare(c.groups[a].burden.All, c.groups[b].burden.All)
		})
		l.soon = append(l.soon[:0], l.calm...)
		l.longest = c.groups[l.calm[len(l.calm)-1]].burden.All
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
	into := int32(-1)
	for _, i := range k.groups {
		g := &c.groups[i]
		if g.first.fastest != a.fastest || c.lanes[g.lane].parses != parses {
			continue
		}
		if g.burden == in {
			return i
		}
		into = g.lane
	}
	if into < 0 {
		into = int32(len(c.lanes))
		c.lanes = again(c.lanes)
		l := &c.lanes[into]
		*l = lane{first: a, kind: k, parses: parses, calm: l.calm[:0], soon: l.soon[:0]}
	}
	i := int32(len(c.groups))
	c.groups = again(c.groups)
	g := &c.groups[i]
	*g = group{first: a, lane: into, burden: in, stands: g.stands[:0], rooms: g.rooms[:0], later: in.All}
	k.groups = append(k.groups, i)
	l := &c.lanes[into]
	l.calm = append(l.calm, i)
	return i
}

// kindOf is the kind of an open agent, without a look at the agent itself.
func (c *crowd) kindOf(s *stand) *kind { return c.lanes[c.groups[s.group].lane].kind }

// heldOf is what agents hold of a task's prompt.
func (n *Node) heldOf(t *task) []holding {
	k, x := n.notes(t), n.prefixes
	if k.looked && k.since == x.Changes() {
		return k.holds
	}
	if p := &t.msg.Prompt; !k.looked || x.Changed(p.Marks, k.since) {
		x.Resolve(p)
		k.looked, k.holds = true, k.holds[:0]
		k.found = x.Holders(k.found[:0], p.Marks)
		for _, f := range k.found {
			k.holds = append(k.holds, holding{Holder: f})
		}
	}
	k.since = x.Changes()
	return k.holds
}

// heldBy is what an agent holds of a prompt in a round, before that is awarded.
func (n *Node) heldBy(t *task, a *agent) held {
	holds := n.heldOf(t)
	for i := range holds {
		if h := &holds[i]; int(h.Place) == a.belief.Place() {
			return h.of(a, t, n.crowd.round)
		}
	}
	return a.cold(t)
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
	c.looked, c.pressed = t, t.purse.pressure
	c.rows, c.apart, c.offers = slices.Grow(c.rows[:0], len(c.stands)+len(c.groups)), c.apart[:0],
		c.offers[:0]
	holds := n.heldOf(t)
	// where agents are drawn for one by one, or the task may not go to some, no two are alike
	c.alike = n.params().Idle() && t.only == nil && len(t.failedAt) == 0
	for i := range holds {
		h := &holds[i]
		if int(h.Place) < len(c.places) && c.places[h.Place] > 0 {
			seat := c.places[h.Place] - 1
			a := c.stands[seat].agent
			n.tell(seat, n.offered(a, h.of(a, t, c.round)))
		}
	}
	if c.has(t.home) {
		n.tellCold(int32(t.home.seat)) // it has a place in the line there
	}
	if !c.alike {
		for seat := range c.stands {
			n.tellCold(int32(seat))
		}
	}
	n.fastest()
}

// takes is how long the task and its prompt take there.
func (x *prospect) takes() least { return least{x.service, x.quote.computes} }

// fastest finds out how long the task takes where it takes least in a class, and how long its prompt does.
func (n *Node) fastest() {
	c := &n.crowd
	takes := func(a *agent, x *prospect) {
		f := a.fastest
		if f.asked != c.asked {
			f.asked, f.least = c.asked, x.takes()
		} else {
			f.least = f.or(x.takes())
		}
	}
	for i := range c.rows {
		if x := &c.rows[i]; x.serves {
			takes(c.groups[x.group].first, x)
		}
	}
	if !c.alike {
		return
	}
	for i := range c.lanes {
		l := &c.lanes[i]
		if c.toldAll(l) {
			continue
		}
		o := n.offeredCold(l)
		for _, k := range l.calm {
			g := &c.groups[k]
			if c.toldOf(g) == g.size {
				continue
			}
			if f, p := g.first.fastest, g.first.predictor; f.asked == c.asked && f.computes <= o.computes {
				if o.stays+p.Soonest(o.first, g.burden.All) >= f.service {
					break // the others of the lane delay it more
				}
				if o.stays+c.least(g, o) >= f.service {
					continue
				}
			}
			if x := n.others(g); x.serves {
				takes(g.first, x)
			}
		}
	}
}

// toldOf is how many agents of a group the task tells from the others.
func (c *crowd) toldOf(g *group) int {
	if g.asked != c.asked {
		g.asked, g.apart, g.row, g.rows, g.least = c.asked, 0, -1, -1, -1
	}
	return g.apart
}

// toldAll reports whether the task tells all agents of a lane from others.
func (c *crowd) toldAll(l *lane) bool { return l.asked == c.asked && l.apart == l.size }

// least is at most how long a first token takes of a slot of a group, where nothing of the prompt is held.
func (c *crowd) least(g *group, o *offer) time.Duration {
	if c.toldOf(g); g.least < 0 {
		g.least = g.first.predictor.Least(o.first, o.work, g.burden)
	}
	return g.least
}

// others is what the task would have of the agents of a group that it does not tell apart; nil if there are
// none.
func (n *Node) others(g *group) *prospect {
	c := &n.crowd
	if !c.alike || c.toldOf(g) == g.size {
		return nil
	}
	if g.row < 0 {
		g.row = n.row(g.first, g, n.offeredCold(&c.lanes[g.lane]))
	}
	return &c.rows[g.row]
}

// loads is the toll for the time that a task takes longer than elsewhere, and its prompt does.
func (c *crowd) loads(x *prospect) market.Credits {
	if !x.loaded {
		x.loaded = true
		if x.serves {
			x.load = c.over(x.takes(), c.groups[x.group].first.fastest.least, c.pressed)
		}
	}
	return x.load
}

// cold is what is expected of a prompt that an agent holds nothing of.
func (a *agent) cold(t *task) held { return held{tokens: a.predictor.Tokens(t.msg.Prompt.Tokens)} }

// tell tells an agent from the others of its group.
func (n *Node) tell(seat int32, o *offer) {
	c := &n.crowd
	s := &c.stands[seat]
	g := &c.groups[s.group]
	c.toldOf(g)
	g.apart++
	l := &c.lanes[g.lane]
	if l.asked != c.asked {
		l.asked, l.apart = c.asked, 0
	}
	l.apart++
	s.asked, s.row = c.asked, n.row(s.agent, g, o)
	c.apart = append(c.apart, seat)
}

// tellCold tells an agent that holds nothing of the prompt, unless it is told.
func (n *Node) tellCold(seat int32) {
	c := &n.crowd
	if s := &c.stands[seat]; s.asked != c.asked {
		n.tell(seat, n.offeredCold(&c.lanes[c.groups[s.group].lane]))
	}
}

// offeredCold is what the task is offered by agents of a lane that hold nothing of its prompt.
func (n *Node) offeredCold(l *lane) *offer {
	c, k := &n.crowd, l.kind
	if k.asked != c.asked {
		k.asked, k.cold = c.asked, n.offered(l.first, l.first.cold(c.looked))
	}
	return k.cold
}

// offered is what it is offered by agents of a kind that hold so much of its prompt.
func (n *Node) offered(a *agent, held held) *offer {
	c, k := &n.crowd, n.kind(a)
	for i := len(c.offers) - 1; i >= max(0, len(c.offers)-fewOffers); i-- {
		if o := c.offers[i]; o.kind == k && o.held == held {
			return o
		}
	}
	c.offers = again(c.offers)
	at := &c.offers[len(c.offers)-1]
	if *at == nil {
		*at = new(offer)
	}
	o, t := *at, c.looked
	*o = offer{kind: k, held: held, suits: a.suits(t)}
	q := n.noted(t, a, held)
	if o.takes = a.takes(q.prompt); o.takes {
		// A hold cannot exceed the reservation, so no more is offered than that. The reservation covers every
		// quote as it stood when the task came.
		o.prompt, o.output, o.first, o.work, o.cost = q.prompt, q.forecast.Output, q.forecast.TTFT, q.work,
			q.cost
		o.most, o.quality, o.stays = q.room(t.reserved), q.quality, n.service(a, 0, o.output)
		o.computes = q.computes
	}
	return o
}

// row is the row of what the task would have of an agent of a group.
func (n *Node) row(a *agent, g *group, o *offer) int32 {
	c, t := &n.crowd, n.crowd.looked
	if c.alike {
		for k := g.rows; k >= 0; k = c.rows[k].before {
			if c.rows[k].quote == o {
				return k
			}
		}
	}
	i := int32(len(c.rows))
	c.rows = c.rows[:i+1]
	x := &c.rows[i]
	*x = prospect{group: c.stands[a.seat].group, before: g.rows, quote: o, queue: g.burden.Queue}
	g.rows = i
	suits := o.suits
	if !c.alike || t.parses {
		suits = a.suits(t)
	}
	if x.serves = suits && o.takes; x.serves {
		x.ttft = a.predictor.Later(o.first, o.work, g.burden)
		x.service, x.early = o.stays+x.ttft, x.ttft-a.predictor.Half(x.ttft)
	}
	return i
}

// prospect is what the task whose prospects were looked at would have of an open agent.
func (n *Node) prospect(seat int) *prospect {
	c := &n.crowd
	s := &c.stands[seat]
	var x *prospect
	if s.asked == c.asked {
		x = &c.rows[s.row]
	} else {
		x = n.others(&c.groups[s.group])
	}
	c.loads(x)
	return x
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
		if a := s.agent; s.room < a.slots-len(a.holds)-a.stuck {
			e.Add(n.more(a, s.room), 0)
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
		c.putOff(g)
	}
	return g.stands
}

// putOff finds anew how late the slots of a group come, which is no sooner than it was thought to be.
func (c *crowd) putOff(g *group) {
	g.later = never
	if len(g.stands) > 0 {
		s := &c.stands[g.stands[0]]
		g.later = s.next - min(s.next, g.burden.Queue) + g.burden.All
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
// the task than what was found: see offer.late. Only agents count that it does not tell from the others. A
// group is passed over, and what the task would have of it not found out, if it may not be better even where
// its slots come in that time and a first token takes as little as it may.
func (n *Node) soonest(l *lane, may func(*group, *prospect, time.Duration) bool,
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
		if g.later-less >= o.late-o.first && !whole {
			return
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
		least := c.least(g, o)
		if g.later-g.burden.All+least >= o.late {
			continue
		}
		next := &c.stands[g.stands[0]]
		// and no deadline keeps it from being looked at: half of its first tokens may come far
		// sooner than that
		c.rough = prospect{group: next.group, quote: o, serves: true, ttft: least, service: o.stays + least,
			early: never, queue: g.burden.Queue}
		if !may(g, &c.rough, next.next) {
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
	f := search{task: t, terms: t.usual.Judge(), waited: t.waited, left: line.Far}
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
		n.soonest(&c.lanes[i], func(_ *group, x *prospect, d time.Duration) bool {
			value, ok := f.worth(x, f.first(x, d))
			return ok && (at < 0 || value-x.quote.cost >= best)
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
