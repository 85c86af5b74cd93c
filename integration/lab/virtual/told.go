package virtual

import (
	"fmt"
	"math"
	"time"

	"souk/bus"
	"souk/market"
)

// Teller says in a run what callers and owners of engines say, in place of the truth. Rules and the market
// believe it; [Measures] go by what is true.
type Teller interface {
	// Says returns what a caller says with a task, as it asks.
	Says(r *Request) Word
	// Offers returns what the owner of an engine says of it from now on. It is asked again with each task.
	Offers(engine int) Offer
	// Ended hears of each task that has ended or was refused, and may change what was paid.
	Ended(r *Request)
}

// Word is a caller's word of its task.
type Word struct {
	Terms market.Terms
	Role  string // of the answer; "": none is said
	Last  bool   // it is its session's last
}

// Offer is an owner's word of an engine.
type Offer struct {
	Card   market.Price
	Score  float64
	Cached float64        // so many times the tokens that were found in its cache are reported
	Ask    market.Credits // for a task beside the card, where the market asks for that
	Trial  int            // of the teller
}

// True is the offer of an engine whose owner tells the truth.
func (s *Setting) True(engine int) Offer {
	o := s.offer(engine)
	return Offer{Card: o.Card, Score: o.Score, Cached: 1}
}

// told returns an owner's word of an engine.
func (s *Setting) told(engine int) Offer {
	if s.Teller == nil {
		return s.True(engine)
	}
	return s.Teller.Offers(engine)
}

// Worth returns what the answer of a task was worth to its caller, by its true terms.
func (s *Setting) Worth(r *Request) market.Credits { return s.worth(r, r.Terms.Terms) }

// Claimed returns what its caller would have it worth, as it was served.
func (s *Setting) Claimed(r *Request) market.Credits { return s.worth(r, r.stated().Terms) }

func (s *Setting) worth(r *Request, t market.Terms) market.Credits {
	if r.Refused {
		return 0
	}
	return t.Value(market.Quote{TTFT: r.First - r.Arrived, Cost: s.Cost(r), Quality: s.quality(r, r.Engine)})
}

// Cost returns what it truly cost to serve a task.
func (s *Setting) Cost(r *Request) market.Credits {
	if r.Refused {
		return 0
	}
	return s.offer(r.Engine).Card.Cost(usage(r))
}

// Sent is the offer under which the task was sent to its engine.
func (r *Request) Sent() Offer { return r.sent }

// stated are the terms that its caller states.
func (r *Request) stated() Stated {
	if r.said != nil {
		return Stated{r.said.Terms, true}
	}
	return r.Terms
}

// reported is the usage as the task's engine reports it.
func (r *Request) reported() market.Usage {
	u := usage(r)
	if x := r.sent.Cached; r.said != nil && x != 1 {
		u.Cached = min(int(math.Round(x*float64(u.Cached))), u.Prompt-1)
	}
	return u
}

// tell has the teller hear of a task that has ended.
func (r *run) tell(q *Request) {
	if r.Teller != nil && !q.own {
		r.Teller.Ended(q)
	}
}

// hearTold has a caller say what it says, and owners what they say from now on.
func (r *run) hearTold(now time.Duration, q *Request) {
	said := r.Teller.Says(q)
	q.said = &said
	for i := range r.offers {
		o := r.Teller.Offers(i)
		if was := r.offers[i]; was.Card != o.Card || was.Score != o.Score || was.Ask != o.Ask {
			if m, ok := r.policy.(*Market); ok {
				m.offer(Start.Add(now), i, o)
			} else {
				r.view.Engines[i].Card, r.view.Engines[i].Score = o.Card, o.Score
			}
		}
		r.offers[i] = o
	}
}

// offer has an agent say another card or score of itself.
func (m *Market) offer(now time.Time, engine int, o Offer) {
	m.now = now
	a := m.byID[fmt.Sprintf("%s-%d", domain, engine+1)]
	if a.offer = o; a.reg.Price == o.Card && a.reg.Domains[0].Score == o.Score {
		return
	}
	a.reg.Price, a.reg.Domains = o.Card, []bus.DomainScore{{Domain: domain, Score: o.Score}}
	m.fault(m.node.Join(now, a.reg))
	m.wake = now
}

// called answers the hub's call for an owner's ask: first sealed, then open, as it was sealed. Nobody here
// guesses, so no nonce hides it.
func (m *Market) called(a *seller, c *bus.Call) {
	if !c.Open {
		a.asked = a.offer.Ask
	}
	out := &bus.Ask{Agent: a.id, Class: c.Class, Epoch: c.Epoch}
	ask := market.Ask{Owner: a.reg.Owner, Amount: a.asked}
	if c.Open {
		out.Amount, out.Nonce = ask.Amount, ask.Nonce[:]
	} else {
		seal := ask.Seal(c.Class, c.Epoch)
		out.Seal = seal[:]
	}
	say(m, bus.AskSubject(domain, a.id), out, func(got *bus.Ask) { m.step(got) })
}
