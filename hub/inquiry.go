package hub

import (
	"cmp"
	"slices"
	"time"

	"souk/bus"
	"souk/hub/line"
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
	usual  market.Terms // of such a task that comes without terms
	others int          // tasks that would be in the round

	// memory that the next one uses again
	depths  []int32 // how many marks of the prompt are held, by the place of an agent
	seats   []int32 // of agents in open, counted from 1, by their places
	open    []*agent
	sights  []sight
	board   line.Board
	ends    line.Ends
	fastest map[*fastest]time.Duration
	models  []prize // by model
}

// sight is an open agent that serves the task, as it would find it.
type sight struct {
	prospect
	agent      *agent
	seat, free int
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
	own.advance(now)
	q := n.inquiry
	q.n, q.t = &own, &task{key: taskKey{m.Client, m.ID}, arrived: own.now}
	defer func() { q.n, q.t = nil, nil }()
	if no := q.read(&copied); no != nil {
		return q.refuse(no)
	}
	q.lineUp()
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
		return n.refusal(m, codeOr(err, bus.CodeBadRequest), 0, "%s", messageOf(err))
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
	if no := n.judgeHub(t, n.purses[m.Client]); no != nil {
		return no
	}
	terms := m.Terms
	m.Terms = bus.Terms{}
	if err = n.setTerms(t); err == nil {
		q.usual, m.Terms = t.terms, terms
		err = n.setTerms(t)
	}
	if err != nil {
		return n.refusal(m, bus.CodeBadTerms, 0, "%v", err)
	}
	return nil
}

// lineUp finds out who would be in the round, and the pressure on all, as Node.lineUp does. While a slot is
// free these are the tasks that came since the last round; else all who wait will be. Whom no round has
// looked at stands in nobody's line yet.
func (q *inquiry) lineUp() {
	n, c := q.n, &q.n.crowd
	q.depths = n.prefixes.Depths(q.depths, q.t.msg.Prompt.Marks)
	q.seats = append(q.seats[:0], make([]int32, len(q.depths))...)
	q.open = q.open[:0]
	slots, free := 0, 0
	for _, a := range n.roster {
		if a.open(n) {
			q.open = append(q.open, a)
			q.seats[a.belief.Place()] = int32(len(q.open))
			slots, free = slots+a.slots, free+a.free(n)
		}
	}
	number, clients := c.numbers+1, c.clients+1
	if p := n.purses[q.t.key.client]; p != nil {
		if number = p.number; p.open > 0 {
			clients--
		}
	}
	q.others = 0
	q.board.Reset(len(q.open), line.Share(slots, clients))
	for t := range n.batch.Waiting(free == 0) {
		home := -1
		if t.home != nil {
			home = q.seat(t.home)
		}
		q.others++
		q.board.Join(home, n.purses[t.key.client].number, n.now.Sub(t.arrived))
	}
	q.board.Join(-1, number, 0)
	c.tolls = line.Tolls{Params: n.cfg.Crowd, Worth: c.worths.Peek(n.now),
		Pressure: c.pressure.Add(n.now, q.board.Waiting(), free, slots)}
}

// seat is where an agent stands among those that are open; -1 where it is none of them.
func (q *inquiry) seat(a *agent) int {
	place := a.belief.Place() // which has another agent, where this one is forgotten
	if place >= len(q.seats) {
		return -1
	}
	if k := int(q.seats[place]) - 1; k >= 0 && q.open[k] == a {
		return k
	}
	return -1
}

// look quotes the task on every open agent that serves it, or says why there is none.
func (q *inquiry) look() *bus.Result {
	n, t, could := q.n, q.t, reach{}
	q.sights, q.models = q.sights[:0], q.models[:0]
	clear(q.fastest)
	for _, a := range n.roster {
		if !could.serves(t, a) {
			continue
		}
		held := a.expectAt(&t.msg.Prompt, q.depths[a.belief.Place()])
		if !a.takes(held.tokens) {
			continue
		}
		could.fitting++
		seat := q.seat(a)
		if seat < 0 {
			continue
		}
		s := sight{agent: a, seat: seat, free: a.free(n)}
		s.running = min(len(a.holds), max(0, a.slots-1))
		if q.saw(&s, held) {
			continue
		}
		s.quote = n.quote(t, a, s.running, held)
		s.ttft = s.quote.forecast.TTFT
		s.service = n.service(a, s.ttft, s.quote.forecast.Output)
		if least, ok := q.fastest[a.fastest]; !ok || s.service < least {
			q.fastest[a.fastest] = s.service
		}
		q.sights = append(q.sights, s)
	}
	return n.outOfReach(t, &could)
}

// saw reports whether an agent with a free slot, in front of whom nobody stands, is as one of the last that
// were looked at.
func (q *inquiry) saw(s *sight, held held) bool {
	a := s.agent
	if a.kind == nil || a.kind.line != a.predictor.Line() || s.free == 0 || q.board.Len(s.seat) > 0 {
		return false
	}
	for i := len(q.sights) - 1; i >= max(0, len(q.sights)-mostMet); i-- {
		x := &q.sights[i]
		b := x.agent
		if b.kind == a.kind && b.kind.line == b.predictor.Line() && q.board.Len(x.seat) == 0 &&
			x.free == s.free && x.running == s.running && b.fastest == a.fastest &&
			(q.others == 0 || b.slotPrice == a.slotPrice) && x.quote.prompt == held.tokens &&
			x.quote.features.Cached == held.cached && slices.Equal(a.tiers, b.tiers) {
			return true
		}
	}
	return false
}

// weigh adds what an agent offers: a slot that is free, and one that will be, where those who came before
// take what is free. What a regime draws for each task anew nobody can say beforehand: of its tolls this has
// what does not depend on that.
func (q *inquiry) weigh(s *sight) {
	n, a, c := q.n, s.agent, &q.n.crowd
	toll := n.crowding(a, &s.prospect, q.fastest[a.fastest]).Sum() +
		n.cfg.Regime.Toll(0, 0, 0, s.quote.saved(a)) - n.cfg.Fee
	if s.free > 0 {
		now := toll + c.tolls.Ahead(q.board.Ahead(s.seat, s.free, 0, false))
		if n.cfg.Tiers {
			now += market.TierAt(a.tiers, a.slots-s.free).Toll
		}
		price := market.Credits(0)
		if q.others > 0 {
			price = a.slotPrice
		}
		q.add(s, 0, price, now)
	}
	waits := n.cfg.Crowd.Waiting && n.cfg.Pricing != market.PricingPosted
	if q.board.Len(s.seat) < s.free || s.free > 0 && !waits {
		return
	}
	q.ends.Reset()
	for _, h := range a.holds {
		q.ends.Add(n.service(a, h.ttft, h.rec.Output), n.now.Sub(h.sent))
	}
	q.ends.Done()
	wait, ok := q.ends.Wait(max(1, q.board.Len(s.seat)+1-s.free), 0)
	if !ok {
		return
	}
	if n.cfg.Tiers && len(a.tiers) > 0 {
		toll += a.tiers[len(a.tiers)-1].Toll
	}
	price, _ := n.priceBefore(a, q.t.since)
	q.add(s, wait, price, toll)
}

// add keeps of each model the slot that is worth most on the usual terms, of equals the first.
func (q *inquiry) add(s *sight, wait time.Duration, price, toll market.Credits) {
	n, t := q.n, q.t
	x := prize{agent: s.agent, quote: &s.quote, wait: wait, ttft: min(line.Far, wait+s.ttft), price: price,
		toll: toll}
	net := func(terms market.Terms) market.Credits {
		y := s.quote
		y.value = terms.Value(market.Quote{TTFT: x.ttft, Cost: y.cost,
			Quality: s.agent.quality(t.msg.Domain)})
		return y.within(terms.Cap()) - y.cost + toll - price
	}
	x.net = net(q.usual)
	x.wins = net(t.terms) >= 0 && x.ttft <= t.deadline.Sub(n.now)
	i, ok := slices.BinarySearchFunc(q.models, s.agent.reg.Model,
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
