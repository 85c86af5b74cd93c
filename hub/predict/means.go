package predict

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Prior is what is expected of an agent that nobody has seen run.
type Prior struct {
	Base     time.Duration `yaml:"base"`         // TTFT of a fully cached prompt on an idle engine
	PerToken time.Duration `yaml:"per_token"`    // added per uncached prompt token
	PerTask  time.Duration `yaml:"per_task"`     // added per task that decodes on the agent
	Slowest  time.Duration `yaml:"slowest_itl"`  // slowest between tokens, until a slower one is seen
	Share    float64       `yaml:"output_share"` // of max_tokens that an answer uses
	Weight   float64       `yaml:"weight"`       // tasks that the prior counts as
	Memory   float64       `yaml:"memory"`       // tasks of an agent after which what was seen counts a third
}

// DefaultPrior is of the size of an 8B to 32B model on one GPU: some 8,000 prompt tokens a second, a few
// milliseconds per running task. It fades after the first few tasks.
func DefaultPrior() Prior {
	return Prior{
		Base: 30 * time.Millisecond, PerToken: 120 * time.Microsecond, PerTask: 2 * time.Millisecond,
		Slowest: 100 * time.Millisecond, Share: 0.4, Weight: 2, Memory: 200,
	}
}

// Validate judges a prior and changes nothing.
func (p Prior) Validate() error {
	var errs []error
	for _, d := range []struct {
		name string
		v    time.Duration
	}{{"base", p.Base}, {"per_token", p.PerToken}, {"per_task", p.PerTask}, {"slowest_itl", p.Slowest}} {
		if d.v < 0 || d.v > time.Minute {
			errs = append(errs, fmt.Errorf("%s: %v is not from 0 to 1m", d.name, d.v))
		}
	}
	if p.Slowest <= 0 {
		errs = append(errs, errors.New("slowest_itl: must be above 0, or no answer is given time to end"))
	}
	if !(p.Share >= 0 && p.Share <= 1) {
		errs = append(errs, fmt.Errorf("output_share: %v is not from 0 to 1", p.Share))
	}
	if !(p.Weight > 0 && p.Weight <= 1000) {
		errs = append(errs, fmt.Errorf("weight: %v is not above 0 and at most 1000", p.Weight))
	}
	if !(p.Memory >= 1 && p.Memory <= 1e6) {
		errs = append(errs, fmt.Errorf("memory: %v is not from 1 to 1e6", p.Memory))
	}
	return errors.Join(errs...)
}

// Means is what was seen of one agent. It forecasts by what was seen of all agents of its class, as running
// means that forget: TTFT as a [line] fitted by least squares over decayed sums; output as a share of
// max_tokens; prompt tokens as a ratio to the door's estimate. What the agent has for itself is how its TTFT
// differs, once there is evidence for it, and the slowest time between tokens. Forecasts depend on nothing
// but what the class was made with and what it was taught, in that order, so that the same history gives the
// same round. Not for concurrent use.
type Means struct {
	// what every quote reads stands first, and so together in memory
	class    *Class
	Credible bool // its TTFTs are not far from the others'
	Differs  bool // from its class: own is the line that it is forecast by, unless it is tried
	Tried    bool // it is forecast as its class is, as long as it answers so
	Failed   bool // it was tried, and answered as it did before
	Alone    bool // it is forecast by its own line
	Moved    bool // it does not answer as it did, and not as the others of its class

	prior Prior
	Seen  evidence

	Base    float64 // the height of the line that it says it has, in milliseconds
	Tries   int     // so often since it was like its class
	Taught  uint64  // of the class's observations, its last
	Own     line    // the class's, drawn to what was seen of the agent before it was tried
	Slowest float64 // seconds

	Pace   ratios // of its times between tokens by what was forecast
	Drift  drift
	Anchor line    // what it is drawn to while it has moved
	Apart  *spread // where it differs from its class, of its own forecasts
	Doubts []said  // its last answers, where they are far off: whether it has turned is not known yet
}

// evidence is the decayed sums of what was seen.
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

// forget leaves what was seen of first tokens the weight of so many answers.
func (e *evidence) forget(most float64) {
	if n := e.Line.weight(); n > most {
		e.Gone += n - most
		e.Line.fade(most / n)
	}
}

// fade makes what was seen count less.
func (e *evidence) fade(keep float64) {
	e.Count *= keep
	e.Gone, e.Real = e.Gone*keep, e.Real*keep
	e.Line.fade(keep)
	e.Token.fade(keep)
	for _, m := range []*mean{&e.Ratio, &e.Share, &e.ITL} {
		m.Sum, m.Weight = m.Sum*keep, m.Weight*keep
	}
}

// NewMeans returns a predictor that knows nothing but its prior, in a class of its own.
func NewMeans(p Prior) *Means {
	m := &Means{prior: p, Base: ms(p.Base), Slowest: p.Slowest.Seconds()}
	newClass(p).enter(m)
	return m
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Tokens expects how many tokens the agent counts in a prompt that the door estimated at so many.
func (m *Means) Tokens(estimate int) int {
	return m.class.prompt(estimate)
}

func (c *Class) prompt(estimate int) int {
	if estimate <= 0 {
		return 0
	}
	return max(1, int(math.Floor(0.5+float64(float64(estimate)*c.Ratio))))
}

// Forecast is what a task with these features is expected to need.
func (m *Means) Forecast(f Features) Forecast {
	first, work, output := m.Idle(f)
	to := m.Timed(first, work, output, m.Delay(f.Load))
	to.ITL = m.Token(f.Load)
	return to
}

// First is when the first token of a task with these features is expected: of its Forecast that alone.
func (m *Means) First(f Features) time.Duration {
	first, work, _ := m.Idle(f)
	return m.Later(first, work, m.Delay(f.Load))
}

// Delay is how much longer a first token takes for what the agent has in hand: for all of it, and for the
// prompts before it alone.
type Delay struct{ All, Queue time.Duration }

// Typical reports whether the agent's answers are about as long as those of the others of its class: else
// they say nothing of those who ask.
func (m *Means) Typical() bool {
	o := &m.Seen.Share
	return o.Weight == 0 || o.value() >= m.class.Least && o.value() <= m.class.Most
}

// Usual is how many tokens an answer of so many at most has at agents of the class.
func (m *Means) Usual(most int) int {
	return min(max(int(math.Round(m.class.Share*float64(most))), min(1, most)), most)
}

// Timed is Forecast but for the time between tokens, of a task that Idle has told of, where what the agent
// has in hand delays it by so much.
func (m *Means) Timed(first time.Duration, work float64, output int, delay Delay) Forecast {
	to := Forecast{TTFT: m.Later(first, work, delay), Output: output}
	m.around(&to)
	return to
}

// around is within what an answer is expected that is forecast so.
func (m *Means) around(to *Forecast) {
	least, top, known := m.seenRanges().within(ms(to.TTFT))
	if !known {
		least, top, known = m.class.Spread.within(ms(to.TTFT))
	}
	if to.wide = !known; m.Drift.Fresh > 0 {
		least, top, to.wide = max(0, 2*least-1), 2*top-1, true
	}
	seconds := to.TTFT.Seconds()
	to.Low, to.High = min(to.TTFT, span(seconds*least)), max(to.TTFT, span(seconds*top))
}

// Idle is Forecast where nothing is in hand, as far as rounds read it: when the first token is expected by
// the line alone and how many thousand tokens there are to compute, both for Later, and how many tokens come.
func (m *Means) Idle(f Features) (first time.Duration, work float64, output int) {
	if output = f.Answer; output <= 0 {
		output = m.Usual(f.MaxTokens)
	}
	first, work = m.idle(&f)
	return first, work, min(output, f.MaxTokens)
}

// idle is what the line says of a task, and how many thousand tokens it has to compute.
func (m *Means) idle(f *Features) (first time.Duration, work float64) {
	prompt := cmp.Or(f.Counted, m.Tokens(f.Prompt))
	x := at(max(1, prompt-f.Cached), min(prompt, max(0, f.Cached)), Load{})
	return span(m.line().along(&x) / 1000), x[1]
}

// Later is when the first token is expected beside what the agent has in hand, of a task that Idle has told
// of. It grows with what there is to compute and with what is in hand.
func (m *Means) Later(first time.Duration, work float64, delay Delay) time.Duration {
	to := min(first+max(0, delay.All), time.Hour)
	if b := m.line(); b == &m.class.Coef {
		return together(to, m.class.rest.add(b, work, delay))
	}
	return to
}

// Least is at most what Later says, and found sooner.
func (m *Means) Least(first time.Duration, work float64, delay Delay) time.Duration {
	to := min(first+max(0, delay.All), time.Hour)
	if b := m.line(); b == &m.class.Coef {
		return together(to, m.class.rest.least(b, work, delay))
	}
	return to
}

// together is what the line says and what is added to it, within bounds.
func together(line, added time.Duration) time.Duration {
	return min(max(line/mostTimes, line+added), mostTimes*line, time.Hour)
}

// Soonest is at most what Later says, whatever there is to compute, where what is in hand delays the first
// token by so much. It grows with that, and by no more. Where nothing is added to the line it is what Later
// says.
func (m *Means) Soonest(first, all time.Duration) time.Duration {
	to := min(first+max(0, all), time.Hour)
	if m.line() == &m.class.Coef && m.class.rest.opened() {
		return to / mostTimes
	}
	return to
}

// ofClass reports whether what comes of the agent is held against the forecasts of its class.
func (m *Means) ofClass() bool { return !m.Alone && (m.Credible || m.Seen.Line.weight() == 0) }

// seenRanges returns the ranges of the forecasts that are made of the agent.
func (m *Means) seenRanges() *spread {
	switch {
	case m.ofClass():
		return &m.class.Spread
	case m.Apart != nil:
		return m.Apart
	}
	return &unseen
}

// unseen are the ranges of an agent that differs from its class, before it has any.
var unseen spread

// ranges returns the ranges that an answer of the agent counts for.
func (m *Means) ranges() *spread {
	if m.ofClass() {
		return &m.class.Spread
	}
	if m.Apart == nil {
		m.Apart = new(spread)
	}
	return m.Apart
}

// compare takes in an answer beside what was said of it. One that is far off counts once another was not: if
// the agent has turned, it says nothing of what its class's answers come within, nor of the agent's from now
// on.
func (m *Means) compare(to *Forecast, ttft float64) {
	a := to.beside(ttft)
	far := a.outlies()
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

// mostDoubts is how many answers in a row may be far off before they count, turned or not, where the agent
// is not one of several in its class: an alarm takes fewer.
const mostDoubts = 5

// turned takes in that the agent takes so many times as long as was forecast: that counts as a few answers,
// and what was seen before no more.
func (m *Means) turned(times float64) {
	m.Doubts = m.Doubts[:0]
	m.Anchor = *m.line()
	for i := range m.Anchor { // what none of its tasks shows would grow with each turn, and without end
		m.Anchor[i] = min(float64(m.Anchor[i]*times), 3.6e6/usual[i])
	}
	m.Seen.forget(kept)
	m.Seen.Line.follow(&m.Anchor)
	m.Moved = true
	m.class.Since = max(m.class.Since, m.class.Every) // it is fitted anew
	if m.class.Active <= 2 {
		m.class.rest.mute()
	}
}

// Delay is how much longer a first token takes beside such a load.
func (m *Means) Delay(l Load) Delay {
	x := at(0, 0, l)
	x[0] = 0
	b := m.line()
	return Delay{span(b.along(&x) / 1000), span(float64(b[3]*x[3]) / 1000)}
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

// Work is how long it takes to compute so many tokens behind so many that are cached.
func (m *Means) Work(uncached, cached int) time.Duration {
	x := at(max(0, uncached), max(0, cached), Load{})
	x[0] = 0
	return span(m.line().along(&x) / 1000)
}

// line is the one that the agent is forecast by.
func (m *Means) line() *line {
	if m.Differs && !m.Tried {
		return &m.Own
	}
	return &m.class.Coef
}

// span turns seconds into a duration between 0 and an hour, which is what no number is taken for: nothing
// that cannot be reckoned is soon.
func span(seconds float64) time.Duration {
	switch {
	case seconds < 3600 && seconds > 0:
		return time.Duration(seconds * float64(time.Second))
	case seconds <= 0:
		return 0
	}
	return time.Hour
}

// Learn takes in how such a task went.
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
		// The slowest fades towards the prior, so that one stall does not hold money back for ever.
		m.Slowest = max(s, m.prior.Slowest.Seconds(), m.Slowest*(1-1/m.prior.Memory))
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
		odd := m.class.odd(m, cmp.Or(f.Counted, m.class.prompt(f.Prompt)), o.Prompt)
		expected := m.line().along(&x)
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
		if c := m.class; c.rest != nil && m.Drift.Fresh == 0 && m.line() == &c.Coef &&
			(m.Credible || e.Line.weight() == 0) {
			c.rest.learn(&c.Coef, &x, ttft-expected, weight*say(e.Line.weight(), c.Weight))
		}
		e.Line.enter(&x, ttft, weight)
	}
	m.class.learned(m)
}

// Hint takes in the mean TTFT that an agent says of itself. It shifts the line that is assumed, as the agent
// knows its engine better than a table does; the slopes stay. Once the class was seen hints count no
// more, but for one far below the one in force: that was a mistake, and would weigh on every forecast
// until many tasks have shown so, of which none might come.
func (m *Means) Hint(ttft time.Duration) {
	base := ms(m.prior.Base)
	if ttft > 0 { // of a middling prompt: the prior's line is moved to pass through it at 500 tokens
		base = max(0, min(ms(ttft), 3.6e6)-float64(ms(m.prior.PerToken)*500))
	}
	if base != m.Base && (m.class.Weight == 0 || base < m.Base/4) {
		m.Base = base
		m.class.fit()
	}
}

// Line is what agents have in common that are forecast alike.
type Line struct {
	class *Class
	own   *Means // nil: the class's
}

// Line is the one that m is forecast by. It says the same until [Means.Fits] changes.
func (m *Means) Line() Line {
	if m.Differs && !m.Tried {
		return Line{m.class, m}
	}
	return Line{m.class, nil}
}

// Stands reports whether it is still what an agent is forecast by that had so many Fits when it was asked
// for.
func (l Line) Stands(fits uint64) bool { return l.class != nil && l.class.Fits == fits }

// Tokens is [Means.Tokens] of those who are forecast so.
func (l Line) Tokens(estimate int) int { return l.class.prompt(estimate) }

// Fits counts how often what m is forecast by was made anew.
func (m *Means) Fits() uint64 { return m.class.Fits }

// SlowestITL is the slowest time between tokens seen lately: it bounds how long an answer may take.
func (m *Means) SlowestITL() time.Duration { return span(m.Slowest) }

// SlowestToken is what one in a hundred of the agent's answers takes between tokens at most beside such a
// load, once two hundred were seen. It is by the line of its class and its own answers.
func (m *Means) SlowestToken(l Load) (time.Duration, bool) {
	most, _, known := m.Pace.most()
	token := m.Token(l)
	return span(token.Seconds() * max(1, most)), known && token > 0
}

// LatestFirst is when one in a thousand first tokens comes at the latest of those that are forecast so, once
// two hundred of about that size were seen.
func (m *Means) LatestFirst(forecast time.Duration) (time.Duration, bool) {
	_, most, known := m.seenRanges().group(ms(forecast)).most()
	return span(forecast.Seconds() * max(1, most)), known
}

// Watch is when a first token that is forecast so comes at the latest but in one case of a thousand, as far
// as that is known. It says so sooner than [Means.LatestFirst], and then the later time.
func (m *Means) Watch(forecast time.Duration) (time.Duration, bool) {
	g := m.seenRanges().group(ms(forecast))
	times, known := g.rare()
	if m.Drift.Fresh > 0 {
		times *= 2
	}
	return span(forecast.Seconds() * max(1, times)), known
}

// Half is within what time half of the first tokens come that are forecast so, as far as that is known.
func (m *Means) Half(forecast time.Duration) time.Duration {
	g := m.seenRanges().group(ms(forecast))
	if g.middle == 0 {
		g = m.class.Spread.group(ms(forecast))
	}
	if g.middle == 0 {
		return forecast
	}
	return span(forecast.Seconds() * g.middle)
}

// ITL is the mean time between tokens of the class; 0 while none was measured.
func (m *Means) ITL() time.Duration { return span(m.class.ITL) }

// OwnITL is the mean time between tokens of the agent alone; 0 while none was measured.
func (m *Means) OwnITL() time.Duration {
	if m.Seen.ITL.Weight == 0 {
		return 0
	}
	return span(m.Seen.ITL.value())
}
