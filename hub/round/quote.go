package round

import (
	"cmp"
	"slices"
	"time"

	"souk/hub/estimate"
	"souk/market"
)

// Inquiry asks what a task would have if it came now.
type Inquiry struct {
	Task      estimate.Waiter // as it states its terms
	Usual     *market.Judged  // those that it had if it said nothing
	UsualMost market.Credits  // that could be charged by them
	Fee       market.Credits
	Waiting   int // tasks that wait
}

// Quote says what a seat of an agent would give and cost a task.
type Quote struct {
	estimate.Offer
	Model  string        // of the agent
	Wait   time.Duration // for the slot
	TTFT   time.Duration // with that
	Price  market.Credits
	Charge market.Credits // of the toll what is charged, and the fee; at least 0
	Net    market.Credits // on the usual terms
	Wins   bool           // on its own
}

// Ask begins a quote, of the seats that the last plan left and at its prices.
func (p *Plan) Ask(q *Inquiry, from *estimate.Snapshot, prices Prices) {
	p.set(from, []estimate.Waiter{q.Task}, prices)
	p.seats.rank(from)
	p.last, p.quotes = Quote{}, p.quotes[:0]
}

// Offer takes of the agents of each model the seat that is worth most on the usual terms.
func (p *Plan) Offer(q *Inquiry, o *estimate.Offer, model func(agent int32) string) {
	if x := &p.last; x.Estimate == o.Estimate && x.Offer.TTFT == o.TTFT && x.Half == o.Half &&
		q.Waiting == 0 && p.idle(x.Agent) && p.idle(o.Agent) {
		return // it is the same as the one asked for last
	}
	x, ok := p.quote(q, o)
	if !ok {
		return
	}
	x.Model = model(o.Agent)
	i := slices.IndexFunc(p.quotes, func(y Quote) bool { return y.Model == x.Model })
	if i < 0 {
		p.quotes = append(p.quotes, x)
		return
	}
	wins, best := x.Wins || p.quotes[i].Wins, &p.quotes[i]
	if x.Net > best.Net {
		*best = x
	}
	best.Wins = wins
}

// Quotes returns them, at most so many, those that are worth most first.
func (p *Plan) Quotes(most int) []Quote {
	slices.SortFunc(p.quotes, func(a, b Quote) int {
		return cmp.Or(cmp.Compare(b.Net, a.Net), cmp.Compare(a.Model, b.Model))
	})
	return p.quotes[:min(len(p.quotes), most)]
}

// quote takes of an agent the seat that is worth most on the usual terms; false: it has none. Those who wait
// take the sooner seats; who would come before them pays a slot price.
func (p *Plan) quote(q *Inquiry, o *estimate.Offer) (best Quote, ok bool) {
	tolls := cmp.Or(p.others.Without(q.Task.Client), &p.tolls)
	charge := q.Fee + tolls.Of(o.Agent, tolls.stay(o.Agent, o.Estimate))
	seats, prices := p.seats.one(p.from, int(o.Agent), q.Waiting+1), []int64(nil)
	if q.Waiting > 0 { // else of those who wanted a slot all have one
		prices = *p.prices.Seats(int(o.Agent))
	}
	for i, seat := range seats {
		x := Quote{Offer: *o, TTFT: min(market.MaxIn, seat.In+o.TTFT), Charge: charge}
		if i < len(prices) {
			x.Price = market.Credits(prices[i])
		}
		if seat.Later {
			x.Wait = seat.In
		}
		net := func(terms *market.Judged, most market.Credits) market.Credits {
			return o.Estimate.Value(terms, x.TTFT, most) - o.Cost - charge - x.Price
		}
		x.Net = net(q.Usual, q.UsualMost)
		wins := best.Wins || net(q.Task.Terms, q.Task.Most) >= 0 && x.TTFT-o.TTFT+o.Half <= q.Task.Left
		if !ok || x.Net > best.Net {
			best, ok = x, true
		}
		best.Wins = wins
	}
	p.last = best
	return best, ok
}

// idle reports whether an agent has a free slot that costs nothing. Where nobody waits all such offer one
// task the same seat.
func (p *Plan) idle(agent int32) bool {
	a := &p.from.Agents[agent]
	return a.Running < a.Slots && a.Free > 0 && p.tolls.slots[agent].second == 0
}
