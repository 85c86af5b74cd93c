// Package congest learns what one more task on an agent takes from those that run beside it, and what it is
// to be charged for that. It reads no bid.
package congest

import (
	"souk/market"
)

// Line learns what one more task takes from those that run beside it: an engine decodes all of them in
// one step, and each lengthens it. The time between tokens is taken as a line over the number of other tasks,
//
//	ITL = alone * (1 + slope * others)
//
// which 127 series of vLLM servers measured at three and more concurrencies follow within 3 % (median; 11 %
// at the 90th percentile: ai-dynamo/aiconfigurator, silicon_sample, 2026-08-21). Time to first token is not
// asked twice: a prompt computed beside running tasks delays their tokens, so it is in their ITL, and what a
// newcomer itself waits is in its quote. What is measured fades over some 200 tasks, so that a line follows
// its engine.
type Line struct {
	N, X, XX, Y, XY float64 // decayed sums over tasks: of 1, others, others^2, ITL, others * ITL
	Lengths         mean    // tokens of an answer
}

// mean is a running mean over about the last 32 values.
type mean struct{ N, X float64 }

func (m *mean) add(x float64) {
	m.N = min(32, m.N+1)
	m.X += (x - m.X) / m.N
}

const (
	priorSlope  = 0.023 // the median of those series; a tenth lie below 0.009, a tenth above 0.054
	priorWeight = 8     // tasks that it counts as, once one was measured: that sets the scale
	priorOutput = 128   // tokens of an answer until one was counted
	keepSlope   = 1 - 1/200.0
	// beyond it the line is noise, and an engine on which one task halves the speed of another has one slot
	maxSlope = 1
)

// Learn takes a task's mean ITL and output tokens, and how many others ran beside it, on average.
func (c *Line) Learn(others, itl float64, output int) {
	if output > 0 {
		c.Lengths.add(float64(output))
	}
	if !(itl > 0 && others >= 0) {
		return
	}
	if c.N == 0 {
		alone := itl / (1 + float64(priorSlope*others))
		for _, x := range []float64{0, 8} {
			c.enter(x, alone*(1+float64(priorSlope*x)), priorWeight/2)
		}
	}
	c.N, c.X, c.XX, c.Y, c.XY = c.N*keepSlope, c.X*keepSlope, c.XX*keepSlope, c.Y*keepSlope, c.XY*keepSlope
	c.enter(others, itl, 1)
}

func (c *Line) enter(x, y, weight float64) {
	// The conversions keep the compiler from fusing products into sums: charges are the same on every
	// machine.
	c.N += weight
	c.X += float64(weight * x)
	c.XX += float64(weight * x * x)
	c.Y += float64(weight * y)
	c.XY += float64(weight * x * y)
}

// fit is the line: the time between tokens of a task that runs alone, and by how much each other one makes it
// longer; ok is false where too little was seen.
func (c *Line) fit() (alone, rise float64, ok bool) {
	det := float64(c.N*c.XX) - float64(c.X*c.X)
	if c.N == 0 || det <= 1e-9*c.N*c.XX {
		return 0, 0, false
	}
	return (float64(c.Y*c.XX) - float64(c.X*c.XY)) / det, (float64(c.N*c.XY) - float64(c.X*c.Y)) / det, true
}

// Slope is the share by which one more task beside it lengthens a task that would run alone, 0 to maxSlope.
func (c *Line) Slope() float64 {
	alone, rise, ok := c.fit()
	switch {
	case !ok:
		return priorSlope
	case rise <= 0:
		return 0 // more tasks never make an engine faster
	case !(alone > 0) || rise >= maxSlope*alone:
		return maxSlope
	}
	return rise / alone
}

// Output is how many tokens an answer has.
func (c *Line) Output() float64 {
	if c.Lengths.N > 0 {
		return c.Lengths.X
	}
	return priorOutput
}

// Tiers are the slots of an agent with such a line, at a price of a million tokens of answers.
func (c *Line) Tiers(slots int, out market.Credits) []market.Tier {
	return Tiers(c.Slope(), c.Output(), slots, out)
}

// charge is what a task that finds others running owes for slowing them: in the time of its answer each of
// them makes fewer tokens by the share that its step grew longer, and those are priced at the agent's card.
//
//	others * slope / (1 + slope * others)  x  tokens of an answer  x  price of a token
//
// It rises with others and stays below the price of one answer. No bid is in it.
func charge(slope, output float64, others int, out market.Credits) market.Credits {
	s := float64(slope * float64(others)) // not fused with the sum below: the same on every machine
	q, err := market.Quantise(s / (1 + s) * output * float64(out) / float64(market.Credit) / 1e6)
	if err != nil {
		return 0 // a card and an answer within their limits never come to so much
	}
	return min(q, market.MaxWorth)
}

// Tiers are slots by rising charge: the first without, since who comes alone slows nobody, and each at most
// as large as all before it, so that there are few. A tier charges what its first slot does: nobody pays for
// more than it slows.
func Tiers(slope, output float64, slots int, out market.Credits) []market.Tier {
	tiers := []market.Tier{{Slots: 1}}
	for from := 1; from < slots; from *= 2 {
		n, last := min(from, slots-from), &tiers[len(tiers)-1]
		if toll := -charge(slope, output, from, out); toll < last.Toll {
			tiers = append(tiers, market.Tier{Slots: n, Toll: toll})
		} else {
			last.Slots += n
		}
	}
	return tiers
}
