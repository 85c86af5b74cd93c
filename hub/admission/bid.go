package admission

import (
	"time"

	"souk/bus"
	"souk/hub/estimate"
	"souk/market"
)

// Bid holds a task's worth to its client, and the most it pays: as the client says, or by [Terms].
type Bid struct {
	Terms  market.Terms     // of the task
	Usual  market.Terms     // the terms of a client that names none
	stake  market.Credits   // the worth, however little may be paid for it
	most   market.Credits   // all that its client can spend on it; 0: no bound
	spent  market.Judged    // terms by which its seconds cost in a round
	beyond market.Credits   // its worth less its cost, as of the last survey of agents
	by     Reference        // when its terms were set
	valued [2]market.Judged // terms and usual, as they were last asked for
}

// Reference holds the prices and qualities by which a task's terms were set.
type Reference struct {
	Best  float64        // the greatest quality expected of agents that may serve it
	Card  market.Credits // the cheapest agent's price with nothing cached, fee included
	Usual market.Credits // the cost of a usual task
	Joins uint64         // times that agents came, changed or left
}

// Fixed is the bid of a task of the hub's own.
func Fixed(terms market.Terms) Bid { return Bid{Terms: terms} }

// Set fills in the terms that a task leaves to the hub. A client that names neither a worth nor a max_price
// pays at most what its hold has room for.
func (b *Bid) Set(d *Terms, m *bus.Task, x Reference) error {
	b.by = x
	b.Usual = d.Of(x.Card, x.Usual)
	b.Usual.MaxPrice = market.MaxWorth
	b.Terms = b.Usual
	if w := m.Terms.Worth; w != nil && *w != 0 {
		b.Terms.Worth, b.Terms.Patience, b.Terms.MaxPrice = *w, d.Patience(), 0
	}
	if x := m.Terms.Delta; x != nil && *x != 0 {
		b.Terms.Delta = *x
	}
	if ms := m.Terms.PatienceMS; ms != nil && *ms != 0 {
		b.Terms.Doubles = 0
		b.Terms.Patience = time.Duration(*ms) * time.Millisecond
	}
	if c := m.Terms.MaxPrice; c != nil {
		b.Terms.MaxPrice = *c
	}
	err := b.Terms.Validate()
	b.stake = b.Terms.Worth
	b.Terms = b.Terms.Bounded(x.Best)
	// The money left does not change the worth: with its worth lowered to the last of an account a task could
	// wait for no slot at all. But a round cuts its value by that, and so the cost of a second.
	for _, most := range []market.Credits{m.Voucher.Most(), b.most} {
		if most > 0 && most < b.Terms.Cap() {
			b.Terms.MaxPrice = most
		}
	}
	b.spent = b.Terms.Bounded(x.Best).Judge()
	return err
}

// Bound limits the client's spending on it to most, once it is set again; 0: no limit.
func (b *Bid) Bound(most market.Credits) { b.most = most }

// Stale reports whether the usual cost has changed since it was set, by which all tasks without terms pay the
// same for a second; or the agents have, whose best quality turns a max_price into a worth.
func (b *Bid) Stale(usual market.Credits, joins uint64) bool {
	return b.by.Usual != usual || b.by.Joins != joins
}

// Stated judges quotes by the terms of the task, and Usually by the hub's default terms.
func (b *Bid) Stated() *market.Judged  { return b.valued[0].As(&b.Terms) }
func (b *Bid) Usually() *market.Judged { return b.valued[1].As(&b.Usual) }

// Lasts returns how long the task is worth more than it costs, as of the last survey of agents.
func (b *Bid) Lasts() time.Duration { return b.Stated().Lasts(b.beyond, 0) }

// Second returns the cost of a second to it in a round, once in line for so many whole seconds: those who
// came together stay equals, and their turns count.
func (b *Bid) Second(inLine time.Duration) market.Credits {
	return b.spent.Second(inLine.Truncate(time.Second))
}

// least returns the least max_price that would buy the estimate; 0 if none does.
func (b *Bid) least(e *estimate.Estimate, ttft time.Duration, fee market.Credits) market.Credits {
	terms := b.Terms
	terms.Worth = b.stake
	if least := terms.Least(e.Quote(ttft), e.Cost+fee, b.by.Best); least > 0 {
		return max(least, e.Floor+fee)
	}
	return 0
}
