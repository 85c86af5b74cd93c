package virtual

import (
	"souk/bus"
	"souk/market"
)

// Got holds a task's result for its client, by its true terms.
type Got struct {
	Play, Turn int // whichever way others are served, these name the same question
	Temper     string
	Utility    market.Credits // worth at the first token less what was paid; 0 of a refused one
}

// Asking counts the clients that ask in [PlayLie], in turn; of each temper as many.
const Asking = 64

// PlayLie plays a world with arrivals on the market, where some clients say other terms than they have. A
// dialogue goes on after a refused turn, so that what is asked does not depend on what is said. It returns
// what these clients had, and the number of rounds.
func PlayLie(w World, liar func(client int) bool, lie func(*bus.Terms)) (got []Got, rounds uint64,
	err error) {
	s, err := w.Setting()
	if err != nil {
		return nil, 0, err
	}
	s.Clients, s.Stays = Asking, true
	o := NewMarketOptions(s)
	o.Hints = func(r *Request, t *bus.Task) {
		if liar(r.Caller) {
			lie(&t.Terms)
		}
	}
	all, _, m, err := playMarket(s, o)
	if err != nil {
		return nil, 0, err
	}
	for _, r := range all {
		if !liar(r.Caller) {
			continue
		}
		g := Got{Play: r.Play, Turn: r.Turn, Temper: r.Temper}
		if !r.Refused {
			g.Utility = r.Terms.Value(market.Quote{TTFT: r.First - r.Arrived,
				Quality: s.quality(r, r.Engine)}) - r.Paid
		}
		got = append(got, g)
	}
	return got, m.audit.Finish().Rounds, nil
}
