package predict

import (
	"cmp"
	"math"
	"slices"
)

// compare takes in an answer with its forecast. One that is far off counts only once another was not: if the
// agent has changed, it tells nothing of the spread of its class's answers, nor of its own from now on.
func (m *Means) compare(to *Forecast, ttft float64) {
	a := said{Observed: ttft, Forecast: max(ms(to.TTFT), 1e-3)}
	if !to.wide {
		a.Low, a.High = ms(to.Low), ms(to.High)
	}
	far := a.Observed > unsure*a.Forecast || unsure*a.Observed < a.Forecast
	if far {
		m.Doubts = append(m.Doubts, a)
		if len(m.Doubts) <= mostDoubts {
			return
		}
		if m.ofClass() && m.class.Active > 2 { // the class goes by its others until an answer is not far off
			m.Doubts = slices.Delete(m.Doubts, 0, 1)
			return
		}
	}
	for i := range m.Doubts {
		m.ranges().count(&m.Doubts[i])
	}
	if m.Doubts = m.Doubts[:0]; !far {
		m.ranges().count(&a)
	}
}

// mostDoubts bounds the answers in a row that are discounted as far off, where the agent is alone in its
// class: an alarm takes fewer.
const mostDoubts = 5

// turned scales the agent's forecast by a factor: what was observed counts as a few answers at the new pace.
func (m *Means) turned(times float64) {
	m.Doubts = m.Doubts[:0]
	m.Anchor = *m.Line().coef
	for i := range m.Anchor { // what none of its tasks shows would grow with each turn, and without end
		m.Anchor[i] = min(float64(m.Anchor[i]*times), 3.6e6/usual[i])
	}
	m.Seen.forget(kept)
	m.Seen.Line.follow(&m.Anchor)
	m.Moved = true
	m.class.Since = max(m.class.Since, m.class.Every) // it is fitted anew
	moved := 0
	for _, other := range m.class.members {
		if other.Moved {
			moved++
		}
	}
	if 2*moved >= m.class.Active {
		m.class.rest.mute()
	}
}

// Learn takes in the outcome of a task with these features.
func (m *Means) Learn(f Features, o Observation) {
	m.class.age()
	e := &m.Seen
	if o.TTFT > 0 && o.Said.TTFT <= 0 {
		o.Said = m.Forecast(f)
	}
	e.Count++
	if f.Prompt > 0 && o.Prompt > 0 {
		e.Ratio.add(min(mostRatio, float64(o.Prompt)/float64(f.Prompt)))
	}
	if f.MaxTokens > 0 && !f.Open && !o.Cut {
		e.Share.add(min(1, float64(max(0, o.Output))/float64(f.MaxTokens)))
	}
	if o.ITL > 0 {
		s := min(o.ITL.Seconds(), 60)
		if token := m.Token(f.Load); token > 0 {
			m.Pace.add(s / token.Seconds())
		}
		m.Slowest = max(s, m.Slowest*(1-1/memory)) // one stall does not hold money back for ever
		e.ITL.add(s)
		x := at(0, 0, f.Load)
		x[3] = 0
		e.Token.enter(&x, 1000*s, 1)
	}
	if o.TTFT > 0 {
		cached := o.Cached
		if o.NoCacheReport {
			cached = f.Cached
		}
		x := at(max(1, o.Prompt-cached), min(max(0, cached), max(0, o.Prompt)), f.Load)
		odd := m.class.odd(m, cmp.Or(f.Counted, m.Line().Tokens(f.Prompt)), o.Prompt)
		expected := m.Line().coef.along(&x)
		ttft := m.class.believed(m, min(ms(o.TTFT), 3.6e6), expected)
		weight := 1.0
		if o.WarmUp {
			weight = 0.5
			if e.Real == 0 {
				ttft = max(ttft, expected)
			}
		} else {
			e.Real++
			if !odd || e.Line.weight() > 0 {
				m.compare(&o.Said, ttft)
			}
			if times, news := m.Drift.count(ttft, expected); news && e.Line.weight() >= enough {
				m.turned(times)
			}
		}
		if m.Tried {
			own, others := m.Own.along(&x), m.class.Coef.along(&x)
			m.Failed = math.Abs(ttft-own) <= math.Abs(ttft-others)
		}
		if odd {
			m.class.learned(m)
			return
		}
		if c := m.class; c.rest != nil && m.Drift.Fresh == 0 && m.Line().coef == &c.Coef &&
			(m.Credible || e.Line.weight() == 0) {
			c.rest.learn(&c.Coef, &x, ttft-expected, weight*say(e.Line.weight(), c.Weight))
		}
		e.Line.enter(&x, ttft, weight)
	}
	m.class.learned(m)
}
