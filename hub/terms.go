package hub

import (
	"errors"
	"fmt"
	"math"
	"time"

	"souk/market"
)

// Terms are what a hub gives a task that says nothing. A bill that nobody agreed to must be near the price
// card, so all of them go by what tasks cost, nothing of them cached: by the task itself, with as long an
// answer as it is expected to have, at the cheapest agent that may serve it; and by a usual one
// ([ledger.Usual]), which depends on no bid of the round and is the same for all. A second costs every such
// task the same, so that among them who came first is served first: where slots are short nobody goes before
// others for the length of a prompt.
type Terms struct {
	Multiple float64 `yaml:"multiple"` // worth, in cards of the task or of a usual one, whichever is more
	Delta    float64 `yaml:"delta"`    // weight of quality against latency
	Second   float64 `yaml:"second"`   // what a second costs, in cards of a usual task
	// What a task without max_tokens may cost beside its premium, in its cards or a usual one's: so much it
	// takes of a purse until it ends, and an answer that reaches it is cut. An engine's context would bound
	// it at hundreds.
	Hold float64 `yaml:"hold"`
}

// DefaultTerms last for 60 to 90 s. Waiting for a warm cache pays for seconds under them, and not for
// minutes. With a second three and ten times as dear the small one of two clients paid up to five and fifteen
// times the card for some task.
func DefaultTerms() Terms { return Terms{Multiple: 12, Delta: 0.8, Second: 0.06, Hold: 32} }

// Of are the terms of a task that costs so much, where one usually costs usual; 0: that is not known, and it
// is as usual as any.
func (t Terms) Of(card, usual market.Credits) market.Terms {
	if usual <= 0 {
		usual = card
	}
	of := market.Terms{Worth: cards(max(card, usual), t.Multiple), Delta: t.Delta}
	of.Patience = patience(of.Worth, t.Delta, cards(usual, t.Second))
	return of
}

// Patience is how patient a usual task is. Who says what a task is worth, and not how patient, has that: a
// second costs it the more, the more it said.
func (t Terms) Patience() time.Duration {
	const usual = market.Credit
	return t.Of(usual, usual).Patience
}

// cards is so many times what a task costs.
func cards(card market.Credits, times float64) market.Credits {
	c, err := market.Quantise(float64(card) / float64(market.Credit) * times)
	if err != nil {
		return market.MaxWorth
	}
	return min(c, market.MaxWorth)
}

// patience is how long one waits until a part of 1 - delta of a worth is gone, at so much a second. It is a
// little longer, so that [market.Terms.Second] rounds up to that very amount.
func patience(worth market.Credits, delta float64, second market.Credits) time.Duration {
	if second <= 0 {
		return market.MaxPatience
	}
	d := math.Ceil(float64(worth)*(1-delta)/float64(second)*float64(time.Second)) + 1
	return time.Duration(min(d, float64(market.MaxPatience)))
}

func (t Terms) validate() error {
	var errs []error
	for _, f := range []struct {
		name    string
		v, most float64
	}{{"multiple", t.Multiple, mostCards}, {"delta", t.Delta, 1}, {"second", t.Second, mostCards},
		{"hold", t.Hold, mostCards}} {
		if !(f.v > 0 && f.v < f.most) {
			errs = append(errs, fmt.Errorf("%s is %v, want more than 0 and less than %.0f", f.name, f.v, f.most))
		}
	}
	return errors.Join(errs...)
}

// mostCards is more than anybody means.
const mostCards = 1_000_000
