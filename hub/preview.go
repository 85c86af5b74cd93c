package hub

import (
	"cmp"
	"slices"
	"time"

	"souk/bus"
	"souk/hub/round"
	"souk/market"
)

// Quote says what a task would be given if it came now, and changes nothing. The task is as a door sends it;
// it need not have an id, nor its client any money. It is offered what the last plan left: seats that are
// free, and those to come, at the slot prices of that plan.
func (n *Node) Quote(now time.Time, m *bus.Task) *bus.HubQuote {
	own, copied := *n, *m
	own.setClock(now) // caches are as they were: a quote changes nothing
	own.round = scratch{}
	p := preview{n: &own, t: &task{key: taskKey{m.Client, m.ID}, arrived: own.now}}
	if no := p.read(&copied); no != nil {
		return p.refuse(no)
	}
	if no := p.look(); no != nil {
		return p.refuse(no)
	}
	if len(p.models) == 0 {
		return p.refuse(own.refusal(m, bus.CodeNoRoom, time.Second,
			"no agent of hub %s that serves it takes tasks right now", own.cfg.Domain))
	}
	return p.quote()
}

// preview is a client's question what a task would be given now. Its Node is a copy that is thrown away, with
// a clock and a memory for rounds of its own; what tasks, agents and indexes remember of rounds is read, and
// nothing is looked up by what would remember who asked.
type preview struct {
	n      *Node
	t      *task
	quotes []previewed
	models []prize // by model
}

// previewed is what the task is quoted on agents of a kind that hold so much of its prompt.
type previewed struct {
	kind  *kind
	held  held
	quote quote
}

// prize is what a task would have of a seat of an agent.
type prize struct {
	agent *agent
	quote *quote
	wait  time.Duration // for the slot
	ttft  time.Duration // with that
	price market.Credits
	toll  market.Credits // what of it is charged, and the fee; at least 0
	net   market.Credits // on the usual terms
	wins  bool           // on its own, by any agent of the model
}

// refuse is a quote of nothing.
func (p *preview) refuse(no *bus.Result) *bus.HubQuote {
	out := p.head()
	out.Code, out.Message, out.RetryMS = no.Code, no.Message, no.RetryMS
	return out
}

func (p *preview) head() *bus.HubQuote {
	last, _ := p.n.book.LastRound()
	return &bus.HubQuote{Hub: p.n.cfg.Domain, Round: last, ValidMS: p.n.cfg.StatusEvery.Milliseconds()}
}

// read judges the task as admit does, limits of its client and money aside.
func (p *preview) read(m *bus.Task) *bus.Result {
	n, t := p.n, p.t
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

// look quotes the task on every open agent that serves it, or says why there is none.
func (p *preview) look() *bus.Result {
	n, t, could := p.n, p.t, reach{}
	s := &n.round
	s.depths = n.prefixes.Depths(nil, t.msg.Prompt.Prefixes)
	n.standUp()
	for k, a := range s.agents { // how long others' prompts take tells how much of them is cached
		s.sides[k].Ahead, s.loads[k] = 0, n.besides(a)
	}
	round.Seat(s.sides, n.batch.All()+1)
	tolls := round.NewTolls(n.nano, s.sides)
	run := make([]int, len(s.agents))
	for k, a := range s.agents {
		for _, h := range a.holds {
			if h.rec.Client == t.key.client {
				run[k]++
			}
		}
	}
	charged := tolls.Without(t.key.client, run)
	for _, a := range n.roster {
		if !could.serves(t, a) {
			continue
		}
		held := a.expectAt(&t.msg.Prompt, s.depths[a.place])
		if !a.takes(held.tokens) {
			continue
		}
		could.fitting++
		if int(a.place) < len(s.at) && s.at[a.place] > 0 {
			p.offer(int(s.at[a.place])-1, p.of(a, held), &charged)
		}
	}
	return n.outOfReach(t, &could)
}

// of is what the task is quoted on an agent, as one of the last may have been.
func (p *preview) of(a *agent, held held) *quote {
	for i := len(p.quotes) - 1; i >= 0 && a.kind != nil && a.kind.line == a.line(); i-- {
		if x := &p.quotes[i]; x.kind == a.kind && x.held == held {
			return &x.quote
		}
	}
	if len(p.quotes) == cap(p.quotes) { // prizes keep the quotes that they are of
		p.quotes = make([]previewed, 0, 16)
	}
	p.quotes = append(p.quotes, previewed{a.kind, held, p.n.idleQuote(p.t, a, held)})
	return &p.quotes[len(p.quotes)-1].quote
}

// offer takes of an agent the seat that is worth most on the usual terms. Those who wait take the seats that
// are sooner; who would come sooner than they pays the slot price.
func (p *preview) offer(k int, q *quote, tolls *round.Tolls) {
	n, t := p.n, p.t
	s := &n.round
	a, in := s.agents[k], s.loads[k]
	ttft := a.predictor.Later(q.first, q.work, in)
	first := max(0, ttft-in.Queue)
	early := ttft - a.predictor.Half(ttft)
	toll := tolls.Of(k, a.alike.Service(), q.computes) + n.cfg.Fee
	prices := a.seatPrices
	if n.batch.All() == 0 {
		prices = nil // of those who wanted a slot all have one
	}
	for i, seat := range s.sides[k].Seats {
		price := market.Credits(0)
		if i < len(prices) {
			price = prices[i]
		}
		x := prize{agent: a, quote: q, price: price, toll: toll, ttft: min(market.MaxIn, seat.In+first)}
		if seat.Later {
			x.wait = seat.In
		}
		net := func(terms *market.Judged, most market.Credits) market.Credits {
			value := terms.Value(market.Quote{TTFT: x.ttft, Cost: q.cost, Quality: q.quality})
			return min(value, q.room(most)) - q.cost - toll - price
		}
		x.net = net(t.usually(), t.usual.Cap())
		x.wins = net(t.stated(), t.terms.Cap()) >= 0 && x.ttft-early <= t.deadline.Sub(n.now)
		at, ok := slices.BinarySearchFunc(p.models, a.model,
			func(p prize, model string) int { return cmp.Compare(p.agent.reg.Model, model) })
		if !ok {
			p.models = slices.Insert(p.models, at, x)
			continue
		}
		best := &p.models[at]
		wins := best.wins || x.wins
		if x.net > best.net {
			*best = x
		}
		best.wins = wins
	}
}

// quote says it.
func (p *preview) quote() *bus.HubQuote {
	slices.SortStableFunc(p.models, func(a, b prize) int { return cmp.Compare(b.net, a.net) })
	out := p.head()
	for i := range p.models[:min(len(p.models), bus.MaxQuoteModels)] {
		x := &p.models[i]
		out.Models = append(out.Models, bus.ModelQuote{
			Model: x.agent.reg.Model, Price: p.charge(x), TTFTMS: millis(x.ttft), WaitMS: millis(x.wait),
			Cost:    x.quote.cost,
			Premium: min(x.price+x.toll, market.MaxCredits), SlotPrice: x.price,
			CachedShare: float64(x.quote.features.Cached) / float64(max(1, x.quote.prompt)),
			Quality:     x.agent.quality(p.t.msg.Domain), WouldWin: x.wins,
		})
	}
	return out
}

// charge is what the task would be charged in money. What of its prompt is cached is what the asker's own
// cache group has there.
func (p *preview) charge(x *prize) bus.QuotePrice {
	n, q, a := p.n, x.quote, x.agent
	value := p.t.stated().Value(market.Quote{TTFT: x.ttft, Cost: q.cost, Quality: q.quality})
	c := bus.QuotePrice{
		Min: a.price.Cost(market.Usage{Prompt: q.prompt, Cached: q.features.Cached,
			Output: min(1, q.output)}) + a.tariff + n.cfg.Fee,
		Expected: q.cost + x.price + x.toll,
		Max:      market.Reserve(q.worst(a), value, q.cost, p.t.terms.Cap()),
	}
	if n.cfg.Settle == market.SettleQuoted { // whatever it turns out to use
		c.Min = q.cost + n.cfg.Fee
	}
	c.Expected = min(max(c.Expected, c.Min), market.MaxCredits)
	c.Min, c.Max = min(c.Min, market.MaxCredits), min(max(c.Max, 0), market.MaxCredits)
	return c
}

// millis says a time in milliseconds; of more than a day, a day.
func millis(d time.Duration) float64 {
	return float64(min(d.Microseconds(), 1000*bus.MaxPatient)) / 1000
}
