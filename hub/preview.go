package hub

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"souk/bus"
	"souk/hub/admission"
	"souk/hub/estimate"
	"souk/hub/fleet"
	"souk/hub/round"
	"souk/market"
)

// Quote says what a task would be given if it came now, and changes nothing. The task is as a door sends it;
// it need not have an id, nor its client any money. It is offered what the last plan left: seats that are
// free, and those to come, at the slot prices of that plan.
func (n *Node) Quote(now time.Time, m *bus.Task) *bus.HubQuote {
	own, copied := quotes.Get().(*meeting), *m
	defer quotes.Put(own)
	memory := own.round
	*own = n.meeting
	own.round, own.forecasts, own.turn.Passed = memory, own.forecasts.ForAQuote(), nil // it changes no cache
	own.turn.Advance(now)
	p := preview{hub: n, n: own,
		t: own.newTask(admission.New(m.Client, m.ID, [16]byte{}, 0), own.turn.Now())}
	no := p.read(&copied)
	if no == nil {
		no = p.look()
	}
	if no == nil && len(p.models) == 0 {
		no = own.turn.Refusal(m, bus.CodeNoRoom, time.Second,
			"no agent of hub %s that serves it takes tasks right now", own.cfg.Domain)
	}
	last, _ := own.turn.Book.LastRound()
	out := &bus.HubQuote{Hub: own.cfg.Domain, Round: last, ValidMS: own.cfg.StatusEvery.Milliseconds()}
	if no != nil {
		out.Code, out.Message, out.RetryMS = no.Code, no.Message, no.RetryMS
		return out
	}
	out.Models = p.quote()
	return out
}

var quotes = sync.Pool{New: func() any { return new(meeting) }}

// preview is a client's question what a task would be given now. Its meeting is a copy that is thrown away,
// with a clock and a memory for rounds of its own; what tasks, agents and indexes remember of rounds is read,
// and nothing is looked up by what would remember who asked.
type preview struct {
	hub    *Node // to be read
	n      *meeting
	t      *task
	asks   round.Inquiry
	models []round.Quote // by model
}

// read judges the task as admit does, limits of its client and money aside.
func (p *preview) read(m *bus.Task) *bus.Result {
	n, t := p.n, p.t
	err := m.Validate()
	switch {
	case !n.turn.Leading:
		return n.turn.Refusal(m, bus.CodeUnavailable, time.Second, "hub %s does not lead its domain", n.cfg.Domain)
	case err != nil:
		return n.turn.Refusal(m, codeOr(err, bus.CodeBadRequest), 0, "%s", bus.MessageOf(err))
	case !bus.ValidID(m.Client):
		return n.turn.Refusal(m, bus.CodeBadRequest, 0, "a quote needs the id of its client, not %q", m.Client)
	case m.Resume != nil:
		return n.turn.Refusal(m, bus.CodeBadRequest, 0, "resume: a quote is for a task as it begins")
	case m.Prompt.Tokens <= 0:
		return n.turn.Refusal(m, bus.CodeEmptyPrompt, 0, "the prompt is empty")
	}
	n.read(t, m)
	return p.hub.judge(n, t, false)
}

// look quotes the task on every open agent that serves it, or says why there is none.
func (p *preview) look() *bus.Result {
	n, t, s := p.n, p.t, &p.n.round
	n.snapshot()
	p.asks = round.Inquiry{Task: n.waiter(t, nil), Usual: t.Usually(), UsualMost: t.UsualCap(),
		Fee: n.cfg.Fee, Waiting: p.hub.queue.Waiting()}
	p.asks.Task.Most = t.Cap()
	s.plan.Ask(&p.asks, &s.from, s.prices)
	x := admission.NewSurvey(&t.Bid, n.cfg.Fee, false)
	n.reach(t, &x, nil)
	s.sheet.Clear()
	s.held = s.held[:0]
	for _, a := range s.agents {
		s.held = append(s.held, s.depths[a.place])
	}
	n.reaches(t, p.offer)
	return x.OutOfReach(&n.turn, t.Msg)
}

// offer takes of the agents of each model the seat that is worth most on the usual terms.
func (p *preview) offer(o *estimate.Offer) {
	q, ok := p.n.round.plan.Quote(&p.asks, o)
	if !ok {
		return
	}
	at, known := slices.BinarySearchFunc(p.models, p.n.round.agents[q.Agent].Reg().Model,
		func(x round.Quote, model string) int {
			return cmp.Compare(p.n.round.agents[x.Agent].Reg().Model, model)
		})
	if !known {
		p.models = slices.Insert(p.models, at, q)
		return
	}
	best := &p.models[at]
	wins := best.Wins || q.Wins
	if q.Net > best.Net {
		*best = q
	}
	best.Wins = wins
}

// quote says it, by model.
func (p *preview) quote() (all []bus.ModelQuote) {
	slices.SortStableFunc(p.models, func(a, b round.Quote) int { return cmp.Compare(b.Net, a.Net) })
	for i := range p.models[:min(len(p.models), bus.MaxQuoteModels)] {
		x := &p.models[i]
		all = append(all, bus.ModelQuote{
			Model: p.n.round.agents[x.Agent].Reg().Model, Price: p.charge(x),
			// what is rounded away would tell of others' prompts
			TTFTMS: millis(fleet.Nearly(x.TTFT)), WaitMS: millis(fleet.Nearly(x.Wait)),
			Cost:    x.Cost,
			Premium: min(x.Price+x.Charge, market.MaxCredits), SlotPrice: x.Price,
			CachedShare: float64(x.Cached) / float64(max(1, x.Prompt)),
			Quality:     x.Quality, WouldWin: x.Wins,
		})
	}
	return all
}

// charge returns the task's charge in money. The cached part of its prompt is what the asker's own
// cache group has there.
func (p *preview) charge(x *round.Quote) bus.QuotePrice {
	n, e := p.n, x.Estimate
	value := p.t.Stated().Value(e.Quote(fleet.Nearly(x.TTFT)))
	c := bus.QuotePrice{
		Min:      n.class(p.n.round.agents[x.Agent]).Cost(e.Prompt, e.Cached, min(1, e.Output)) + n.cfg.Fee,
		Expected: e.Cost + x.Price + x.Charge,
		Max:      market.Reserve(e.Worst, value, e.Cost, p.t.Cap()),
	}
	if n.cfg.Settle == market.SettleQuoted { // whatever it turns out to use
		c.Min = e.Cost + n.cfg.Fee
	}
	if c.Max = max(c.Max, c.Expected, c.Min); x.Wins { // perhaps elsewhere: it pays no more
		c.Max = min(c.Max, p.t.Cap())
	}
	c.Max = min(c.Max, market.MaxCredits)
	c.Min = min(c.Min, c.Max)
	c.Expected = min(max(c.Expected, c.Min), c.Max)
	return c
}

// millis says a time in milliseconds; of more than a day, a day.
func millis(d time.Duration) float64 {
	return float64(min(d.Microseconds(), 1000*bus.MaxPatient)) / 1000
}
