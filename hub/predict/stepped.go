package predict

import (
	"math"
	"time"
)

// stepped forecasts first tokens of a class by the steps of its engines. Its forecasts stand in the place of
// those of the class's line while they err less.
type stepped struct {
	coef line
	off  [2]float64 // how far it is off on the mean: first tokens, and times between tokens, in milliseconds

	line, steps float64 // decayed errors of either way's first tokens
	judged      int
	open        bool
	openings    int
	spread      spread // of what comes by its forecasts
	fresh       spread // the same, of those that were fresh
}

// ranges are those of forecasts that are fresh, or are not.
func (s *stepped) ranges(fresh bool) *spread {
	if fresh {
		return &s.fresh
	}
	return &s.spread
}

const (
	stepsFade = 0.99
	// stepsAfter is how many forecasts are judged before they may count, and stepsBetter what part of the
	// error they have to save then.
	stepsAfter, stepsBetter = 200, 0.02
	// stepsTokens is what a time between tokens counts by a first token: it is a mean of many steps.
	stepsTokens = 20
	// latelyPart is what an answer counts of how far an agent is off of late.
	latelyPart = 0.1
	// mostOffs is how many times as far off as most an answer counts as.
	mostOffs = 5
)

// judge takes in by how much each way was off.
func (s *stepped) judge(line, steps, weight float64) {
	part := (1 - stepsFade) * min(1, weight)
	s.line += float64(part * (line - s.line))
	s.steps += float64(part * (steps - s.steps))
	if s.judged < stepsAfter {
		s.judged++
		return
	}
	switch {
	case !s.open && s.steps < float64(s.line*(1-stepsBetter)):
		s.open = true
		s.openings++
	case s.steps >= s.line:
		s.open = false
	}
}

// mute ends that its forecasts count until they have shown anew that they err less.
func (s *stepped) mute() { s.open, s.judged, s.line, s.steps = false, 0, 0, 0 }

// counts is what an observation counts that is so far off: one that is further off than most pulls no more
// than one that is as far off as most.
func (s *stepped) counts(kind int, by float64) float64 {
	by = math.Abs(by)
	off := &s.off[kind]
	if *off == 0 {
		*off = by
	}
	*off += float64((min(by, float64(mostOffs**off)) - *off) / 100)
	return min(1, *off/max(by, 1e-6))
}

// steps is what is assumed of the steps of an engine of such a prior: a third of its base is the rest of a
// step that a task waits for.
func (p *Prior) steps() line {
	return line{ms(p.Base) * 2 / 3, ms(p.PerToken) * 1000, 0, 0, ms(p.PerTask), 0}
}

// promise is when a first token was to come and within what, in milliseconds, most 0: of no known width; and
// what that goes by, of forecasts by steps: how far off the agent was of late, and whether it was fresh.
type promise struct {
	first, least, most, by float64
	fresh                  bool
}

// Said is what is said of a task when it is dispatched.
type Said struct {
	Forecast
	line, steps promise // by either way; of none, 0
	path        Path
}

// Along is what is said of a task with a forecast and such a path.
func (m *Means) Along(f Forecast, p Path) Said {
	to := Said{Forecast: f, path: p, line: promised(&f)}
	if !p.known || !m.ofClass() {
		return to
	}
	c := m.class
	f.TTFT = span(c.stepped.coef.along(&p.x) / 1000)
	// An agent that was far off of late will be: what it has in hand was misjudged.
	by := max(m.lately, 1e-3)
	m.around(&f, c.stepped.ranges(p.fresh), by)
	to.steps = promised(&f)
	to.steps.by, to.steps.fresh = by, p.fresh
	if c.stepped.open && m.line() == &c.coef {
		to.Forecast = f
	}
	return to
}

// First is when the first token is expected by the line alone.
func (s *Said) First() time.Duration { return span(s.line.first / 1000) }

func promised(f *Forecast) promise {
	p := promise{first: ms(f.TTFT)}
	if !f.wide {
		p.least, p.most = ms(f.Low), ms(f.High)
	}
	return p
}

// steps takes in how a task went whose steps were foreseen, and what steps computed while it answered.
func (m *Means) steps(f *Features, o *Observation, cached int, ttft, weight float64) {
	c, s := m.class, &m.class.stepped
	if x := o.Said.path.x; o.Said.path.known && ttft > 0 {
		// what was believed to be cached was not, or more was
		u, believed := max(1, o.Prompt-cached), max(1, f.Counted-f.Cached)
		own, was := at(u, max(0, cached), Load{}), at(believed, max(0, f.Cached), Load{})
		x[0] = max(1, x[0]+float64(u-believed)/mostBatched)
		x[1], x[2] = max(0, x[1]+own[1]-was[1]), max(0, x[2]+own[2]-was[2])
		m.seen.steps.enter(&x, ttft, float64(weight*s.counts(0, ttft-s.coef.along(&x))))
	}
	if itl := min(ms(o.ITL), 60_000); itl > 0 && o.Between.known {
		x := o.Between.x
		m.seen.steps.enter(&x, itl, float64(stepsTokens*s.counts(1, itl-s.coef.along(&x))))
	}
	if first := o.Said.steps.first; first > 0 && ttft > 0 {
		m.lately += float64((min(1, math.Abs(ttft-first)/first) - m.lately) * latelyPart)
	}
	if said := &o.Said; said.steps.first > 0 && ttft > 0 && m.line() == &c.coef &&
		(m.credible || m.seen.line.weight() == 0) {
		s.judge(math.Abs(ttft-said.line.first), math.Abs(ttft-said.steps.first),
			float64(weight*say(m.seen.line.weight(), c.weight)))
	}
}

// Path is what an engine computes until the first token of such a prompt, were it sent there now.
func (q *Queue) Path(m *Means, now int64, prompt, cached int) Path {
	if !m.ofClass() {
		return Path{}
	}
	s := q.engine()
	s.b = m.class.stepped.coef
	x := s.path(now, prompt, cached)
	return Path{x, true, s.fresh(now)}
}

// Answered takes in that a task was answered to its end: so many tokens, the first of them so long after its
// dispatch and the others so long after each other, as its agent says: no later than now. It returns what a
// step computed meanwhile, on the mean.
func (q *Queue) Answered(now int64, number uint64, ttft, itl time.Duration, tokens int) Path {
	for i := range q.jobs {
		if j := &q.jobs[i]; j.number == number && ttft > 0 {
			left := max(0, now-j.sent)
			left -= min(left, int64(ttft))
			if n := int64(max(0, tokens-1)); n > 0 {
				left -= min(left/n, int64(max(0, itl))) * n
			}
			return q.engine().ended(now-left, number, tokens)
		}
	}
	return Path{}
}

// BySteps reports whether it is by the steps of the engine.
func (s *Said) BySteps() bool {
	p := promised(&s.Forecast)
	p.by, p.fresh = s.steps.by, s.steps.fresh
	return p.first > 0 && p == s.steps
}

// Stepped are of how many classes first tokens are forecast by the steps of their engines now, and how often
// that began.
func (cs *Classes) Stepped() (now, began int) {
	for _, c := range cs.by {
		began += c.stepped.openings
		if c.stepped.open {
			now++
		}
	}
	return now, began
}
