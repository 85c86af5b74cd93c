package predict

import (
	"math"
	"slices"

	"souk/market"
)

const (
	// enough observations of an agent to say that it differs from its class, and of the others in a class to
	// doubt one.
	enough = 20
	// absurd is how many times the forecast, or what part of it, an observation counts as at most; doubtful
	// is how many times what others take, or what part of it, an agent may take that counts for its class.
	absurd, doubtful = 10, 3
	// many agents are fitted once in so many answers as there are times so many: it takes as much longer.
	many = 32
	// mostTries bounds how often the time doubles after which an agent is tried again.
	mostTries = 8
	// what the class counts, in answers, where an agent differs from it
	leastPrior, mostPrior = 2, 50
	// oddTokens are as many as a template may add, or the estimate of a short prompt be off.
	oddTokens = 256
	// mostRatio bounds the tokens of a prompt by the door's estimate.
	mostRatio = 8
)

// Key is what agents have in common that are forecast alike.
type Key struct {
	Model, Hardware string
	Context         int // tokens
	Price           market.Price
}

// Classes are the classes that somebody is in.
type Classes struct {
	prior Prior
	by    map[Key]*Class
	rests int // classes that have a tree
}

// NewClasses returns none.
func NewClasses(p Prior) *Classes { return &Classes{prior: p, by: map[Key]*Class{}} }

// Enter puts an agent into the class of a key. What was seen of it comes along.
func (cs *Classes) Enter(k Key, m *Means) {
	c := cs.by[k]
	if c == nil {
		c = newClass(cs.prior)
		c.key, c.spread = k, m.class.spread.clone()
		if cs.rests < mostRests {
			c.rest = newRest()
			cs.rests++
		}
		cs.by[k] = c
	}
	if m.class != c {
		cs.leave(m)
		c.enter(m)
	}
}

// Leave puts an agent into a class of its own, where nobody comes to it.
func (cs *Classes) Leave(m *Means) {
	cs.leave(m)
	newClass(cs.prior).enter(m)
}

func (cs *Classes) leave(m *Means) {
	c := m.class
	c.members = slices.DeleteFunc(c.members, func(o *Means) bool { return o == m })
	c.fits++ // m is forecast otherwise from now on
	if len(c.members) > 0 {
		c.fit()
	} else if cs.by[c.key] == c {
		delete(cs.by, c.key)
		if c.rest != nil {
			cs.rests--
		}
	}
}

// Len is how many classes there are.
func (cs *Classes) Len() int { return len(cs.by) }

// Gates are how many classes have a tree for what their lines leave over, of how many of them it is added to
// forecasts now, and how often that began.
func (cs *Classes) Gates() (all, open, openings int) {
	for _, c := range cs.by {
		if c.rest == nil {
			continue
		}
		all++
		openings += c.rest.gate.Openings()
		if c.rest.gate.Open() {
			open++
		}
	}
	return all, open, openings
}

// Class forecasts for agents that should be equal: what was seen of one is expected of all. It keeps no sums
// of its own, but fits those of its members, in the order in which they came, so that an agent that goes
// takes with it what it said. No agent says much about the others:
//
//   - an agent that differs counts for itself alone: see differ, and credit for those that differ much;
//   - where two others have been seen, an observation counts as at most absurd times the forecast, or its
//     part, and an agent as at most as much as all others together;
//   - a mean is of what the agents' own means say, each within bounds.
//
// What is seen fades with what is seen of others, too. An agent that was unlucky, or slow for a while, and is
// not asked any more for that, is tried before: once the others have answered some dozens of times without
// it, it is forecast as they are, as long as it answers as they do. If it does not, it is tried again after
// twice as long.
type Class struct {
	prior   Prior
	key     Key
	members []*Means

	coef              line // of TTFT
	token             line // of the time between tokens
	ratio, share, itl float64
	least, most       float64 // of the members' shares, those that are believed

	shrinks float64 // see differ
	weight  float64 // TTFTs that the last fit was made of
	active  int     // agents that they are of
	keep    float64 // what an observation counts when the next one comes
	taught  uint64  // observations in all
	fits    uint64  // how often it was fitted
	since   int     // observations since the last fit
	every   int     // so many are fitted together: where much was seen, one changes little
	faded   int     // observations that what was seen before has not faded for yet

	spread spread // of what comes by what is forecast
	rest   *rest  // nil: it has none

	own []float64 // scratch
	all sums
}

func newClass(p Prior) *Class { return &Class{prior: p} }

func (c *Class) enter(m *Means) {
	if m.class != nil {
		c.fits = max(c.fits, m.class.fits) // whoever is forecast by itself is taught something new, too
	}
	m.class, m.tried, m.failed, m.tries, m.taught, m.moved = c, false, false, 0, c.taught, false
	c.members = append(c.members, m)
	c.fit()
}

// age lets what was seen fade, before something new is.
func (c *Class) age() {
	if c.since > 0 || c.faded == 0 {
		return
	}
	keep := 1.0
	for range c.faded {
		keep *= c.keep
	}
	c.faded = 0
	for _, m := range c.members {
		m.seen.fade(keep)
	}
}

// learned fits the class again when there is enough that is new, or news of an agent that was tried.
func (c *Class) learned(m *Means) {
	c.since++
	c.faded++
	c.taught++
	m.taught = c.taught
	news := m.failed || m.drift.fresh > 0
	if m.failed {
		m.tried, m.failed = false, false
		c.fits++ // it is forecast by its own line again
	}
	if c.since >= c.every || news && c.since > len(c.members)/many {
		c.fit()
	}
}

// believed is what a TTFT of m counts as that was forecast otherwise. Of two nobody knows who is wrong.
func (c *Class) believed(m *Means, ttft, forecast float64) float64 {
	if c.weight-m.seen.line.weight() < enough || c.active < 3 {
		return ttft
	}
	forecast = max(forecast, 1) // a forecast of nothing must be able to grow
	return min(max(ttft, forecast/absurd), forecast*absurd)
}

// odd reports whether an agent says that a prompt has so many tokens as nobody else counts in one like it:
// nothing is learned of how long such a one takes. One that had a hundred times as many would outweigh all
// that the others say.
func (c *Class) odd(m *Means, expected, prompt int) bool {
	others, times := c.weight-m.seen.line.weight(), doubtful
	switch {
	case others < 1 || expected <= 0:
		return false
	case others < enough || c.active < 3:
		times = mostRatio
	}
	return prompt > times*expected+oddTokens || times*(prompt+oddTokens) < expected
}

// fit makes the class's forecast of what was seen of its members.
func (c *Class) fit() {
	c.fits++
	c.since = 0
	count, active := c.seen(func(e *evidence) float64 { return e.count })
	c.keep = 1 - 1/(c.prior.Memory*float64(active))
	c.every = max(1, int(count)/64, len(c.members)/many)

	c.ratio = min(mostRatio, c.mean(1, c.prior.Weight, func(e *evidence) *mean { return &e.ratio }))
	share := func(e *evidence) *mean { return &e.share }
	c.share = c.mean(c.prior.Share, c.prior.Weight, share)
	c.least, c.most = c.bounds(share)
	c.itl = c.mean(0, 0, func(e *evidence) *mean { return &e.itl })
	c.token = c.tokens()

	c.weight, c.active = c.seen(func(e *evidence) float64 { return e.line.weight() + e.gone })
	c.settle()
	assumed := c.prior.line(c.hinted())
	// What was not seen at all is as assumed for good.
	weight := c.prior.Weight * max(0.01, c.left(c.weight, c.active))
	c.credit()
	c.coef = c.line(&assumed, weight)
	if c.differ() {
		c.coef = c.line(&assumed, weight)
	}
	for _, m := range c.members {
		if alone := m.differs && !m.tried; alone != m.alone {
			if m.alone = alone; !m.moved { // it is judged by another line from now on
				m.drift = drift{off: m.drift.off, seen: m.drift.seen, fresh: m.drift.fresh}
			}
		}
		if m.differs && !m.tried {
			if m.moved {
				m.own = m.seen.line.fit(&m.anchor, 1, &m.anchor)
				continue
			}
			n := m.seen.line.weight()
			own := m.seen.line.fit(&c.coef, c.prior.Weight, &c.coef)
			for i, x := range own {
				m.own[i] = c.coef[i] + float64((x-c.coef[i])*n/(n+c.shrinks))
			}
		}
	}
}

// line is what is assumed of an agent with such a base: that a task waits for all of what is left.
func (p *Prior) line(base float64) line {
	return line{base, ms(p.PerToken) * 1000, 0, 1, ms(p.PerTask), 0}
}

// seen is how much of something was seen of all members, and of how many at all.
func (c *Class) seen(pick func(*evidence) float64) (all float64, active int) {
	for _, m := range c.members {
		w := pick(&m.seen)
		if all += w; w >= 1 {
			active++
		}
	}
	return all, max(1, active)
}

// left is what part is left of the prior's weight, when so much was seen of so many agents.
func (c *Class) left(all float64, active int) float64 {
	return max(0, 1-all/(c.prior.Memory*float64(active)))
}

// say is what part of what was seen of an agent counts, when so much was of all.
func say(own, all float64) float64 {
	if others := all - own; others >= enough && own > others {
		return others / own
	}
	return 1
}

// mean is the mean of what the members' own means say, and of what is assumed at so much weight.
func (c *Class) mean(assumed, weight float64, pick func(*evidence) *mean) float64 {
	all, active := c.seen(func(e *evidence) float64 { return pick(e).weight })
	weight *= c.left(all, active)
	least, most := c.bounds(pick)
	sum := float64(assumed * weight)
	for _, m := range c.members {
		if o := pick(&m.seen); o.weight > 0 {
			w := float64(o.weight * say(o.weight, all))
			sum += float64(w * min(max(o.value(), least), most))
			weight += w
		}
	}
	if weight == 0 {
		return assumed
	}
	return sum / weight
}

// tokens is the line of the time between tokens, of the members whose mean is believed.
func (c *Class) tokens() line {
	mean := func(e *evidence) *mean { return &e.itl }
	all, _ := c.seen(func(e *evidence) float64 { return e.itl.weight })
	least, most := c.bounds(mean)
	c.all = sums{}
	for _, m := range c.members {
		o := &m.seen.itl
		if o.weight > 0 && o.value() >= least && o.value() <= most {
			c.all.add(&m.seen.token, say(o.weight, all))
		}
	}
	return c.all.fit(&line{1000 * c.itl}, 1, &c.token)
}

// bounds are those within which what a member says is believed: a quarter around the median where three have
// said enough, else more. Of two nobody knows who is wrong.
func (c *Class) bounds(pick func(*evidence) *mean) (least, most float64) {
	for _, b := range []struct{ weight, factor float64 }{{enough, 1.25}, {1, doubtful}} {
		c.own = c.own[:0]
		for _, m := range c.members {
			if o := pick(&m.seen); o.weight >= b.weight {
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

// hinted is the lower median of the bases that the members say they have.
func (c *Class) hinted() float64 {
	c.own = c.own[:0]
	for _, m := range c.members {
		c.own = append(c.own, m.base)
	}
	return c.median()
}

// line is fitted to what is assumed and what was seen of the members that are like the others.
func (c *Class) line(assumed *line, weight float64) line {
	c.all = sums{}
	for _, m := range c.members {
		if m.credible && !m.differs {
			c.all.add(&m.seen.line, say(m.seen.line.weight(), c.weight))
		}
	}
	if c.all.weight() == 0 { // all have turned
		for _, m := range c.members {
			if m.credible {
				c.all.add(&m.seen.line, 1)
			}
		}
	}
	return c.all.fit(assumed, weight, assumed)
}

// credit finds whose answers are believed for a first line: those that took, by what the prior expects of
// such tasks, between doubtful times and such a part of what the median agent took, and did not vary more.
func (c *Class) credit() {
	usual := c.prior.line(ms(c.prior.Base))
	taken := func(m *Means) (mean, square float64) {
		s := &m.seen.line
		expected := 0.0
		for i, b := range usual {
			expected += float64(b * s.xx[0][i])
		}
		if expected == 0 {
			expected = s.xx[0][0]
		}
		return s.xy[0] / expected, math.Sqrt(s.yy*s.xx[0][0]) / expected
	}
	c.own = c.own[:0]
	for _, m := range c.members {
		m.differs, m.credible = false, false
		if m.seen.line.weight() > 0 {
			mean, _ := taken(m)
			c.own = append(c.own, mean)
		}
	}
	if len(c.own) == 0 {
		return
	}
	median := c.median()
	for _, m := range c.members {
		if m.seen.line.weight() > 0 {
			mean, square := taken(m)
			m.credible = mean >= median/doubtful && square <= median*doubtful
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
		if m.seen.line.weight() >= enough {
			off, _ := m.seen.line.off(&c.coef)
			c.own = append(c.own, off)
		}
		if m.moved {
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
		if m.seen.line.weight() < enough && !m.moved {
			continue
		}
		off, deviates := m.seen.line.off(&c.coef)
		by := math.Abs(off - median)
		within += float64(deviates * deviates * m.seen.line.weight())
		between += float64(by * by)
		if by <= 3*deviates && m.seen.line.weight() >= enough || by <= c.coef[0]/10 {
			m.tried, m.tries, m.moved = false, 0, false
			continue
		}
		m.differs, any = true, true
		if after := uint64(enough*c.active) << m.tries; !m.tried && c.taught-m.taught >= after {
			m.tried, m.tries = true, min(m.tries+1, mostTries)
		}
	}
	// An agent is drawn to its class by as many answers as it takes for what tells agents apart to exceed
	// what tells one agent's answers apart.
	c.shrinks = min(max(within/max(between, 1e-9), leastPrior), mostPrior)
	return any
}

// settle takes it that the class has turned, where most of those that answer have.
func (c *Class) settle() {
	moved := 0
	for _, m := range c.members {
		if m.moved {
			moved++
		}
	}
	if 2*moved < c.active || c.active == 2 { // of two nobody knows who is as the class is
		return
	}
	for _, m := range c.members {
		if !m.moved {
			m.seen.forget(1) // it was forecast by what the class was, or the others would not be most
		}
		m.moved = false
	}
	c.rest.mute()
}
