package predict

import (
	"cmp"
	"math"
	"time"
)

// Means forecasts for one agent. It uses the observations of all agents of its class, as running means that
// forget: TTFT as a [line] fitted by least squares over decayed sums; output as a share of max_tokens; prompt
// tokens as a ratio to the door's estimate. Of its own the agent has the difference of its TTFT, once there
// is evidence for it, and the slowest time between tokens. Forecasts depend only on the class's configuration
// and its observations, in their order, so that the same history gives the same round. For one goroutine.
type Means struct {
	// what every quote reads stands first, and so together in memory
	class    *Class
	Credible bool // its TTFTs are not far from the others'
	Differs  bool // from its class: own is the line that it is forecast by, unless it is tried
	Tried    bool // it is forecast as its class is, as long as it answers so
	Failed   bool // it was tried, and answered as it did before
	Alone    bool // it is forecast by its own line
	Moved    bool // it does not answer as it did, and not as the others of its class

	Seen evidence

	Tries   int     // so often since it was like its class
	Taught  uint64  // of the class's observations, its last
	Own     line    // the class's, drawn to what was seen of the agent before it was tried
	Slowest float64 // seconds

	Pace   spread // of its times between tokens by what was forecast
	Drift  drift
	Anchor line   // what it is drawn to while it has moved
	Apart  spread // where it differs from its class, of its own forecasts
	Doubts []said // its last answers, where they are far off: whether it has turned is not known yet
}

// evidence holds the decayed sums of an agent's observations.
type evidence struct {
	Count float64 // observations
	Gone  float64 // of TTFTs, that an alarm has forgotten: the prior does not count more for it
	Real  float64 // of TTFTs, but warm-ups

	Ratio, Share, ITL mean // itl in seconds; quotes read these, so they come first
	Line, Token       sums // of TTFT, and of the time between tokens
}

// mean is a mean of what was seen.
type mean struct{ Sum, Weight float64 }

func (m *mean) add(x float64)  { m.Sum, m.Weight = m.Sum+x, m.Weight+1 }
func (m *mean) value() float64 { return m.Sum / m.Weight }

// forget lowers the weight of the first tokens seen to so many answers.
func (e *evidence) forget(most float64) {
	if n := e.Line.weight(); n > most {
		e.Gone += n - most
		e.Line.fade(most / n)
	}
}

// fade decays the evidence.
func (e *evidence) fade(keep float64) {
	e.Count *= keep
	e.Gone, e.Real = e.Gone*keep, e.Real*keep
	e.Line.fade(keep)
	e.Token.fade(keep)
	for _, m := range []*mean{&e.Ratio, &e.Share, &e.ITL} {
		m.Sum, m.Weight = m.Sum*keep, m.Weight*keep
	}
}

// NewMeans returns a predictor that knows nothing but what is assumed, in a class of its own.
func NewMeans() *Means {
	m := new(Means)
	new(Class).enter(m)
	return m
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Forecast returns the expected need of a task with these features.
func (m *Means) Forecast(f Features) Forecast {
	first, work, output := m.Line().Idle(f)
	return m.Timed(first, work, output, m.Delay(f.Load))
}

// First returns the expected first token of a task with these features, as Forecast does.
func (m *Means) First(f Features) time.Duration {
	first, work, _ := m.Line().Idle(f)
	return m.Line().Later(first, work, m.Delay(f.Load))
}

// Typical reports whether the agent's answers are about as long as those of the others of its class: else
// they say nothing of those who ask.
func (m *Means) Typical() bool {
	o := &m.Seen.Share
	return o.Weight == 0 || o.value() >= m.class.Least && o.value() <= m.class.Most
}

// Timed is Forecast of a task whose idle figures and delay are given.
func (m *Means) Timed(first time.Duration, work float64, output int, delay Delay) Forecast {
	to := Forecast{TTFT: m.Line().Later(first, work, delay), Output: output}
	least, top, known := m.ranges().within()
	if !known {
		least, top, known = m.class.Spread.within()
	}
	if to.wide = !known; m.Drift.Fresh > 0 {
		least, top, to.wide = max(0, 2*least-1), 2*top-1, true
	}
	seconds := to.TTFT.Seconds()
	to.Low, to.High = min(to.TTFT, span(seconds*least)), max(to.TTFT, span(seconds*top))
	return to
}

// ofClass reports whether what comes of the agent is held against the forecasts of its class.
func (m *Means) ofClass() bool { return !m.Alone && (m.Credible || m.Seen.Line.weight() == 0) }

// ranges returns those of the forecasts that are made of the agent, for which its answers count.
func (m *Means) ranges() *spread {
	if m.ofClass() {
		return &m.class.Spread
	}
	return &m.Apart
}

// Delay returns the time that such a load adds to a first token.
func (m *Means) Delay(l Load) Delay { return m.Line().Delay(l) }

// Delay is [Means.Delay] of the agents that are forecast so.
func (l Line) Delay(in Load) Delay {
	all, queue := l.coef.delay(in)
	return Delay{All: span(all / 1000), Queue: span(queue / 1000)}
}

// Token is the time between tokens beside such a load, at agents of the class; 0 while none was measured.
func (m *Means) Token(l Load) time.Duration {
	if m.class.ITL == 0 {
		return 0
	}
	x := at(0, 0, l)
	x[3] = 0
	return span(m.class.Token.along(&x) / 1000)
}

// span turns seconds into a duration between 0 and an hour; NaN becomes an hour, so that an incomputable time
// is never taken for a short one.
func span(seconds float64) time.Duration {
	switch {
	case seconds < 3600 && seconds > 0:
		return time.Duration(seconds * float64(time.Second))
	case seconds <= 0:
		return 0
	}
	return time.Hour
}

// Line is the forecast that agents of a class share.
type Line struct {
	class  *Class
	coef   *line   // the class's, or that of an agent that differs
	ranges *spread // of what is forecast so
}

// Line is the one that m is forecast by. It says the same until something is learned of an agent of its
// class.
func (m *Means) Line() Line {
	l := Line{m.class, &m.class.Coef, m.ranges()}
	if m.Differs && !m.Tried {
		l.coef = &m.Own
	}
	return l
}

// Tokens expects how many tokens there are in a prompt that the door estimated at so many.
func (l Line) Tokens(estimate int) int {
	if estimate <= 0 {
		return 0
	}
	return max(1, int(math.Floor(0.5+float64(float64(estimate)*l.class.Ratio))))
}

// Usual returns the usual length of an answer of at most so many tokens, at agents of the class.
func (l Line) Usual(most int) int {
	return min(max(int(math.Round(l.class.Share*float64(most))), min(1, most)), most)
}

// Idle is [Means.Forecast] where nothing is in hand, as far as estimates read it: when the first token is
// expected by the line alone and how many thousand tokens there are to compute, both for Later, and how many
// tokens come.
func (l Line) Idle(f Features) (first time.Duration, work float64, output int) {
	if output = f.Answer; output <= 0 {
		output = l.Usual(f.MaxTokens)
	}
	prompt := cmp.Or(f.Counted, l.Tokens(f.Prompt))
	b := l.coef
	to, work := b.alone(b[0], max(1, prompt-f.Cached), min(prompt, max(0, f.Cached)))
	return span(to / 1000), work, min(output, f.MaxTokens)
}

// Later returns the expected first token under the agent's load, of a task whose idle time and work are
// given. It rises with the work and with the load.
func (l Line) Later(first time.Duration, work float64, delay Delay) time.Duration {
	to := min(first+max(0, delay.All), time.Hour)
	if l.coef == &l.class.Coef {
		added := l.class.rest.add(&l.class.Coef, work, delay)
		return min(max(to/mostTimes, to+added), mostTimes*to, time.Hour)
	}
	return to
}

// Work returns the time to compute so many tokens behind so many cached ones.
func (l Line) Work(uncached, cached int) time.Duration {
	takes, _ := l.coef.alone(0, uncached, cached)
	return span(takes / 1000)
}

// SlowestITL is the slowest time between tokens seen lately: it bounds how long an answer may take.
func (m *Means) SlowestITL() time.Duration { return span(m.Slowest) }

// SlowestToken returns the time between tokens that 99 in 100 of the agent's answers keep beside such a load,
// once two hundred were seen. It goes by the line of its class and its own answers.
func (m *Means) SlowestToken(l Load) (time.Duration, bool) {
	most, _, seen := m.Pace.most()
	token := m.Token(l)
	return span(token.Seconds() * max(1, most)), seen >= ratiosOf && token > 0
}

// Watch returns the time by which 999 in 1000 first tokens with such a forecast have come, as far as that is
// known: later while few were seen.
func (m *Means) Watch(forecast time.Duration) (time.Duration, bool) {
	_, times, seen := m.ranges().most()
	if m.Drift.Fresh > 0 {
		times *= 2
	}
	return span(forecast.Seconds() * max(1, times)), seen > 0
}

// Half returns the time within which half of the first tokens with such a forecast come, if that is known.
func (m *Means) Half(forecast time.Duration) time.Duration {
	middle := cmp.Or(m.ranges().middle, m.class.Spread.middle, 1)
	return span(forecast.Seconds() * middle)
}
