package truth

import (
	"math"
	"strconv"
	"time"

	"souk/integration/lab/virtual"
	"souk/market"
)

// thing can be lied about: the first of what is said of it is the truth.
type thing struct {
	Name string
	Said []string
}

// What callers can lie about. A second is what time weighs beside quality, (1 - delta) / delta.
var callers = []thing{
	{"worth", times(worths)}, {"a second", times(seconds)}, {"patience", times(patiences)},
	{"hints", []string{"true", "none", "role false", "always the last"}},
}

var (
	worths    = []float64{1, 0.5, 0.67, 1.5, 2, 4}
	seconds   = []float64{1, 0.25, 0.5, 2, 4}
	patiences = []float64{1, 0.5, 2, 4}
)

// What owners of engines can lie about.
var owners = []thing{{"price", times(prices)}, {"score", times(scores)}, {"cached", times(cacheds)}}

var (
	prices  = []float64{1, 0.8, 1.25, 1.6, 2.5, 4}
	scores  = []float64{1, 0.9, 1.1, 1.25}
	cacheds = []float64{1, 0, 0.5, 1.5}
)

func times(all []float64) (said []string) {
	for _, x := range all {
		said = append(said, "x "+strconv.FormatFloat(x, 'g', -1, 64))
	}
	return said
}

func kinds(of []thing) (n []int) {
	for _, t := range of {
		n = append(n, len(t.Said))
	}
	return n
}

// shortAnswer is the length, in tokens, below which an answer's role is short.
const shortAnswer = 200

// word returns the word of a task of a caller that lies so.
func word(r *virtual.Request, said []int) virtual.Word {
	w := virtual.Word{Terms: r.Terms.Terms, Role: "long"}
	_, w.Last = r.Back()
	brief := r.Output < shortAnswer
	w.Terms = told(w.Terms, said[0], said[1], said[2])
	switch said[3] {
	case 1:
		w.Role, w.Last = "", false
		return w
	case 2:
		brief = !brief
	case 3:
		w.Last = true
	}
	if brief {
		w.Role = "short"
	}
	return w
}

// told are the terms of a caller that lies so about them.
func told(t market.Terms, worth, second, patience int) market.Terms {
	t.Worth = scaled(t.Worth, worths[worth])
	if x := seconds[second]; x != 1 {
		t.Delta /= t.Delta + float64(x*(1-t.Delta))
	}
	t.Patience = time.Duration(math.Round(float64(t.Patience) * patiences[patience]))
	return t
}

// offer returns the offer of an owner that lies so. Where asks are called for, the card is the class's
// and the price is asked for beside it.
func offer(o virtual.Offer, said []int, asks bool) virtual.Offer {
	p := prices[said[0]]
	if asks {
		o.Ask = scaled(usual(o.Card), max(0, p-1))
	} else {
		o.Card = market.Price{Miss: scaled(o.Card.Miss, p), Hit: scaled(o.Card.Hit, p),
			Out: scaled(o.Card.Out, p)}
	}
	o.Score = math.Round(min(1, o.Score*scores[said[1]])*1000) / 1000
	o.Cached = cacheds[said[2]]
	return o
}

// usual is the cost of a task as most are.
func usual(card market.Price) market.Credits {
	return card.Cost(market.Usage{Prompt: 1000, Cached: 500, Output: 200})
}

func scaled(c market.Credits, by float64) market.Credits {
	return market.Credits(math.Round(float64(c) * by))
}
