package hub

import (
	"slices"
	"time"

	"souk/hub/prefix"
	"souk/market"
)

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
	looked bool
	since  uint64 // by the index's changes: when holds was looked up
	holds  []holding
	found  []prefix.Holder
	quotes [quotesKept]noted
}

// holding is what an agent holds of a task's prompt.
type holding struct {
	prefix.Holder
	known         bool   // held is of these:
	changes, fits uint64 // of the agent's cache, and of its predictor
	round         uint64 // in which it was found to be so
	held          held
}

// heldOf is what agents hold of a task's prompt.
func (n *Node) heldOf(t *task) []holding {
	k, x := n.notes(t), n.prefixes
	if k.looked && k.since == x.Changes() {
		return k.holds
	}
	if p := &t.msg.Prompt; !k.looked || x.Changed(p.Prefixes, k.since) {
		x.Resolve(p)
		k.looked, k.holds = true, k.holds[:0]
		k.found = x.Holders(k.found[:0], p.Prefixes)
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
		if h := &holds[i]; h.Place == a.place {
			return h.of(a, t, n.crowd.round)
		}
	}
	return a.cold(t)
}

// of is what an agent holds. No cache changes in a round before it is awarded.
func (h *holding) of(a *agent, t *task, round uint64) held {
	if h.round == round {
		return h.held
	}
	h.round = round
	changes, fits := a.cache.Changes(), a.predictor.Fits()
	if !h.known || h.changes != changes || h.fits != fits {
		p := &t.msg.Prompt
		h.known, h.changes, h.fits = true, changes, fits
		h.held.tokens, h.held.cached = a.cache.ExpectAt(p, h.Depth, a.predictor.Tokens(p.Tokens))
	}
	return h.held
}

// prospects finds out what a task would have of every open agent: see Node.prospect.
func (n *Node) prospects(t *task) {
	c := &n.crowd
	c.asked++
	c.looked = t
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

// fastest finds out how long the task's prompt takes to compute where it takes least in a class.
func (n *Node) fastest() {
	c := &n.crowd
	takes := func(a *agent, x *prospect) {
		f := a.fastest
		if f.asked != c.asked {
			f.asked, f.computes = c.asked, x.quote.computes
		} else {
			f.computes = min(f.computes, x.quote.computes)
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
			if f := g.first.fastest; f.asked == c.asked && f.computes <= o.computes {
				break // the others of the lane take as long
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
		g.least = g.first.predictor.Least(o.first, o.work, g.backlog)
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

// loads is the toll for the time that a task's prompt takes longer than elsewhere.
func (c *crowd) loads(x *prospect) market.Credits {
	if !x.loaded {
		x.loaded = true
		if x.serves {
			x.load = c.tolls.Computed(x.quote.computes - c.groups[x.group].first.fastest.computes)
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
		o.prompt, o.output, o.first, o.work, o.cost = q.prompt, q.output, q.first, q.work, q.cost
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
	*x = prospect{group: c.stands[a.seat].group, before: g.rows, quote: o, queue: g.backlog.Queue}
	g.rows = i
	suits := o.suits
	if !c.alike || t.parses || t.media {
		suits = a.suits(t)
	}
	if x.serves = suits && o.takes; x.serves {
		x.ttft = a.predictor.Later(o.first, o.work, g.backlog)
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
