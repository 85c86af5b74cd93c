package hub

import (
	"cmp"
	"slices"
	"time"

	"souk/bus"
	"souk/hub/line"
	"souk/hub/regime"
	"souk/ledger"
	"souk/market"
)

// A task may be better off with a slot that is not free yet: one of the agent which holds its prompt, say. So
// a round offers it two things, the free slots and to wait on, and what waiting is worth to it is taken off
// what each slot is worth (market.Wait). How long it would wait is a forecast that reads no bid: it is made
// of who came first, of what runs, and of how long that takes. What that is worth follows by the task's own
// terms.
//
// What a task does to those behind it is charged, in tolls that are fixed before any bid is read (hub/line).

// crowd is what a hub knows of those who wait, beyond the tasks themselves.
type crowd struct {
	clients int // that have open tasks
	numbers int // of clients, as they came

	worths   line.Worths
	pressure line.Pressure
	board    line.Board
	tolls    line.Tolls
	again    timer // somebody who rather waits is to look again

	open       []*agent    // that take tasks now, or as soon as they have a slot; by id
	ends       []line.Ends // of what runs on each
	full       bool        // one of them has no free slot
	quiet      bool        // a task is alone, and no agent is full
	candidates []line.Candidate
	row        []prospect

	classes map[string]*fastest // of agents
	asked   uint64              // how often prospects were looked at
}

// fastest is how long a task takes on the agent of a class where it takes least.
type fastest struct {
	service time.Duration
	asked   uint64 // in which prospects
}

// fastestOf is what agents of a class share. It forgets classes that no agent of the roster is of, once there
// are many.
func (n *Node) fastestOf(class string) *fastest {
	c := &n.crowd
	f := c.classes[class]
	if f == nil {
		if len(c.classes) > 4*n.cfg.MaxAgents || c.classes == nil {
			c.classes = map[string]*fastest{}
			for _, a := range n.roster {
				if a.fastest != nil {
					c.classes[a.class] = a.fastest
				}
			}
		}
		f = new(fastest)
		c.classes[class] = f
	}
	return f
}

// prospect is what a task would have of an open agent.
type prospect struct {
	running       int // it would run beside so many
	ttft, service time.Duration
	quote         quote
	serves        bool
}

// open reports whether an agent takes tasks, now or as soon as it has a slot.
func (a *agent) open(n *Node) bool {
	return a.joined && a.sells && n.nano <= a.silentFrom && n.nano >= a.avoidUntil &&
		a.state == bus.StateReady && a.reg.State == bus.StateReady
}

// service is how long a task keeps a slot of an agent, from its dispatch on. Where no time between tokens was
// seen it is a quarter of the slowest expected.
func (n *Node) service(a *agent, ttft time.Duration, output int) time.Duration {
	itl := a.predictor.ITL()
	if itl == 0 {
		itl = n.cfg.Prior.Slowest / 4
	}
	return ttft + time.Duration(output)*itl
}

// lineUp finds out who waits for whom: the lines of the round's tasks, and the pressure on all.
func (n *Node) lineUp() {
	c := &n.crowd
	slots, free := 0, 0
	c.open, c.full = c.open[:0], false
	for _, a := range n.roster {
		if !a.open(n) {
			continue
		}
		a.seat = len(c.open)
		c.open = append(c.open, a)
		if len(c.ends) < len(c.open) {
			c.ends = append(c.ends, line.Ends{})
		}
		e := &c.ends[a.seat]
		e.Reset()
		for _, h := range a.holds {
			e.Add(n.service(a, h.ttft, h.rec.Output), n.now.Sub(h.sent))
		}
		e.Done()
		room := a.free(n)
		slots, free, c.full = slots+a.slots, free+room, c.full || room == 0
	}
	c.board.Reset(len(c.open), line.Share(slots, c.clients))
	c.quiet = !c.full && len(n.round.tasks) == 1 && n.batch.All() == 0
	for _, t := range n.round.tasks {
		if !c.quiet && (!c.has(t.home) || !n.usable(t, t.home)) { // else no line is there to stand in
			t.home = n.home(t)
		}
		k := -1
		if c.has(t.home) {
			k = t.home.seat
		}
		t.place = c.board.Join(k, n.purses[t.key.client].number, n.now.Sub(t.arrived))
	}
	c.tolls = line.Tolls{Params: n.cfg.Crowd, Pressure: c.pressure.Add(n.now, c.board.Waiting(), free, slots)}
	if c.quiet = c.quiet && c.tolls.Pressure == 0 && c.tolls.Beside == 0; !c.quiet {
		c.tolls.Worth = c.worths.Second(n.now)
	}
}

// has reports whether an agent is among those that are open.
func (c *crowd) has(a *agent) bool { return a != nil && a.seat < len(c.open) && c.open[a.seat] == a }

// home is the agent whose line a task stands in; nil if none may serve it.
func (n *Node) home(t *task) *agent {
	c := &n.crowd
	c.candidates = c.candidates[:0]
	for k, a := range c.open {
		if !n.usable(t, a) {
			continue
		}
		held := n.own(t, a)
		if held < 2*max(1, a.reg.BlockSize) {
			held = 0
		}
		c.candidates = append(c.candidates, line.Candidate{Agent: k, Held: held,
			Load: c.board.Homes(k) + len(a.holds)})
	}
	if k := line.Home(c.candidates); k >= 0 {
		return c.open[k]
	}
	return nil
}

// charge sets the crowd's part of the tolls, and what each task would have by waiting on.
func (n *Node) charge() {
	s, c := &n.round, &n.crowd
	s.waits = append(s.waits[:0], make([]market.Wait, len(s.tasks))...)
	if c.tolls.Params == (line.Params{}) {
		return
	}
	waiting := n.cfg.Crowd.Waiting && n.cfg.Pricing != market.PricingPosted
	alone := len(s.tasks) == 1
	if c.quiet {
		return // there is nobody to be in the way of, and nothing that is better later
	}
	s.eachTask(func(pairs []pair) {
		t := s.tasks[pairs[0].task]
		n.prospects(t)
		best := market.Credits(-1)
		for i := range pairs {
			p := &pairs[i]
			a := s.agents[p.agent]
			x := &c.row[a.seat]
			p.parts = n.crowding(a, x, a.fastest.service)
			p.parts.Age = c.tolls.Ahead(
				c.board.Ahead(a.seat, s.free[p.agent], n.now.Sub(t.arrived), t.home == a))
			p.toll += p.parts.Sum()
			if !n.now.Add(p.ttft).After(t.deadline) {
				best = max(best, p.value-p.cost+p.toll-n.cfg.Fee)
			}
		}
		if !waiting {
			return
		}
		w := &s.waits[pairs[0].task]
		n.better(pairs[0].task, w)
		if alone && w.Loss <= best {
			*w = market.Wait{} // it takes the slot either way, and nobody else wants it
		}
	})
}

// prospects fills crowd.row for a task, and says how long it takes on the agents of a class where it takes
// least.
func (n *Node) prospects(t *task) {
	c := &n.crowd
	c.row = slices.Grow(c.row[:0], len(c.open))[:len(c.open)]
	c.asked++
	for k, a := range c.open {
		x := &c.row[k]
		if x.serves = a.suits(t); !x.serves {
			continue
		}
		// where there is no room it will run beside one task less
		x.running = min(len(a.holds), max(0, a.slots-1))
		x.quote = *n.quoted(t, a, x.running)
		if x.serves = a.takes(x.quote.prompt); !x.serves {
			continue
		}
		x.ttft = x.quote.forecast.TTFT
		x.service = n.service(a, x.ttft, x.quote.forecast.Output)
		if f := a.fastest; f.asked != c.asked {
			f.asked, f.service = c.asked, x.service
		} else {
			f.service = min(f.service, x.service)
		}
	}
}

// crowding is the toll of a task on an agent, for what it costs those who wait and those who run there.
//
// Those who wait: the time for which it takes the slot longer than a slot of another agent of the class, the
// fastest. Slower classes are not charged for being slow, as whoever had the slot instead would take as long,
// and a slot that stays free serves nobody.
//
// Those who run: a tier charges for that at the agent's price of tokens, so this is what is missing to what
// their time is worth. The two together are the larger of both.
func (n *Node) crowding(a *agent, x *prospect, fastest time.Duration) market.Toll {
	beside := n.crowd.tolls.Among(x.running)
	if n.cfg.Tiers {
		beside = min(0, beside-market.TierAt(a.tiers, x.running).Toll)
	}
	return market.Toll{Load: n.crowd.tolls.Avoidable(x.service - fastest), Beside: beside}
}

// better finds what a task would have by waiting for the agent where that is best. Its own bids in this round
// do not move what it is told, but by its terms.
func (n *Node) better(i int32, best *market.Wait) {
	c, t := &n.crowd, n.round.tasks[i]
	waited := n.now.Sub(t.arrived)
	share := line.LeftOf(waited, t.terms.Patience)
	if share == 0 {
		return
	}
	left := t.deadline.Sub(n.now)
	for k, a := range c.open {
		x := &c.row[k]
		if !x.serves {
			continue
		}
		place := c.board.Len(k)
		if t.home == a {
			place = t.place
		}
		wait, ok := c.ends[k].Wait(max(1, place+1-a.free(n)), waited)
		if !ok || wait+x.ttft > left {
			continue
		}
		w := market.Wait{Agent: market.AgentID(a.id), Time: wait + x.ttft, Cost: x.quote.cost, Share: share}
		x.quote.value = t.terms.Value(market.Quote{TTFT: w.Time, Cost: w.Cost,
			Quality: a.quality(t.msg.Domain)})
		w.Value = x.quote.within(t.reserved)
		w.Toll = n.crowding(a, x, a.fastest.service).Sum() + n.drawn(i, a, &x.quote)
		if n.cfg.Tiers && len(a.tiers) > 0 {
			w.Charge = a.tiers[len(a.tiers)-1].Toll
		}
		if w.Sum(n.cfg.Fee) <= best.Loss { // whatever a slot costs there
			continue
		}
		w.Price, w.Round = n.priceBefore(a, t.since)
		if w.Loss = w.Sum(n.cfg.Fee); w.Loss > best.Loss {
			*best = w
		}
	}
}

// drawn is the regime's toll on a task at an agent that need not have room now.
func (n *Node) drawn(i int32, a *agent, q *quote) market.Credits {
	s, p := &n.round, n.cfg.Regime
	if p.Idle() {
		return 0
	}
	draw := regime.Draw(s.seed, string(s.tasks[i].id), a.id)
	return p.Toll(s.scale, min(draw, s.most[i]), s.most[i], q.saved(a))
}

// priced is an agent's slot price from a round on, up to the next.
type priced struct {
	round uint64
	price market.Credits
}

// pricesKept bounds what is kept of an agent's slot prices, 32 KB: of a minute in a crowd, which is as long
// as tasks wait by default. One that came before the oldest reckons with none.
const pricesKept = 2048

// notePrice takes in an agent's slot price in a round that it had room in.
func (a *agent) notePrice(round uint64, price market.Credits) {
	a.slotPrice = price
	if k := len(a.prices); k > 0 && a.prices[k-1].price == price &&
		a.prices[k-1].round+ledger.WaitRounds/2 > round {
		return
	}
	if len(a.prices) == pricesKept {
		a.prices = slices.Delete(a.prices, 0, pricesKept/2)
	}
	a.prices = append(a.prices, priced{round, price})
}

// priceBefore is an agent's slot price as it was up to a round, and the round that it is of.
func (n *Node) priceBefore(a *agent, round uint64) (market.Credits, uint64) {
	i, ok := slices.BinarySearchFunc(a.prices, round,
		func(p priced, r uint64) int { return cmp.Compare(p.round, r) })
	if !ok {
		i--
	}
	if last, _ := n.book.LastRound(); i < 0 || a.prices[i].round+ledger.WaitRounds <= last {
		return 0, 0
	}
	return a.prices[i].price, a.prices[i].round
}

// lookAgain is how soon a task that rather waits is looked at again, at the soonest.
const lookAgain = 10 * time.Millisecond

// tollsFade is how soon one is looked at again whom the crowd's tolls may keep from a slot that is free: they
// fall by time alone.
const tollsFade = time.Second

// due implements timed.
func (c *crowd) due(n *Node) { n.news() }

// lookLater has those looked at again that rather wait than take a slot that is free: when the slot that they
// wait for should have come, or waiting has become worth less than what is free, or the agent has been silent
// for too long; and those that tolls keep from one, as these fall. Nothing else may happen to wake them.
func (n *Node) lookLater() {
	s := &n.round
	edges, parts := s.whole.Edges, s.parts
	var at time.Time
	for i, t := range s.edged {
		k := 0
		for k < len(edges) && edges[k].Task == i {
			k++
		}
		own, w := edges[:k], s.whole.Tasks[i].Wait
		charged := slices.ContainsFunc(parts[:k], func(p market.Toll) bool { return p != market.Toll{} })
		edges, parts = edges[k:], parts[k:]
		if t.state != waiting {
			continue
		}
		if charged {
			at = earlier(at, n.now.Add(tollsFade))
		}
		if w == nil {
			continue
		}
		best := market.Credits(-1)
		for _, e := range own {
			if x := e.Weight(s.whole.Agents[e.Agent].Tiers[0], n.cfg.Fee); x < w.Loss {
				best = max(best, x)
			}
		}
		if best >= 0 {
			at = earlier(at, n.lookAt(t, w, best))
		}
	}
	if at.IsZero() {
		return
	}
	if at = later(at, n.now.Add(lookAgain)); n.crowd.again.place == 0 || at.Before(n.crowd.again.at) {
		n.timers.set(&n.crowd.again, at)
	}
}

// lookAt is when the outcome may be another for a task that rather waits than take a slot worth best to it.
func (n *Node) lookAt(t *task, w *market.Wait, best market.Credits) time.Time {
	at := earlier(n.now.Add(w.Time), t.deadline.Add(1-w.Time)) // it is too late to wait
	fades := t.arrived.Add(line.Fades(t.terms.Patience, w.Share, int64(w.Loss), int64(best)))
	if fades.After(n.now) {
		at = earlier(at, fades)
	}
	if a := n.lookup(string(w.Agent)); a != nil {
		at = earlier(at, n.now.Add(time.Duration(a.silentFrom-n.nano)+1))
	}
	return at
}
