package hub

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"time"

	"souk/hub/batch"
	"souk/hub/line"
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

	worths line.Worths
	stakes line.Worths
	board  line.Board
	tolls  line.Tolls
	again  timer // somebody who rather waits is to look again

	everybody []*task // who waits, by arrival, whether they are in the round or wait for news

	full  bool // an open agent has no free slot
	quiet bool // a task is alone, and no agent is full

	round       uint64
	stands      []stand // the open agents, by id
	places      []int32 // of these, from 1, by the place of their cache; 0: none
	groups      []group
	lanes       []lane
	roomy       []int32 // groups where slots are free
	slots, free int     // of all
	// of the task that is looked at
	looked *task
	alike  bool // agents of a group are alike to it, but those that it tells apart
	rows   []prospect
	rough  prospect // what it would have at best of the group that is looked at
	offers []*offer
	apart  []int32 // the agents that it tells from others of their group

	classes map[string]*fastest // of agents
	asked   uint64              // how often prospects were looked at
}

// fastest is what agents of a class share: how long a task's prompt takes to compute where it takes least,
// and how many tasks they have.
type fastest struct {
	computes time.Duration
	asked    uint64 // in which prospects
	loads    loads
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

// open reports whether an agent takes tasks, now or as soon as it has a slot.
func (a *agent) open(n *Node) bool {
	return a.joined && a.sells && n.nano <= a.silentFrom && n.nano >= a.avoidUntil &&
		a.ready && a.listed
}

// service is how long a task keeps a slot of an agent, from its dispatch on. Where no time between tokens was
// seen it is a quarter of the slowest expected.
func (n *Node) service(a *agent, ttft time.Duration, output int) time.Duration {
	return ttft + time.Duration(output)*n.itl(a)
}

func (n *Node) itl(a *agent) time.Duration {
	return cmp.Or(a.predictor.ITL(), n.cfg.Prior.Slowest/4)
}

// lineUp finds out who waits for whom: the lines of all who wait, also for news.
func (n *Node) lineUp() {
	c, s := &n.crowd, &n.round
	share := line.Share(c.slots, c.clients)
	c.board.Reset(len(c.stands), share)
	c.gather(s.tasks, n.batch)
	c.quiet = !c.full && len(c.everybody) == 1
	next := 0
	if !c.quiet {
		c.load()
	}
	for i, t := range c.everybody {
		t.waited, t.left = n.now.Sub(t.arrived), t.deadline.Sub(n.now)
		// One who waits for news was offered the slots that are free, and did not take them: nobody takes its
		// turn.
		claims := next < len(s.tasks) && s.tasks[next] == t
		if claims {
			next++
			claims = !t.yields && !t.passed
		}
		moves := false
		if !c.quiet { // else no line is there to stand in
			moves = n.standIn(t)
		}
		k := -1
		if c.has(t.home) {
			k = t.home.seat
		}
		if t.account == nil {
			t.account = n.accounts[t.key.client]
		}
		p := t.account
		if p.round != c.round {
			p.round, p.number = c.round, c.board.Clients()
		}
		t.place = c.board.Join(k, line.Claim{Client: p.number, Age: t.waited, Who: i}, claims)
		if k >= 0 && !c.quiet {
			c.stands[k].agent.fastest.loads.more(c.board.Homes(k) - 1 + c.stands[k].runs)
		}
		n.overdue(t, k, moves)
	}
	c.tolls = line.Tolls{Params: n.cfg.Crowd}
	if c.quiet = c.quiet && c.tolls.Beside == 0 && c.tolls.Compute == 0; !c.quiet {
		c.tolls.Worth, c.tolls.Stake = c.worths.Mean(n.now), c.stakes.Mean(n.now)
	}
	for k := range c.stands {
		s := &c.stands[k]
		g := &c.groups[s.group]
		s.beside = n.beside(s, 0)
		if most := s.beside + s.charge; s.agent == g.first || most > g.most {
			g.most = most
		}
	}
}

// overdue finds out how much longer a task has waited than was forecast when it came into the line of its
// home, which is at place k. Where it has none, it waits for longer than anybody told it. If it moved to a
// shorter line it is no later than it was to be before.
func (n *Node) overdue(t *task, k int, moved bool) {
	if k < 0 {
		t.over, t.expects = t.waited, nil
		return
	}
	if s := &n.crowd.stands[k]; t.expects != s.agent {
		before := t.expected
		t.expects, t.expected = s.agent, t.waited
		if t.place >= s.room {
			if d, ok := n.endsAt(s).Nth(t.place + 1 - s.room); ok {
				t.expected += d
			}
		}
		if moved {
			t.expected = min(t.expected, before)
		}
	}
	t.over = max(0, t.waited-t.expected)
}

// gather lists everybody who waits, by arrival: those of the round, and the others of a batch.
func (c *crowd) gather(round []*task, others *batch.Batch[*task]) {
	c.everybody = c.everybody[:0]
	others.Each(func(t *task, arrived time.Time) {
		if !t.unseated.IsZero() {
			return // it waits for nobody's slot
		}
		for len(round) > 0 && round[0].arrived.Before(arrived) {
			c.everybody, round = append(c.everybody, round[0]), round[1:]
		}
		c.everybody = append(c.everybody, t)
	})
	c.everybody = append(c.everybody, round...)
}

// has reports whether an agent is among those that are open.
func (c *crowd) has(a *agent) bool {
	return a != nil && a.seat < len(c.stands) && c.stands[a.seat].agent == a
}

// charge sets the crowd's part of the tolls of a task, and what it would have by waiting on. Its prospects
// were looked at.
func (n *Node) charge(i int, pairs []pair) {
	s, c := &n.round, &n.crowd
	s.yields[i] = s.tasks[i].yields
	// where it is quiet there is nobody to be in the way of, and nothing that is better later
	if c.tolls.Params == (line.Params{}) || c.quiet || len(pairs) == 0 {
		return
	}
	t := s.tasks[i]
	best, own := market.Credits(-1), market.Credits(-1)
	athome := false // own is what a slot at home is worth to it now, age aside
	for k := range pairs {
		p := &pairs[k]
		a := s.agents[p.agent]
		x := n.prospect(a.seat)
		p.parts = market.Toll{Load: x.load, Beside: n.besideOthers(&c.stands[a.seat], t),
			Age: c.tolls.Ahead(c.board.Ahead(a.seat, s.free[p.agent], t.account.number, t.waited,
				t.home == a))}
		p.toll += p.parts.Sum()
		worth := market.Credits(-1)
		if p.half <= t.left {
			worth = p.value - p.cost + p.toll - n.cfg.Fee
		}
		best = max(best, worth)
		if t.home == a || t.home == nil { // where it is the first to come, all slots are as good as at home
			athome, own = true, max(own, worth-p.parts.Age)
		}
	}
	if athome {
		s.yields[i] = own < 0
	}
	if best < 0 || !n.cfg.Crowd.Waiting || n.cfg.Pricing == market.PricingPosted {
		return // no slot is worth anything to it, waiting or not
	}
	if len(s.tasks) > 1 {
		best = 0
	} // else it takes the slot if waiting is not worth more: nobody else wants it
	s.waits[i], s.waitFor[i] = n.better(int32(i), best)
	if other := s.waitFor[i]; athome && other != nil && other != t.home && s.waits[i].Loss > own {
		s.yields[i] = true
	}
}

// beside is the toll of a task for what it costs those who run beside it on an agent, but for so many of its
// own client. A tier charges for that at the agent's price of tokens, so this is what is missing to what
// their time is worth. The two together are the larger of both.
func (n *Node) beside(s *stand, own int) market.Credits {
	toll := n.crowd.tolls.Among(max(0, s.running-own))
	if n.cfg.Tiers {
		toll = min(0, toll-market.TierAt(s.agent.tiers, s.running).Toll)
	}
	return toll
}

// pass notes whose turn a task has that gets a slot of an agent, if it is another's of its client. A turn is
// had once: else one task, left to stand first in a line, would keep others from all of its client's.
func (n *Node) pass(t *task, a *agent) {
	c := &n.crowd
	next, ok := c.board.Next(a.seat, c.stands[a.seat].room)
	if other := c.everybody[next.Who]; ok && other != t && other.account == t.account {
		n.round.passed = append(n.round.passed, other)
	}
}

// besideOthers returns the toll of a task for what it keeps from other clients.
func (n *Node) besideOthers(s *stand, t *task) market.Credits {
	if t.account.open == t.account.waiting { // none of its client's runs
		return s.beside
	}
	own := 0
	for _, h := range s.agent.holds {
		if h.rec.Client == t.key.client {
			own++
		}
	}
	return n.beside(s, own)
}

// search is for where a task would wait best.
type search struct {
	index int32 // of the task
	task  *task
	terms market.Judged
	over  time.Duration // that it has waited longer than forecast
	left  time.Duration // to the deadline
	share uint32

	loss market.Credits // of the best that was found; before, what is to be exceeded
	seat int            // of its agent; -1: none was found
	best market.Wait
}

// better finds what a task would have by waiting for the agent where that is best, and which that is; nil if
// it would have no more than floor anywhere. Its own bids in this round do not move what it is told, but by
// its terms.
func (n *Node) better(i int32, floor market.Credits) (market.Wait, *agent) {
	c, t := &n.crowd, n.round.tasks[i]
	f := search{index: i, task: t, terms: *t.stated(), over: t.over, left: t.left, loss: floor,
		seat: -1}
	if f.share = line.LeftOf(t.waited, t.terms.Patience); f.share == 0 {
		return market.Wait{}, nil
	}
	c.searchAnew()
	for _, k := range c.apart {
		s := &c.stands[k]
		x := &c.rows[s.row]
		var d time.Duration
		var ok bool
		if t.home == s.agent {
			d, ok = n.endsAt(s).Nth(max(1, t.place+1-s.room))
		} else {
			d, ok = n.turn(k)
		}
		if ok {
			n.consider(&f, x, int(k), d, n.besideOthers(s, t)+s.charge)
		}
	}
	own := t.account.open > t.account.waiting // it may be charged less for running beside its own
	most := func(g *group) market.Credits {
		if own {
			return 0
		}
		return g.most
	}
	for i := range c.lanes {
		n.soonest(&c.lanes[i], f.over, func(g *group, x *prospect, at time.Duration) bool {
			value, ok := f.worth(x, at)
			if ok && !f.mayBe(f.whole(n, x, value)) {
				x.quote.late, ok = at, false
			}
			return ok && f.mayBe(n.sum(&f, x, value, most(g)))
		}, func(g *group, x *prospect) {
			for _, k := range g.stands {
				s := &c.stands[k]
				if s.asked != c.asked && !n.consider(&f, x, int(k), s.next, most(g)) {
					break
				}
			}
		})
	}
	if f.seat < 0 {
		return market.Wait{}, nil
	}
	return f.best, c.stands[f.seat].agent
}

// searchAnew forgets what was found too late.
func (c *crowd) searchAnew() {
	for _, o := range c.offers {
		o.late = math.MaxInt64
	}
}

// first is when the first token comes of a slot that comes in d.
func (f *search) first(x *prospect, d time.Duration) time.Duration {
	return line.Stretch(d, f.over) + x.ttft - min(d, x.queue)
}

// worth is the value of a slot whose first token comes then; false if that is too late.
func (f *search) worth(x *prospect, at time.Duration) (market.Credits, bool) {
	if !x.serves || at-x.early > f.left {
		return 0, false
	}
	value := f.terms.Value(market.Quote{TTFT: at, Cost: x.quote.cost, Quality: x.quote.quality})
	return min(value, x.quote.most), true
}

// whole is what waiting would be worth if nothing were charged for it.
func (f *search) whole(n *Node, x *prospect, value market.Credits) market.Credits {
	w := market.Wait{Value: value, Cost: x.quote.cost, Share: f.share}
	return w.Sum(n.cfg.Fee)
}

// sum is what waiting would be worth, whatever the slot costs then.
func (n *Node) sum(f *search, x *prospect, value, tolls market.Credits) market.Credits {
	w := market.Wait{Value: value, Cost: x.quote.cost, Toll: n.crowd.loads(x) + tolls, Share: f.share}
	return w.Sum(n.cfg.Fee)
}

// mayBe reports whether what is worth so much may be the best. Of equals the first agent is.
func (f *search) mayBe(loss market.Credits) bool {
	return loss > f.loss || loss == f.loss && f.seat >= 0
}

// consider takes an agent that has a slot in d for the best if it is. It returns false if no agent can be,
// for which that takes longer and whose tolls and charges are at best so much.
func (n *Node) consider(f *search, x *prospect, seat int, d time.Duration, most market.Credits) bool {
	at := f.first(x, d)
	if at >= x.quote.late {
		return false // as one was that came sooner, whatever is charged
	}
	value, ok := f.worth(x, at)
	if !ok {
		return false // by the deadline, which is another time for agents that have more in hand
	}
	if !f.mayBe(f.whole(n, x, value)) {
		x.quote.late = at
		return false
	}
	if !f.mayBe(n.sum(f, x, value, most)) {
		return false
	}
	s := &n.crowd.stands[seat]
	if !f.task.lets(seat) {
		return true
	}
	drawn, beside := n.drawn(f.index, s.agent, x.quote), n.besideOthers(s, f.task)
	if tolls := beside + s.charge + drawn; tolls != most && !f.mayBe(n.sum(f, x, value, tolls)) {
		return true
	}
	price, round := n.priceBefore(s.agent, f.task.since)
	w := market.Wait{Value: value, Cost: x.quote.cost, Toll: x.load + beside + drawn, Charge: s.charge,
		Price: price, Share: f.share}
	if loss := w.Sum(n.cfg.Fee); loss > f.loss || loss == f.loss && seat < f.seat {
		w.Loss, w.Agent, w.Time, w.Round = loss, market.AgentID(s.agent.id), at, round
		f.best, f.loss, f.seat = w, loss, seat
	}
	return true
}

// drawn is the regime's toll on a task at an agent that need not have room now.
func (n *Node) drawn(i int32, a *agent, q *offer) market.Credits {
	s := &n.round
	if n.params().Idle() {
		return 0
	}
	draw := n.cfg.Parts.Toll.Draw(s.seed, string(s.tasks[i].id), a.id)
	return n.toll(s.scales[i], min(draw, s.most[i]), s.most[i], a.saves(q.prompt, q.output, q.cost))
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
	is := func(i int) bool {
		return i < len(a.prices) && (i < 0 || a.prices[i].round <= round) &&
			(i+1 == len(a.prices) || a.prices[i+1].round > round)
	}
	i := a.priceAt // tasks are looked at as they came: it is mostly the price of the last, or the next
	if !is(i) {
		i++
	}
	if !is(i) {
		i = sort.Search(len(a.prices), func(i int) bool { return a.prices[i].round > round }) - 1
	}
	a.priceAt = i
	return n.priceOf(a, i)
}

// priceOf returns slot price i of those that are kept, unless it is too old to reckon with.
func (n *Node) priceOf(a *agent, i int) (market.Credits, uint64) {
	if last, _ := n.book.LastRound(); i < 0 || a.prices[i].round+ledger.WaitRounds <= last {
		return 0, 0
	}
	return a.prices[i].price, a.prices[i].round
}

// lookAgain is how soon a task that rather waits is looked at again, at the soonest.
const lookAgain = 10 * time.Millisecond

// tollsFade is how soon one is looked at again whom the crowd's tolls, a policy or seats may keep from a slot
// that is free, or who rather waits. By time alone tolls fall, policies think again, agents have time to
// spare, and what takes longer than was forecast is forecast to take longer still.
const tollsFade = time.Second

// due implements timed.
func (c *crowd) due(n *Node) { n.news() }

// lookLater has those looked at again that rather wait than take a slot that is free: when the slot that they
// wait for should have come, or waiting has become worth less than what is free, or the agent has been silent
// for too long; and those that find what is free dear, for tolls or for what an agent has in hand, as these
// fall, or that a policy or seats keep from it. Nothing else may happen to wake them.
func (n *Node) lookLater() {
	s, again := &n.round, &n.crowd.again
	at := time.Duration(math.MaxInt64) // from now
	if again.place > 0 {
		if at = again.at.Sub(n.now); at <= lookAgain {
			return
		}
	}
	before := at
	if slices.ContainsFunc(s.tasks, func(t *task) bool {
		return t.state == waiting && t.outcome ==
			tooExpensive
	}) {
		at = min(at, n.lessInHand())
	}
	if slices.ContainsFunc(n.runtime.kept, func(t *task) bool { return t.state == waiting }) ||
		slices.ContainsFunc(s.tasks, func(t *task) bool { return t.state == waiting && t.may != nil }) {
		at = min(at, tollsFade)
	}
	edges, parts := s.whole.Edges, s.parts
	for i, t := range s.edged {
		k := 0
		for k < len(edges) && edges[k].Task == i {
			k++
		}
		own, charges := edges[:k], parts[:k]
		edges, parts = edges[k:], parts[k:]
		if t.state != waiting {
			continue
		}
		if slices.ContainsFunc(charges, func(p market.Toll) bool { return p != market.Toll{} }) {
			at = min(at, tollsFade)
		}
		w := s.whole.Tasks[i].Wait
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
			at = min(at, n.lookIn(t, w, s.waitFor[s.index[i]], best))
		}
	}
	if at < before {
		n.timers.set(again, n.now.Add(max(at, lookAgain)))
	}
}

// lessInHand is how soon those are looked at again that find what is free dear: once one of the agents that
// have room has computed its prompts, so that a first token comes sooner there, and each second. By then it
// is asked anew how long an answer will be, and so what it costs.
func (n *Node) lessInHand() time.Duration {
	at := max(tollsFade, lengthsEvery)
	for _, a := range n.round.agents {
		if queue := n.crowd.stands[a.seat].backlog.Queue; queue > 0 {
			at = min(at, queue)
		}
	}
	return at
}

// lookIn is how soon the outcome may be another for a task that rather waits than take a slot worth best to
// it.
func (n *Node) lookIn(t *task, w *market.Wait, a *agent, best market.Credits) time.Duration {
	at := min(tollsFade, w.Time, t.left+1-w.Time, // then it is too late to wait
		time.Duration(a.silentFrom-n.nano)+1)
	fades := line.Fades(t.terms.Patience, w.Share, int64(w.Loss), int64(best)) - t.waited
	if fades > 0 {
		at = min(at, fades)
	}
	return at
}
