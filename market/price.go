package market

import (
	"fmt"
	"math"
	"math/bits"
	"time"
)

// MaxPrice bounds each figure of a price card: a million credits per million tokens.
const MaxPrice Credits = 1_000_000 * Credit

// MaxWorth bounds what one task may be said to be worth: a million credits. Below 2^53, so that it is
// exact as a float64, and small enough that rounds of 4,000 seats stay within the solver's bounds.
const MaxWorth Credits = 1_000_000 * Credit

// MaxPatience bounds [Terms.Patience].
const MaxPatience = 24 * time.Hour

// Settlement rules, [Rule.Settle].
const (
	// SettleMetered settles at the price card on real usage, at most the cap: what people who buy tokens
	// expect.
	SettleMetered = "metered"
	// SettleQuoted settles at the quote (iemas A.3); the agent carries the risk of its cost.
	SettleQuoted = "quoted"
)

// Validate judges a price card: 0 <= Hit <= Miss <= MaxPrice and 0 <= Out <= MaxPrice. A cached token
// may not cost more than a computed one, else the worst case of a task would not bound its cost.
func (p Price) Validate() error {
	switch {
	case p.Miss < 0 || p.Miss > MaxPrice:
		return fmt.Errorf("price: miss is %s, want 0 to %s credits per million tokens", p.Miss, MaxPrice)
	case p.Hit < 0:
		return fmt.Errorf("price: hit is %s, want at least 0", p.Hit)
	case p.Hit > p.Miss:
		return fmt.Errorf("price: hit is %s and miss %s: a cached token may not cost more than a "+
			"computed one", p.Hit, p.Miss)
	case p.Out < 0 || p.Out > MaxPrice:
		return fmt.Errorf("price: out is %s, want 0 to %s credits per million tokens", p.Out, MaxPrice)
	}
	return nil
}

// Cost returns the cost of usage at this price card, in nano-credits (iemas Eq. 6: a miss price on what was
// computed, a hit price on what was cached, an output price on what was generated), rounded up once.
// Negative counts are taken as 0 and Cached as at most Prompt; the result is at most MaxCredits.
func (p Price) Cost(u Usage) Credits {
	prompt, out := max(u.Prompt, 0), max(u.Output, 0)
	cached := min(max(u.Cached, 0), prompt)
	var hi, lo, over uint64
	add := func(price Credits, tokens int) {
		h, l := bits.Mul64(uint64(max(price, 0)), uint64(tokens))
		sum, carry := bits.Add64(lo, l, 0)
		lo = sum
		hi, carry = bits.Add64(hi, h, carry)
		over |= carry
	}
	add(p.Miss, prompt-cached)
	add(p.Hit, cached)
	add(p.Out, out)
	if over != 0 {
		return MaxCredits
	}
	const million = 1_000_000
	lo, carry := bits.Add64(lo, million-1, 0) // round up
	switch hi += carry; {                     // hi < 2^64 - 1: three products of 63-bit factors
	case hi == 0: // as nearly always, and faster
		return Credits(lo / million)
	case hi >= million:
		return MaxCredits
	}
	q, _ := bits.Div64(hi, lo, million)
	return Credits(min(q, uint64(MaxCredits)))
}

// WorstCase is the most a task can cost: every prompt token computed, every output token used. promptBound
// is an upper bound on prompt tokens, maxTokens what the engine is told to stop at.
func WorstCase(p Price, promptBound, maxTokens int) Credits {
	return p.Cost(Usage{Prompt: promptBound, Output: maxTokens})
}

// Reserve returns the amount that admission sets aside for one task on one agent before a round, so that no
// outcome can cost more: the worst case and the largest premium that a client with positive utility can owe,
// value - cost, at most maxPrice. A hub reserves the largest over the agents that may serve the task.
func Reserve(worst, value, cost, maxPrice Credits) Credits {
	return Hold(max(0, value-cost), worst, maxPrice)
}

// Hold returns the amount set aside for an award: its premium and the worst case, at most maxPrice.
func Hold(premium, worst, maxPrice Credits) Credits {
	sum, ok := premium.Add(worst)
	if !ok {
		return maxPrice
	}
	return max(0, min(sum, maxPrice))
}

// Validate judges a client's terms.
func (t Terms) Validate() error {
	switch {
	case t.Worth < 0 || t.Worth > MaxWorth:
		return fmt.Errorf("terms: worth is %s, want 0 to %s credits", t.Worth, MaxWorth)
	case !(t.Delta >= 0 && t.Delta <= 1):
		return fmt.Errorf("terms: delta is %v, want 0 to 1", t.Delta)
	case t.Patience <= 0 || t.Patience > MaxPatience:
		return fmt.Errorf("terms: patience is %v, want more than 0 and at most %v", t.Patience, MaxPatience)
	case t.MaxPrice < 0 || t.MaxPrice > MaxWorth:
		return fmt.Errorf("terms: max_price is %s, want 0 to %s credits", t.MaxPrice, MaxWorth)
	}
	return nil
}

// Cap is the most the client ever pays for the task: MaxPrice, or Worth if none is given.
func (t Terms) Cap() Credits {
	if t.MaxPrice > 0 {
		return t.MaxPrice
	}
	return t.Worth
}

// sound reports whether Validate finds nothing wrong.
func (q *Quote) sound() bool {
	return q.TTFT >= 0 && q.Cost >= 0 && q.Cost <= MaxCredits && q.Quality >= 0 && q.Quality <= 1
}

// Value returns a quote's worth to the client, in nano-credits: iemas Eq. 1 in money,
//
//	floor(worth * (delta*quality - (1-delta)*ttft/patience))
//
// at least -[MaxCredits]; that is the value of terms or of a quote that Validate refuses. A task loses by
// every second, not only until its patience is over: else who is late would lose nothing more, and be served
// last.
func (t Terms) Value(q Quote) Credits {
	j := t.Judge()
	return j.Value(q)
}

// Second returns by how much the value falls with every second at first: worth * (1-delta) / patience,
// rounded up, at most [MaxCredits]; 0 for terms that Validate refuses.
func (t Terms) Second() Credits {
	if t.Validate() != nil {
		return 0
	}
	// The conversion keeps the compiler from fusing the product.
	c := math.Ceil(float64(float64(t.Worth)*(1-t.Delta)) / t.Patience.Seconds())
	return Credits(min(c, float64(MaxCredits)))
}

// Bounded are terms by which nothing is worth more than [Terms.Cap], where no answer is better than best: the
// worth is lowered. A value that were cut off at a price would be the same now and in three seconds, and
// whoever has it would wait for everybody.
func (t Terms) Bounded(best float64) Terms {
	if most := t.Delta * best; most > 0 && float64(t.Worth)*most > float64(t.Cap()) {
		t.Worth = Credits(math.Floor(float64(t.Cap()) / most))
	}
	return t
}

// Least is the least max_price by which a quote is worth so much under terms that are [Terms.Bounded] with
// the same best; 0 where it is not, whatever may be paid.
func (t Terms) Least(q Quote, c Credits, best float64) Credits {
	whole := t
	whole.MaxPrice = 0
	if whole.Value(q) < c {
		return 0
	}
	share := t.share(&q)
	if worth := math.Ceil(float64(c+1) / share); worth < float64(t.Worth) {
		return Credits(math.Ceil(worth*t.Delta*best)) + 1
	}
	return t.Worth
}

// Judged are terms that were validated once, so that many quotes can be valued by them.
type Judged struct {
	terms  Terms
	sound  bool
	second Credits
}

// Judge validates terms once; see [Judged].
func (t Terms) Judge() Judged { return Judged{t, t.Validate() == nil, t.Second()} }

// Second returns by how much the value falls with every second after so much waiting, rounded down, at most
// [MaxCredits]: at first [Terms.Second].
func (j *Judged) Second(waited time.Duration) Credits {
	if j.terms.Doubles <= 0 || waited <= 0 {
		return j.second
	}
	return min(j.second+Part(j.second, int64(waited), int64(j.terms.Doubles)), MaxCredits)
}

// Lasts is after how much more waiting, beyond that so far, so much of a value is gone, at most
// [MaxPatience].
func (j *Judged) Lasts(c Credits, waited time.Duration) time.Duration {
	second, grows := float64(j.Second(waited)), 0.0 // a second, and a second of a second
	if j.terms.Doubles > 0 {
		grows = float64(j.second) / j.terms.Doubles.Seconds()
	}
	left := 2 * float64(max(0, c))
	d := left / (second + math.Sqrt(float64(second*second)+float64(grows*left))) * float64(time.Second)
	if d < float64(MaxPatience) { // not so for NaN, of terms by which no second costs anything
		return time.Duration(d)
	}
	return MaxPatience
}

// As is j, judged anew if it was not of these terms.
func (j *Judged) As(t *Terms) *Judged {
	if j.terms != *t {
		*j = t.Judge()
	}
	return j
}

// Value is [Terms.Value].
func (j *Judged) Value(q Quote) Credits {
	t := &j.terms
	if !j.sound || !q.sound() {
		return -MaxCredits
	}
	return Credits(math.Floor(max(float64(t.Worth)*t.share(&q), -float64(MaxCredits))))
}

// share is a quote's value, of the worth. The conversions keep the compiler from fusing a product into a sum,
// which would round differently on machines with fused multiply-add.
func (t *Terms) share(q *Quote) float64 {
	late := float64(q.TTFT) / float64(t.Patience)
	if t.Doubles > 0 {
		late += float64(late * (float64(q.TTFT) / (2 * float64(t.Doubles))))
	}
	return float64(t.Delta*q.Quality) - float64((1-t.Delta)*late)
}
