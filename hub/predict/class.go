package predict

import (
	"cmp"
	"math"
	"slices"
)

const (
	// enough observations of an agent to say that it differs from its class, and of the others to doubt one
	enough = 20
	// absurd bounds the factor by which an observation counts as off its forecast, either way; doubtful that
	// by which an agent may differ from the others and still count for its class.
	absurd, doubtful = 10, 3
	// a class of n times many agents is fitted once in n answers: each fit takes n times as long.
	many = 32
	// mostTries bounds how often the time doubles after which an agent is tried again.
	mostTries = 8
	// what the class counts, in answers, where an agent differs from it
	leastPrior, mostPrior = 2, 50
	// oddTokens bounds how many tokens a template may add, and how far off a short prompt may be estimated.
	oddTokens = 256
	// mostRatio bounds the tokens of a prompt by the door's estimate.
	mostRatio = 8
)

// Class forecasts for agents that should be equal: what was seen of one is expected of all. It fits the sums
// of its members, in the order in which they came, so that an agent that goes takes with it what it said. No
// agent says much about the others: one that differs counts for itself alone (see differ and credit); where
// two others have been seen, an observation counts as at most absurd times the forecast, or its part, and an
// agent as at most as much as all others together; a mean is of the agents' own means, each within bounds.
//
// What is seen fades with what is seen of others, too. An agent that was slow, and is not asked any more for
// that, is tried again: once the others have answered some dozens of times without it, it is forecast as they
// are, as long as it answers as they do; if it does not, again after twice as long.
type Class struct {
	Key     Key
	members []*Means

	Coef              line // of TTFT
	Token             line // of the time between tokens
	Ratio, Share, ITL float64
	Least, Most       float64 // of the members' shares, those that are believed

	Shrinks float64 // see differ
	Weight  float64 // TTFTs that the last fit was made of
	Active  int     // agents that they are of
	Keep    float64 // what an observation counts when the next one comes
	Taught  uint64  // observations in all
	Since   int     // observations since the last fit
	Every   int     // so many are fitted together: where much was seen, one changes little
	Faded   int     // observations that what was seen before has not faded for yet

	Spread spread // of what comes by what is forecast
	rest   *rest  // nil: it has none

	own []float64 // scratch
	all sums
}

func (c *Class) enter(m *Means) {
	m.class, m.Tried, m.Failed, m.Tries, m.Taught, m.Moved = c, false, false, 0, c.Taught, false
	c.members = append(c.members, m)
	c.fit()
}

// age decays all observations before a new one.
func (c *Class) age() {
	if c.Since > 0 || c.Faded == 0 {
		return
	}
	keep := 1.0
	for range c.Faded {
		keep *= c.Keep
	}
	c.Faded = 0
	for _, m := range c.members {
		m.Seen.fade(keep)
	}
}

// learned fits the class again when there is enough that is new, or news of an agent that was tried.
func (c *Class) learned(m *Means) {
	c.Since++
	c.Faded++
	c.Taught++
	m.Taught = c.Taught
	news := m.Failed || m.Drift.Fresh > 0
	if m.Failed { // it is forecast by its own line again
		m.Tried, m.Failed = false, false
	}
	if c.Since >= c.Every || news && c.Since > len(c.members)/many {
		c.fit()
	}
}

// believed returns the value as which a TTFT of m counts, by its forecast. Of two nobody knows who is wrong.
func (c *Class) believed(m *Means, ttft, forecast float64) float64 {
	if c.Weight-m.Seen.Line.weight() < enough || c.Active < 3 {
		return ttft
	}
	forecast = max(forecast, 1) // a forecast of nothing must be able to grow
	return min(max(ttft, forecast/absurd), forecast*absurd)
}

// odd reports whether an agent counts many more or fewer tokens in a prompt than others do in one like it:
// its time is not learned from. One with a hundred times as many would outweigh all other observations.
func (c *Class) odd(m *Means, expected, prompt int) bool {
	others, times := c.Weight-m.Seen.Line.weight(), doubtful
	switch {
	case others < 1 || expected <= 0:
		return false
	case others < enough || c.Active < 3:
		times = mostRatio
	}
	return prompt > times*expected+oddTokens || times*(prompt+oddTokens) < expected
}

// fit fits the class's forecast to the observations of its members.
func (c *Class) fit() {
	c.Since = 0
	count, active := c.seen(func(e *evidence) float64 { return e.Count })
	c.Keep = 1 - 1/(memory*float64(active))
	c.Every = max(1, int(count)/64, len(c.members)/many)

	c.Ratio = min(mostRatio, c.mean(1, assuming, func(e *evidence) *mean { return &e.Ratio }))
	shares := func(e *evidence) *mean { return &e.Share }
	c.Share = c.mean(share, assuming, shares)
	c.Least, c.Most = c.bounds(shares)
	c.ITL = c.mean(0, 0, func(e *evidence) *mean { return &e.ITL })
	c.Token = c.tokens()

	c.Weight, c.Active = c.seen(func(e *evidence) float64 { return e.Line.weight() + e.Gone })
	// What was not seen at all is as assumed for good.
	weight := assuming * max(0.01, c.left(c.Weight, c.Active))
	c.credit()
	c.Coef = c.line(weight)
	if c.differ() {
		c.Coef = c.line(weight)
	}
	for _, m := range c.members {
		if alone := m.Differs && !m.Tried; alone != m.Alone {
			if m.Alone = alone; !m.Moved { // it is judged by another line from now on
				m.Drift = drift{Off: m.Drift.Off, Seen: m.Drift.Seen, Fresh: m.Drift.Fresh}
			}
		}
		if m.Differs && !m.Tried {
			if m.Moved {
				m.Own = m.Seen.Line.fit(&m.Anchor, 1)
				continue
			}
			n := m.Seen.Line.weight()
			own := m.Seen.Line.fit(&c.Coef, assuming)
			for i, x := range own {
				m.Own[i] = c.Coef[i] + float64((x-c.Coef[i])*n/(n+c.Shrinks))
			}
		}
	}
}

// seen sums up a weight over all members, and counts the members that have any.
func (c *Class) seen(pick func(*evidence) float64) (all float64, active int) {
	for _, m := range c.members {
		w := pick(&m.Seen)
		if all += w; w >= 1 {
			active++
		}
	}
	return all, max(1, active)
}

// left returns the share left of the prior's weight, after observations of such weight of so many agents.
func (c *Class) left(all float64, active int) float64 {
	return max(0, 1-all/(memory*float64(active)))
}

// say returns the share at which an agent's observations count, given their weight and that of all.
func say(own, all float64) float64 {
	if others := all - own; others >= enough && own > others {
		return others / own
	}
	return 1
}

// mean returns the mean over the members' own means, and a prior of such weight.
func (c *Class) mean(unseen, weight float64, pick func(*evidence) *mean) float64 {
	all, active := c.seen(func(e *evidence) float64 { return pick(e).Weight })
	weight *= c.left(all, active)
	least, most := c.bounds(pick)
	sum := float64(unseen * weight)
	for _, m := range c.members {
		if o := pick(&m.Seen); o.Weight > 0 {
			w := float64(o.Weight * say(o.Weight, all))
			sum += float64(w * min(max(o.value(), least), most))
			weight += w
		}
	}
	if weight == 0 {
		return unseen
	}
	return sum / weight
}

// tokens is the line of the time between tokens, of the members whose mean is believed.
func (c *Class) tokens() line {
	mean := func(e *evidence) *mean { return &e.ITL }
	all, _ := c.seen(func(e *evidence) float64 { return e.ITL.Weight })
	least, most := c.bounds(mean)
	c.all = sums{}
	for _, m := range c.members {
		o := &m.Seen.ITL
		if o.Weight > 0 && o.value() >= least && o.value() <= most {
			c.all.add(&m.Seen.Token, say(o.Weight, all))
		}
	}
	return c.all.fit(&line{1000 * c.ITL}, 1)
}

// bounds returns the range within which a member's word is believed: a quarter around the median where three
// members have said enough, else more. Of two nobody knows who is wrong.
func (c *Class) bounds(pick func(*evidence) *mean) (least, most float64) {
	for _, b := range []struct{ weight, factor float64 }{{enough, 1.25}, {1, doubtful}} {
		c.own = c.own[:0]
		for _, m := range c.members {
			if o := pick(&m.Seen); o.Weight >= b.weight {
				c.own = append(c.own, o.value())
			}
		}
		if len(c.own) > 2 {
			return c.median() / b.factor, c.median() * b.factor
		}
	}
	return 0, math.Inf(1)
}

// median is the lower median of own.
func (c *Class) median() float64 {
	slices.Sort(c.own)
	return c.own[(len(c.own)-1)/2]
}

// line fits a line to the prior and the observations of the members that are like the others.
func (c *Class) line(weight float64) line {
	c.all = sums{}
	for _, m := range c.members {
		if m.Credible && !m.Differs {
			c.all.add(&m.Seen.Line, say(m.Seen.Line.weight(), c.Weight))
		}
	}
	if c.all.weight() == 0 { // all have turned
		for _, m := range c.members {
			if m.Credible {
				c.all.add(&m.Seen.Line, 1)
			}
		}
	}
	return c.all.fit(&assumed, weight)
}

// credit finds whose answers are believed for a first line: those that took, by what the prior expects of
// such tasks, between doubtful times and such a part of what the median agent took, and did not vary more.
func (c *Class) credit() {
	taken := func(m *Means) (mean, square float64) {
		s := &m.Seen.Line
		expected := 0.0
		for i, b := range assumed {
			expected += float64(b * s.XX[0][i])
		}
		expected = cmp.Or(expected, s.XX[0][0])
		return s.XY[0] / expected, math.Sqrt(s.YY*s.XX[0][0]) / expected
	}
	c.own = c.own[:0]
	for _, m := range c.members {
		m.Differs, m.Credible = false, false
		if m.Seen.Line.weight() > 0 {
			mean, _ := taken(m)
			c.own = append(c.own, mean)
		}
	}
	if len(c.own) == 0 {
		return
	}
	median := c.median()
	for _, m := range c.members {
		if m.Seen.Line.weight() > 0 {
			mean, square := taken(m)
			m.Credible = mean >= median/doubtful && square <= median*doubtful
		}
	}
}

// differ finds the members that are unlike the others, and says whether there are any: the TTFT of such a one
// is off the class's line further than the median agent's is, after enough observations, by more than three
// standard errors and a tenth of the base.
func (c *Class) differ() (any bool) {
	moved := 0
	c.own = c.own[:0]
	for _, m := range c.members {
		if m.Seen.Line.weight() >= enough {
			off, _ := m.Seen.Line.off(&c.Coef)
			c.own = append(c.own, off)
		}
		if m.Moved {
			moved++
		}
	}
	if len(c.own) < 2 && moved == 0 {
		return false
	}
	median := 0.0
	if len(c.own) > 0 {
		median = c.median()
	}
	within, between := 0.0, 0.0
	for _, m := range c.members {
		if m.Seen.Line.weight() < enough && !m.Moved {
			continue
		}
		off, deviates := m.Seen.Line.off(&c.Coef)
		by := math.Abs(off - median)
		within += float64(deviates * deviates * m.Seen.Line.weight())
		between += float64(by * by)
		if by <= 3*deviates && m.Seen.Line.weight() >= enough || by <= c.Coef[0]/10 {
			m.Tried, m.Tries, m.Moved = false, 0, false
			continue
		}
		m.Differs, any = true, true
		if after := uint64(enough*c.Active) << m.Tries; !m.Tried && c.Taught-m.Taught >= after {
			m.Tried, m.Tries = true, min(m.Tries+1, mostTries)
		}
	}
	// An agent is shrunk to its class by the ratio of the variance within agents to that between them, in
	// answers.
	c.Shrinks = min(max(within/max(between, 1e-9), leastPrior), mostPrior)
	return any
}
