package hub

import (
	"cmp"
	"math/bits"
	"slices"
	"time"

	"souk/bus"
	"souk/hub/line"
	"souk/hub/predict"
	"souk/hub/prefix"
	"souk/market"
)

// inquiry is a client's question what a task would be given now, without buying it. It is answered by what a
// round of now would know of the task: the same forecasts, charges and waits, and the slot prices of now.
//
// It changes nothing. Its Node is a copy that is thrown away, with a clock of its own. What tasks, agents and
// indexes remember of rounds is read, and nothing is looked up by what would remember who asked.
type inquiry struct {
	n      *Node
	t      *task
	others int  // tasks that would be in the round
	rest   bool // others rest: see inquiry.kept

	// memory that the next one uses again
	crowd      crowd   // of the copy, in which no task, agent or kind is looked up by what it keeps of rounds
	depths     []int32 // how many prefixes of the prompt are held, by the place of an agent
	seats      []int32 // of agents that are open, counted from 1, by their places
	numbers    numbers
	sights     []sight
	candidates []line.Candidate
	commons    map[string]int32
	first      string  // the model of the first agent that is joined
	ofFirst    []int32 // how many prefixes each of that model holds
	ofModel    []int32 // likewise of another
	fastest    map[*fastest]time.Duration
	models     []prize // by model
	idles      []idle  // quotes of agents that have nothing in hand
	// where in sights the last agent of a kind, a load and a share held stands; beyond their end: nowhere
	last [256]int32
}

// sight is an open agent that serves the task, as it would find it.
type sight struct {
	prospect
	kind   *kind // nil: it is like no other, see inquiry.saw
	held   held
	quote  quote // all of it
	seat   int
	beside market.Credits
}

// prize is what a task would have of a slot of an agent.
type prize struct {
	agent *agent
	quote *quote
	wait  time.Duration // for the slot
	ttft  time.Duration // with that
	price market.Credits
	toll  market.Credits // all of it, the fee included
	net   market.Credits // on the usual terms
	wins  bool           // on its own, by any agent of the model
}

// Quote says what a task would be given if it came now, and changes nothing. The task is as a door sends it;
// it need not have an id, nor its client any money.
func (n *Node) Quote(now time.Time, m *bus.Task) *bus.HubQuote {
	own, copied := *n, *m
	own.setClock(now) // caches are as they were: a quote changes nothing
	q := n.inquiry
	q.n, q.t = &own, &task{key: taskKey{m.Client, m.ID}, arrived: own.now}
	q.rest = own.batch.Held()
	own.crowd = q.crowd
	defer func() { q.crowd, q.n, q.t = own.crowd, nil, nil }()
	if no := q.read(&copied); no != nil {
		return q.refuse(no)
	}
	q.lineUp(&n.crowd)
	if no := q.look(); no != nil {
		return q.refuse(no)
	}
	for i := range q.sights {
		q.weigh(&q.sights[i])
	}
	if len(q.models) == 0 {
		return q.refuse(own.refusal(m, bus.CodeNoRoom, time.Second,
			"no agent of hub %s that serves it takes tasks right now", own.cfg.Domain))
	}
	return q.quote()
}

// refuse is a quote of nothing.
func (q *inquiry) refuse(no *bus.Result) *bus.HubQuote {
	out := q.head()
	out.Code, out.Message, out.RetryMS = no.Code, no.Message, no.RetryMS
	return out
}

func (q *inquiry) head() *bus.HubQuote {
	last, _ := q.n.book.LastRound()
	return &bus.HubQuote{Hub: q.n.cfg.Domain, Round: last, ValidMS: q.n.cfg.StatusEvery.Milliseconds()}
}

// read judges the task as admit does, limits of its client and money aside.
func (q *inquiry) read(m *bus.Task) *bus.Result {
	n, t := q.n, q.t
	err := m.Validate()
	switch {
	case !n.leading:
		return n.refusal(m, bus.CodeUnavailable, time.Second, "hub %s does not lead its domain", n.cfg.Domain)
	case err != nil:
		return n.refusal(m, codeOr(err, bus.CodeBadRequest), 0, "%s", bus.MessageOf(err))
	case !bus.ValidID(m.Client):
		return n.refusal(m, bus.CodeBadRequest, 0, "a quote needs the id of its client, not %q", m.Client)
	case m.Resume != nil:
		return n.refusal(m, bus.CodeBadRequest, 0, "resume: a quote is for a task as it begins")
	case m.Prompt.Tokens <= 0:
		return n.refusal(m, bus.CodeEmptyPrompt, 0, "the prompt is empty")
	}
	t.since, _ = n.book.LastRound()
	n.read(t, m)
	if no := n.judgeTime(t); no != nil {
		return no
	}
	if no := n.judgeHub(t, n.accounts[m.Client]); no != nil {
		return no
	}
	if err := n.setTerms(t); err != nil {
		return n.refusal(m, bus.CodeBadTerms, 0, "%v", err)
	}
	return nil
}

// lineUp finds out who waits for whom, as Node.lineUp does. Whom no round has looked at stands in nobody's
// line yet, and whoever waits elsewhere waits where its last round left it.
func (q *inquiry) lineUp(now *crowd) {
	n, c := q.n, &q.n.crowd
	q.depths = n.prefixes.Depths(q.depths, q.t.msg.Prompt.Prefixes)
	q.seats = resized(q.seats, len(q.depths))
	c.round++
	c.stands, c.slots, c.free = c.stands[:0], 0, 0
	for _, a := range n.roster {
		if a.open(n) {
			c.stands = again(c.stands)
			s := &c.stands[len(c.stands)-1]
			n.stand(s, a)
			q.seats[a.place] = int32(len(c.stands))
			c.slots, c.free = c.slots+a.slots, c.free+s.room
		}
	}
	p := account{client: q.t.key.client, round: now.round} // a copy, that this may change
	if had := n.accounts[p.client]; had != nil {
		p = *had
	}
	clients := now.clients
	if p.open == 0 {
		clients++
	}
	c.board.Reset(len(c.stands), line.Share(c.slots, clients))
	p.number = -1
	q.numbers.reset(n.batch.All(), now.board.Clients()) // those of the last round keep their numbers
	n.batch.Each(func(t *task, arrived time.Time) {
		from := t.account
		if from == nil {
			from = n.accounts[t.key.client]
		}
		number := from.number
		if from.round != now.round {
			number = q.numbers.of(from)
		}
		if from.client == p.client {
			p.number = number
		}
		claim := line.Claim{Client: number, Age: n.now.Sub(arrived)}
		c.board.Join(q.seat(t.home), claim, !t.yields && !t.passed)
		if k := q.seat(t.guest); k >= 0 && q.waits() {
			c.stands[k].guests++
		}
	})
	if p.number < 0 {
		p.number = q.numbers.next
	}
	c.board.Join(-1, line.Claim{Client: p.number}, false)
	q.others = n.batch.Len() // those that came since the last round
	if c.free == 0 {
		q.others = n.batch.All() // a slot that comes free is news for all
	}
	worths, stakes := now.worths, now.stakes // copies, too
	q.t.account = &p
	c.tolls = line.Tolls{Params: n.cfg.Crowd, Worth: worths.Mean(n.now), Stake: stakes.Mean(n.now)}
	for k := range c.stands {
		c.stands[k].beside = n.beside(&c.stands[k], 0)
	}
}

// numbers numbers clients, by their accounts. The numbers stand in no account, as an inquiry changes nothing,
// and in no map, as there may be thousands.
type numbers struct {
	slots []struct {
		serial uint64 // of the account; 0: none
		number int
	}
	next int
}

// reset makes room for so many. The first has the number next.
func (x *numbers) reset(most, next int) {
	x.slots = resized(x.slots, 1<<bits.Len(uint(2*most)))
	x.next = next
}

// of is the number of an account, the next where it has none.
func (x *numbers) of(p *account) int {
	for i := p.serial; ; i++ {
		switch s := &x.slots[i&uint64(len(x.slots)-1)]; s.serial {
		case p.serial:
			return s.number
		case 0:
			s.serial, s.number, x.next = p.serial, x.next, x.next+1
			return s.number
		}
	}
}

// waits reports whether tasks may prefer an agent that is full to one that is not.
func (q *inquiry) waits() bool {
	return q.n.cfg.Crowd.Waiting && q.n.cfg.Pricing != market.PricingPosted
}

// seat is where an agent stands among those that are open; -1 where it is none of them.
func (q *inquiry) seat(a *agent) int {
	if a == nil {
		return -1
	}
	place := int(a.place) // which has another agent, where this one is forgotten
	if place >= len(q.seats) {
		return -1
	}
	if k := int(q.seats[place]) - 1; k >= 0 && q.n.crowd.stands[k].agent == a {
		return k
	}
	return -1
}

// look quotes the task on every open agent that serves it, or says why there is none.
func (q *inquiry) look() *bus.Result {
	n, t, could := q.n, q.t, reach{}
	q.sights, q.models, q.idles = q.sights[:0], q.models[:0], q.idles[:0]
	clear(q.fastest)
	q.ofFirst = q.ofFirst[:0]
	var line predict.Line
	tokens := 0 // that the prompt has by that line
	for _, a := range n.roster {
		if a.joined {
			if len(q.ofFirst) == 0 {
				q.first = a.model
			}
			if a.model == q.first {
				q.ofFirst = append(q.ofFirst, q.depths[a.place])
			}
		}
		if !could.serves(t, a) {
			continue
		}
		if l := a.line(); l != line {
			line, tokens = l, l.Tokens(t.msg.Prompt.Tokens)
		}
		held := held{tokens: tokens}
		if depth := q.depths[a.place]; depth > 0 {
			held = a.expectAt(&t.msg.Prompt, depth)
		}
		if !a.takes(held.tokens) {
			continue
		}
		could.fitting++
		seat := q.seat(a)
		if seat < 0 {
			continue
		}
		s := &n.crowd.stands[seat]
		beside := n.besideOthers(s, t)
		kind, seen := q.saw(seat, line, held, beside)
		if seen {
			continue
		}
		x := sight{kind: kind, held: held, seat: seat, beside: beside}
		x.serves = true
		x.quote = q.idle(a, held)
		x.quote.beside(t, a, s.backlog)
		x.ttft, x.queue = x.quote.forecast.TTFT, s.backlog.Queue
		x.early = x.ttft - a.predictor.Half(x.ttft)
		x.service = n.service(a, x.ttft, x.quote.forecast.Output)
		took := x.quote.computes
		if other, ok := q.fastest[a.fastest]; ok {
			took = min(took, other)
		}
		q.fastest[a.fastest] = took
		q.sights = append(q.sights, x)
	}
	q.home()
	return n.outOfReach(t, &could)
}

// idle is what a task is quoted on agents of a kind that hold so much of its prompt.
type idle struct {
	kind  *kind
	held  held
	quote quote
}

// idle is what the task is quoted on an agent that has nothing in hand, as one of the last may have been.
func (q *inquiry) idle(a *agent, held held) quote {
	k := a.kind
	if k == nil || k.line != a.line() {
		return q.n.idleQuote(q.t, a, held)
	}
	for i := len(q.idles) - 1; i >= 0; i-- {
		if x := &q.idles[i]; x.kind == k && x.held == held {
			return x.quote
		}
	}
	if len(q.idles) == fewOffers {
		q.idles = q.idles[:0]
	}
	q.idles = append(q.idles, idle{k, held, q.n.idleQuote(q.t, a, held)})
	return q.idles[len(q.idles)-1].quote
}

// home finds the agent in whose line the task would stand, as Node.home does. Nobody who waits there but is
// at home elsewhere stands before it.
func (q *inquiry) home() {
	c, p := &q.n.crowd, &q.t.msg.Prompt
	clear(q.commons)
	q.candidates = q.candidates[:0]
	for i := range q.sights {
		k := q.sights[i].seat
		a := c.stands[k].agent
		own := a.cache.BeyondAt(p, q.depths[a.place], q.common(a.model),
			a.line().Tokens(p.Tokens))
		if own < 2*max(1, a.reg.BlockSize) {
			own = 0
		}
		q.candidates = append(q.candidates, line.Candidate{Agent: k, Held: own,
			Load: c.board.Homes(k) + len(a.holds)})
	}
	if k := line.Home(q.candidates); k >= 0 {
		c.stands[k].guests = 0
	}
}

// common is how many prefixes of the prompt most agents of a model hold: see Node.common.
func (q *inquiry) common(model string) int32 {
	prefixes, ok := q.commons[model]
	if !ok && model == q.first && len(q.ofFirst) > 0 {
		prefixes = prefix.Common(q.ofFirst)
		q.commons[model] = prefixes
	} else if !ok {
		q.ofModel = q.ofModel[:0]
		for _, a := range q.n.roster {
			if a.joined && a.model == model {
				q.ofModel = append(q.ofModel, q.depths[a.place])
			}
		}
		prefixes = prefix.Common(q.ofModel)
		q.commons[model] = prefixes
	}
	return prefixes
}

// saw reports whether an agent with a free slot, in front of whom nobody stands, is as one that was looked
// at. It is forecast by line. Where others may be as it is, its kind is returned, too.
func (q *inquiry) saw(seat int, line predict.Line, held held, beside market.Credits) (*kind, bool) {
	c := &q.n.crowd
	s := &c.stands[seat]
	a := s.agent
	if a.kind == nil || a.kind.line != line || s.room == 0 || q.before(seat) > 0 {
		return nil, false
	}
	last := &q.last[uint(a.kind.id+17*s.room+37*s.running+held.cached>>4)%uint(len(q.last))]
	if i := int(*last); i < len(q.sights) {
		y := &q.sights[i]
		o := &c.stands[y.seat]
		b := o.agent
		if y.kind == a.kind && y.held == held && y.beside == beside && b.fastest == a.fastest &&
			o.room == s.room && o.running == s.running && b.stuck == a.stuck && o.backlog == s.backlog &&
			q.kept(o) == q.kept(s) && (q.others == 0 && !q.kept(s) || b.slotPrice == a.slotPrice) &&
			slices.Equal(a.tiers, b.tiers) {
			return a.kind, true
		}
	}
	*last = int32(len(q.sights))
	return a.kind, false
}

// kept reports whether what an agent has free is kept for those who rest: see Node.offers.
func (q *inquiry) kept(s *stand) bool {
	return q.rest && s.room > 0 && q.n.offers(s.agent, s.room) == 0
}

// before is how many stand before the task at an agent.
func (q *inquiry) before(seat int) int {
	c := &q.n.crowd
	return c.board.Len(seat) + c.stands[seat].guests
}

// weigh adds what an agent offers: a slot that is free, and one that will be, where those who came before
// take what is free. What a regime draws for each task anew nobody can say beforehand: of its tolls this has
// what does not depend on that.
func (q *inquiry) weigh(x *sight) {
	n, c := q.n, &q.n.crowd
	s := &c.stands[x.seat]
	a := s.agent
	x.load = c.tolls.Computed(x.quote.computes - q.fastest[a.fastest])
	saved := a.saves(x.quote.prompt, x.quote.forecast.Output, x.quote.cost)
	toll := x.load + x.beside + n.toll(0, 0, 0, saved) - n.cfg.Fee
	if s.room > 0 {
		now := toll + c.tolls.Ahead(c.board.Ahead(x.seat, s.room, q.t.account.number, 0, false))
		if n.cfg.Tiers {
			now += market.TierAt(a.tiers, a.slots-a.idle()).Toll
		}
		price, wait := market.Credits(0), time.Duration(0)
		if q.kept(s) { // all who wait compete for it, once their rest is over
			price, wait = a.slotPrice, max(0, n.batch.Rested().Sub(n.now))
		} else if q.others > 0 {
			price = a.slotPrice
		}
		q.add(x, wait, price, now)
	}
	if q.before(x.seat) < s.room || s.room > 0 && !q.waits() {
		return
	}
	if wait, ok := n.turn(int32(x.seat)); ok {
		price, _ := n.priceOf(a, len(a.prices)-1)
		q.add(x, line.Stretch(wait, 0), price, toll+s.charge)
	}
}

// add keeps of each model the slot that is worth most on the usual terms, of equals the first.
func (q *inquiry) add(s *sight, wait time.Duration, price, toll market.Credits) {
	n, t, a := q.n, q.t, q.n.crowd.stands[s.seat].agent
	x := prize{agent: a, quote: &s.quote, wait: wait, price: price, toll: toll,
		ttft: min(line.Far, wait+s.ttft-min(wait, s.queue))}
	y := &s.quote
	net := func(terms *market.Judged, most market.Credits) market.Credits {
		value := terms.Value(market.Quote{TTFT: x.ttft, Cost: y.cost, Quality: y.quality})
		return min(value, y.room(most)) - y.cost + toll - price
	}
	x.net = net(t.usually(), t.usual.Cap())
	x.wins = net(t.stated(), t.terms.Cap()) >= 0 && x.ttft-s.early <= t.deadline.Sub(n.now)
	i, ok := slices.BinarySearchFunc(q.models, a.model,
		func(p prize, model string) int { return cmp.Compare(p.agent.reg.Model, model) })
	if !ok {
		q.models = slices.Insert(q.models, i, x)
		return
	}
	best := &q.models[i]
	wins := best.wins || x.wins
	if x.net > best.net {
		*best = x
	}
	best.wins = wins
}

// quote says it.
func (q *inquiry) quote() *bus.HubQuote {
	slices.SortStableFunc(q.models, func(a, b prize) int { return cmp.Compare(b.net, a.net) })
	out := q.head()
	for i := range q.models[:min(len(q.models), bus.MaxQuoteModels)] {
		x := &q.models[i]
		out.Models = append(out.Models, bus.ModelQuote{
			Model: x.agent.reg.Model, TTFTMS: millis(x.ttft), WaitMS: millis(x.wait), Cost: x.quote.cost,
			Premium: min(x.price-x.toll, market.MaxCredits), SlotPrice: x.price,
			CachedShare: float64(x.quote.features.Cached) / float64(max(1, x.quote.prompt)),
			Quality:     x.agent.quality(q.t.msg.Domain), WouldWin: x.wins,
		})
	}
	return out
}

// millis says a time in milliseconds; of more than a day, a day.
func millis(d time.Duration) float64 {
	return float64(min(d.Microseconds(), 1000*bus.MaxPatient)) / 1000
}
