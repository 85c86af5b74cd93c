package meeting

import (
	"slices"
	"sync"
	"time"

	"souk/bus"
	"souk/hub/admission"
	"souk/hub/estimate"
	"souk/hub/fleet"
	"souk/hub/forecast"
	"souk/hub/policy"
	"souk/hub/predict"
	"souk/hub/round"
	"souk/hub/status"
	"souk/hub/turn"
	"souk/ledger"
	"souk/market"
)

// Round holds the round at hand, and the memory for the next one.
type Round struct {
	Tasks   []*Task  // that wait, by arrival
	Agents  []*Agent // that take tasks, now or as soon as they have a slot, by id
	From    estimate.Snapshot
	Waiters []estimate.Waiter // the tasks
	Plan    round.Plan

	Sheet  forecast.Sheet // what the tasks would have of the agents
	prices round.Prices
}

const (
	// mostTasks and maxPairs bound the tasks of a round, and the pairs that it weighs, 40 MB.
	mostTasks = 2048
	maxPairs  = 1 << 19
)

// Open finds out which agents take tasks, and what a round reads of each.
func (r *Room) Open() {
	r.Agents = r.Agents[:0]
	r.Sheet.Set()
	r.prices = round.Prices{Rates: r.turn.Book.Rates(), Kept: &r.Kept, Shares: &r.Shares,
		Seats: func(k int) *[]int64 { return &r.Agents[k].Seats }}
	r.fleet.Snapshot(&r.From, r.turn.Now(), r.turn.Nano(), func(a *Agent) {
		r.Agents = append(r.Agents, a)
		r.Sheet.Add(r.forecasts, &a.Forecast, a.Besides())
	})
}

// Take has the round be of these tasks, by arrival, on terms as of now, but for those that are too many.
func (r *Room) Take(tasks []*Task) (out []*Task) {
	r.Tasks, out = round.Fit(tasks, func(t *Task) string { return t.Client },
		min(mostTasks, maxPairs/max(1, len(r.Agents))))
	r.Agree(r.Tasks)
	return out
}

// Meet finds out what every task would have of every agent that may serve it.
func (r *Room) Meet() {
	r.Waiters = r.Waiters[:0]
	r.Sheet.Clear(len(r.Tasks))
	for _, t := range r.Tasks {
		r.Waiters = append(r.Waiters, r.waiter(t, r.offers(t)))
	}
}

func (r *Room) waiter(t *Task, offers []estimate.Offer) estimate.Waiter {
	now := r.turn.Now()
	return estimate.Waiter{ID: t.Name, Client: t.Client, Terms: t.Stated(), Most: t.Most,
		First: t.Second(0), Second: t.Second(t.InLine(now)), Waited: t.Waited(now), InLine: t.InLine(now),
		Left: t.Deadline.Sub(now), Rounds: t.Rounds, Offers: offers}
}

// offers returns what a task would have in time of each agent.
func (r *Room) offers(t *Task) []estimate.Offer {
	left := t.Deadline.Sub(r.turn.Now())
	return r.Sheet.Offers(r.forecasts, r.turn.Nano(), &t.Asks, func(o *estimate.Offer) bool {
		short := o.Half > left
		t.Short = t.Short || short
		return !short
	})
}

// Best returns the offer at which a task is worth most beyond its cost, among the agents of the round,
// whatever policies say; nil where none may serve it in time. alone: nothing else is kept of the round.
func (r *Room) Best(t *Task, alone bool) *estimate.Offer {
	if alone {
		r.Sheet.Clear(0)
	}
	w := r.waiter(t, r.offers(t))
	return round.Best(&w)
}

// Judge has policies judge what may meet, and marks whom they keep from an agent.
func (r *Room) Judge(by *policy.Room) {
	for _, i := range by.Judge(&r.From, r.Waiters, func(i int) (policy.Asker, bool) {
		t := r.Tasks[i]
		return policy.Asker{Session: t.Asks.Source.Session, Role: t.Msg.RoleKey(),
			Since: t.Arrived}, !t.Own()
	}, func(k int) policy.Agent {
		a := r.Agents[k].Reg()
		return policy.Agent{Split: slices.Contains(a.Features, bus.Split),
			Second: r.Agents[k].Forecast.Second(a.Price)}
	}) {
		r.Tasks[i].Barred = true
	}
}

// Build makes the round: see [round.Plan.Build].
func (r *Room) Build() []round.Why {
	last, prev := r.turn.Book.LastRound()
	head := market.Round{Domain: r.cfg.Domain, Number: last + 1, Prev: prev, Rule: r.cfg.Rule.Rule,
		Fee: r.cfg.Fee}
	if p := r.cfg.Rule.Pricing; p == market.PricingTariff ||
		p == market.PricingPosted && len(r.cfg.Rule.Tariffs) > 0 {
		for _, a := range r.Agents {
			head.Sellers = append(head.Sellers, a.Seller())
		}
	}
	return r.Plan.Build(head, &r.From, r.Waiters, r.prices)
}

// Record returns a cleared round as it is recorded, but for what was charged.
func (r *Room) Record(c *round.Cleared) ledger.Record {
	rec := ledger.NewRound(r.cfg.Journal, *c.Round, c.Outcome, r.turn.Salt())
	rec.Round.Ground = c.Ground
	rec.Round.Seen = c.Seen(r.turn.Nano(), r.Waiters, func(now int64, o *estimate.Offer) ledger.Seen {
		a := r.Agents[o.Agent]
		return a.Forecast.Seen(o.Estimate, a.Backlog(now))
	})
	rec.Round.Waited = c.Waited(r.Waiters, func(k int32) string { return r.Tasks[k].Planned })
	return rec
}

// Refuse notes that a task had waited until it was worth less than it cost, at each agent of the round to
// which it might have gone.
func (r *Room) Refuse(t *Task) {
	var there []market.AgentID
	for _, a := range r.Agents {
		if r.forecasts.Goes(&t.Asks, &a.Forecast) {
			there = append(there, market.AgentID(a.ID()))
		}
	}
	r.Kept.Refuse(r.turn.Nano(), t.Client, there)
}

// Gain is the most that a task would be worth beyond cost and fee: where best is, of agents that take tasks
// now, or at one that takes none and may again: it is left alone for a moment, as it refused one, or has no
// engine that answers, or is silent. any: there is an agent that may take it.
func (r *Room) Gain(t *Task, best *estimate.Offer) (gain market.Credits, any bool) {
	most := -market.MaxCredits
	if best != nil {
		most = best.Bare()
	}
	if most >= r.cfg.Fee {
		return most - r.cfg.Fee, true
	}
	for _, a := range r.fleet.All() {
		if returns, left := a.Returns(r.turn.Nano()); returns && r.forecasts.Goes(&t.Asks, &a.Forecast) {
			e := r.forecasts.At(r.turn.Nano(), &t.Asks, &a.Forecast)
			in := t.Waited(r.turn.Now()) + left + e.First
			most = max(most, e.Value(t.Stated(), in, t.Most)-e.Cost)
		}
	}
	return most - r.cfg.Fee, most != -market.MaxCredits
}

// Blocked reports whether a task that waits is kept waiting by others: one that could have a slot, and finds
// that dear, is not, whatever it offers. idle is how long its first token would take on an idle agent: where
// it is planned for, or on the first that serves it; 0 where none does.
func (r *Room) Blocked(t *Task) (idle time.Duration, blocked bool) {
	var at *Agent
	for _, a := range r.fleet.All() {
		free := a.Vacant(r.turn.Nano()) > 0
		if at != nil && a.ID() != t.Planned && !free || !a.Open(r.turn.Nano()) ||
			!r.forecasts.Goes(&t.Asks, &a.Forecast) {
			continue
		}
		if free {
			return 0, false
		}
		if at == nil || a.ID() == t.Planned {
			at = a
		}
	}
	if at != nil {
		idle = r.forecasts.At(r.turn.Nano(), &t.Asks, &at.Forecast).First
	}
	return idle, true
}

// aside is a copy of a room, with a clock and a memory for rounds of its own.
type aside struct {
	Room
	clock turn.Turn
}

var asides = sync.Pool{New: func() any { return new(aside) }}

// Aside calls with for a copy of the room at another time, which is thrown away: what was remembered of
// rounds is read, and nothing is looked up by what would remember who asked.
func (r *Room) Aside(now time.Time, with func(own *Room, now time.Time)) {
	own := asides.Get().(*aside)
	memory := own.Round
	own.Room, own.clock = *r, *r.turn
	own.turn, own.Round, own.forecasts = &own.clock, memory, r.forecasts.ForAQuote()
	own.clock.Passed = nil // caches are as they were
	own.clock.Advance(now)
	with(&own.Room, own.clock.Now())
	asides.Put(own)
}

// Quote says what a task would be given now, by model, where so many wait: the seats that the last plan left,
// those that are free and those to come, at the slot prices of that plan; or why it would be given nothing.
func (r *Room) Quote(t *Task, waiting int) (all []bus.ModelQuote, no *bus.Result) {
	r.Open()
	q := round.Inquiry{Task: r.waiter(t, nil), Usual: t.Usually(), UsualMost: t.Bid.Usual.Cap(),
		Fee: r.cfg.Fee, Waiting: waiting}
	q.Task.Most = t.Terms.Cap()
	x := admission.NewSurvey(&t.Bid, r.cfg.Fee, false)
	r.Plan.Ask(&q, &r.From, r.prices)
	model := func(k int32) string { return r.Agents[k].Reg().Model }
	r.Sheet.Ask(r.forecasts, r.turn.Nano(), &t.Asks, x.May,
		func(o *estimate.Offer) { r.Plan.Offer(&q, o, model) })
	if no = x.OutOfReach(r.turn, t.Msg); no != nil {
		return nil, no
	}
	for _, x := range r.Plan.Quotes(bus.MaxQuoteModels) {
		all = append(all, bus.ModelQuote{
			Model: x.Model, Price: r.charge(t, &x),
			// what is rounded away would tell of others' prompts
			TTFTMS: Millis(fleet.Nearly(x.TTFT)), WaitMS: Millis(fleet.Nearly(x.Wait)),
			Cost:    x.Cost,
			Premium: min(x.Price+x.Charge, market.MaxCredits), SlotPrice: x.Price,
			CachedShare: float64(x.Cached) / float64(max(1, x.Prompt)),
			Quality:     x.Quality, WouldWin: x.Wins,
		})
	}
	if len(all) == 0 {
		no = r.turn.Refusal(t.Msg, bus.CodeNoRoom, time.Second,
			"no agent of hub %s that serves it takes tasks right now", r.cfg.Domain)
	}
	return all, no
}

// charge is the task's, in money. Cached of its prompt is what the asker's own cache group has there.
func (r *Room) charge(t *Task, x *round.Quote) bus.QuotePrice {
	e := x.Estimate
	value := t.Stated().Value(e.Quote(fleet.Nearly(x.TTFT)))
	c := bus.QuotePrice{
		Min:      r.Sheet.Classes[x.Agent].Cost(e.Prompt, e.Cached, min(1, e.Output)) + r.cfg.Fee,
		Expected: e.Cost + x.Price + x.Charge,
		Max:      market.Reserve(e.Worst, value, e.Cost, t.Terms.Cap()),
	}
	if r.cfg.Settle == market.SettleQuoted { // whatever it turns out to use
		c.Min = e.Cost + r.cfg.Fee
	}
	if c.Max = max(c.Max, c.Expected, c.Min); x.Wins { // perhaps elsewhere: it pays no more
		c.Max = min(c.Max, t.Terms.Cap())
	}
	c.Max = min(c.Max, market.MaxCredits)
	c.Min = min(c.Min, c.Max)
	c.Expected = min(max(c.Expected, c.Min), c.Max)
	return c
}

// Millis says a time in milliseconds; of more than a day, a day.
func Millis(d time.Duration) float64 {
	return float64(min(d.Microseconds(), 1000*bus.MaxPatient)) / 1000
}

// Second returns what a second of an agent's slot costs now.
func (r *Room) Second(a *Agent) market.Credits {
	at := r.turn.Nano() / int64(time.Millisecond)
	return r.turn.Book.Rates().Of(market.AgentID(a.ID()), at).PriceAt(at)
}

// Tell adds to what a hub says what there is to say of its agents.
func (r *Room) Tell(s *bus.Status) {
	var line predict.Line
	var ttft int64 // of an agent that is forecast by it
	for _, a := range r.fleet.All() {
		if !a.Joined() {
			continue
		}
		if by := a.Forecast.Line(); s.Agents == 0 || by != line {
			line, ttft = by, a.Forecast.First(forecast.Typical).Microseconds()
		}
		rated, _ := a.Forecast.Answers.Rated()
		status.Add(s, a.Reg().Slots, bus.ModelStatus{Model: a.Reg().Model, Pools: a.Reg().Pools, Agents: 1,
			Free: a.Vacant(r.turn.Nano()), Quality: rated[0], Price: a.Reg().Price, TTFTUS: ttft,
			// of one that is kept as long as most
			SlotPrice:   market.PerSecond(r.Second(a), a.Usual()),
			MaxModelLen: a.Reg().MaxModelLen, Cards: bus.Cards{Least: a.Reg().Price, Most: a.Reg().Price}})
	}
}
