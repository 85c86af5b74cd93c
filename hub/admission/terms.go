// Package admission says what a request is to a hub: a task that is new to it, one that it knows, or one that
// may be with another hub; what a task is worth, and on which terms; and whether any agent could ever serve
// it. What it refuses it refuses truthfully. It remembers how tasks have ended.
//
// A [Room] is a machine without I/O or clock: it runs on the hub's [turn.Turn]. Of a task it knows a
// [Request]; a [Bid] and a [Survey] are values.
package admission

import (
	"errors"
	"fmt"
	"math"
	"time"

	"souk/market"
)

// Terms are the terms that a hub gives a task whose client names none. A bill that nobody agreed to must be
// near the price card, so the terms follow the cost of tasks, with nothing cached: of the task itself, with
// an answer of the expected length, at the cheapest agent that may serve it; and of a usual task
// ([ledger.Usual]), which depends on no bid of the round and is the same for all. A second costs every such
// task the same, and the more the longer it has waited, so that among them the first to come is served first:
// else it was all one to a plan who of them waited, and the last up to four times as long as in a line.
type Terms struct {
	Multiple float64 `yaml:"multiple"` // worth, in cards of the task or of a usual one, whichever is more
	Delta    float64 `yaml:"delta"`    // weight of quality against latency
	Second   float64 `yaml:"second"`   // what a second costs, in cards of a usual task
	// The most that a task without max_tokens may cost beside its premium, in its cards or a usual one's: it
	// is held until the task ends, and an answer that reaches it is cut. A context bounds it at hundreds.
	Hold float64 `yaml:"hold"`
}

// Doubles is the wait after which a second costs a task twice as much whose client names no patience.
const Doubles = 30 * time.Second

// DefaultTerms last for 45 to 70 s. Waiting for a warm cache pays for seconds under them, and not for
// minutes. With a second three and ten times as dear the small one of two clients paid up to five and fifteen
// times the card for some task.
func DefaultTerms() Terms { return Terms{Multiple: 12, Delta: 0.8, Second: 0.06, Hold: 32} }

// Of returns the terms of a task whose card is card, where a usual one's is usual; 0: not known, and the task
// counts as usual.
func (t Terms) Of(card, usual market.Credits) market.Terms {
	if usual <= 0 {
		usual = card
	}
	of := market.Terms{Worth: max(card, usual).Times(t.Multiple), Delta: t.Delta, Doubles: Doubles}
	of.Patience = patience(of.Worth, t.Delta, usual.Times(t.Second))
	return of
}

// Patience returns the patience of a usual task. A client that names a worth and no patience has the same:
// the higher its worth, the more a second costs it.
func (t Terms) Patience() time.Duration {
	const usual = market.Credit
	return t.Of(usual, usual).Patience
}

// patience returns the wait after which a part of 1 - delta of a worth is gone, at a given cost of a second.
// It is a little longer, so that [market.Terms.Second] rounds up to that very amount.
func patience(worth market.Credits, delta float64, second market.Credits) time.Duration {
	if second <= 0 {
		return market.MaxPatience
	}
	d := math.Ceil(float64(worth)*(1-delta)/float64(second)*float64(time.Second)) + 1
	return time.Duration(min(d, float64(market.MaxPatience)))
}

// Validate judges them and changes nothing.
func (t Terms) Validate() error {
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
