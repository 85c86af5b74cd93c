package predict

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"
)

// Prior is what is expected of an agent that nobody has seen run.
type Prior struct {
	Base     time.Duration `yaml:"base"`         // TTFT of a fully cached prompt on an idle engine
	PerToken time.Duration `yaml:"per_token"`    // added per uncached prompt token
	PerTask  time.Duration `yaml:"per_task"`     // added per task already running on the agent
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

// Products that go into a sum are converted, though they are floats already: it keeps the compiler from
// fusing the two, which would round differently on machines with fused multiply-add, and quotes with it.

// Means is what was seen of one agent. It forecasts by what was seen of all agents of its class, as running
// means that forget: TTFT = base + perToken * uncached + perTask * running, fitted by least squares over
// decayed sums; output as a share of max_tokens; prompt tokens as a ratio to the door's estimate. What the
// agent has for itself is how its TTFT differs, once there is evidence for it, and the slowest time between
// tokens. Forecasts depend on nothing but what the class was made with and what it was taught, in that order,
// so that the same history gives the same round. Not for concurrent use.
type Means struct {
	prior Prior
	class *Class
	seen  evidence

	base     float64    // the height of the line that it says it has, in milliseconds
	credible bool       // its TTFTs are not far from the others'
	differs  bool       // from its class: own is the line that it is forecast by, unless it is tried
	tried    bool       // it is forecast as its class is, as long as it answers so
	failed   bool       // it was tried, and answered as it did before
	tries    int        // so often since it was like its class
	taught   uint64     // of the class's observations, its last
	own      [3]float64 // the class's, drawn to what was seen of the agent before it was tried
	slowest  float64    // seconds
}

// evidence is the decayed sums of what was seen.
type evidence struct {
	count float64 // observations

	line              sums
	ratio, share, itl mean // itl in seconds
}

// sums are those of the normal equations of TTFT over (1, uncached/1000, running), in milliseconds.
type sums struct {
	xx [3][3]float64
	xy [3]float64
	yy float64
}

func (s *sums) weight() float64 { return s.xx[0][0] }

// enter adds an observation.
func (s *sums) enter(x [3]float64, y, weight float64) {
	for i := range x {
		for j := range x {
			s.xx[i][j] += float64(weight * x[i] * x[j])
		}
		s.xy[i] += float64(weight * x[i] * y)
	}
	s.yy += float64(weight * y * y)
}

// add adds another's sums, as so much of themselves.
func (s *sums) add(o *sums, share float64) {
	for i := range s.xx {
		for j := range s.xx {
			s.xx[i][j] += float64(share * o.xx[i][j])
		}
		s.xy[i] += float64(share * o.xy[i])
	}
	s.yy += float64(share * o.yy)
}

// mean is a mean of what was seen.
type mean struct{ sum, weight float64 }

func (m *mean) add(x float64)  { m.sum, m.weight = m.sum+x, m.weight+1 }
func (m *mean) value() float64 { return m.sum / m.weight }

// fade makes what was seen count less.
func (e *evidence) fade(keep float64) {
	e.count *= keep
	for i := range e.line.xx {
		for j := range e.line.xx {
			e.line.xx[i][j] *= keep
		}
		e.line.xy[i] *= keep
	}
	e.line.yy *= keep
	for _, m := range []*mean{&e.ratio, &e.share, &e.itl} {
		m.sum, m.weight = m.sum*keep, m.weight*keep
	}
}

// NewMeans returns a predictor that knows nothing but its prior, in a class of its own.
func NewMeans(p Prior) *Means {
	m := &Means{prior: p, base: ms(p.Base), slowest: p.Slowest.Seconds()}
	newClass(p).enter(m)
	return m
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Tokens expects how many tokens the agent counts in a prompt that the door estimated at so many.
func (m *Means) Tokens(estimate int) int {
	if estimate <= 0 {
		return 0
	}
	return max(1, int(math.Floor(0.5+float64(float64(estimate)*m.class.ratio))))
}

// Forecast is what a task with these features is expected to need.
func (m *Means) Forecast(f Features) Forecast {
	out := int(math.Round(m.class.share * float64(f.MaxTokens)))
	return Forecast{
		TTFT:   span(m.expect(max(1, cmp.Or(f.Counted, m.Tokens(f.Prompt))-f.Cached), f.InFlight) / 1000),
		Output: min(max(out, min(1, f.MaxTokens)), f.MaxTokens),
	}
}

// expect is the TTFT expected of so many tokens to compute beside so many tasks, in milliseconds.
func (m *Means) expect(uncached, running int) float64 {
	if m.differs && !m.tried {
		return along(&m.own, uncached, running)
	}
	return along(&m.class.coef, uncached, running)
}

func along(line *[3]float64, uncached, running int) float64 {
	return line[0] + float64(line[1]*float64(uncached)/1000) + float64(line[2]*float64(running))
}

// span turns seconds into a duration between 0 and an hour.
func span(seconds float64) time.Duration {
	return time.Duration(min(max(0, seconds), 3600) * float64(time.Second))
}

// Learn takes in how such a task went.
func (m *Means) Learn(f Features, o Observation) {
	m.class.age()
	e := &m.seen
	e.count++
	if f.Prompt > 0 && o.Prompt > 0 {
		e.ratio.add(min(mostRatio, float64(o.Prompt)/float64(f.Prompt)))
	}
	if f.MaxTokens > 0 && !o.Cut {
		e.share.add(min(1, float64(max(0, o.Output))/float64(f.MaxTokens)))
	}
	if o.ITL > 0 {
		s := min(o.ITL.Seconds(), 60)
		// The slowest fades towards the prior, so that one stall does not hold money back for ever.
		m.slowest = max(s, m.prior.Slowest.Seconds(), m.slowest*(1-1/m.prior.Memory))
		e.itl.add(s)
	}
	if o.TTFT > 0 {
		cached := o.Cached
		if o.NoCacheReport {
			cached = f.Cached
		}
		uncached := max(1, o.Prompt-cached)
		ttft := m.class.believed(m, min(ms(o.TTFT), 3.6e6), m.expect(uncached, f.InFlight))
		if m.tried {
			own, others := along(&m.own, uncached, f.InFlight), along(&m.class.coef, uncached, f.InFlight)
			m.failed = math.Abs(ttft-own) <= math.Abs(ttft-others)
		}
		e.line.enter([3]float64{1, float64(uncached) / 1000, float64(f.InFlight)}, ttft, 1)
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
	if base != m.base && (m.class.weight == 0 || base < m.base/4) {
		m.base = base
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
	if m.differs && !m.tried {
		return Line{m.class, m}
	}
	return Line{m.class, nil}
}

// Fits counts how often what m is forecast by was made anew.
func (m *Means) Fits() uint64 { return m.class.fits }

// SlowestITL is the slowest time between tokens seen lately: it bounds how long an answer may take.
func (m *Means) SlowestITL() time.Duration { return span(m.slowest) }

// ITL is the mean time between tokens of the class; 0 while none was measured.
func (m *Means) ITL() time.Duration { return span(m.class.itl) }

// OwnITL is that of the agent alone; 0 while none was measured.
func (m *Means) OwnITL() time.Duration {
	if m.seen.itl.weight == 0 {
		return 0
	}
	return span(m.seen.itl.value())
}

// fit solves the normal equations with coefficients held at zero or above: more to compute, or more tasks
// beside it, never makes an engine faster. Three unknowns leave so few sets of free ones that all are tried,
// most first.
func (s *sums) fit() [3]float64 {
	for _, free := range [][]int{{0, 1, 2}, {0, 1}, {0, 2}, {1, 2}, {0}, {1}, {2}} {
		if c, ok := s.solve(free); ok {
			return c
		}
	}
	return [3]float64{}
}

// solve finds the least squares over the free coefficients, the others being 0; ok if all are sound.
func (s *sums) solve(free []int) (coef [3]float64, ok bool) {
	n := len(free)
	var a [3][4]float64
	for i, p := range free {
		for j, q := range free {
			a[i][j] = s.xx[p][q]
		}
		// A trace of ridge keeps a column that has never varied from dividing by nothing.
		a[i][i] += float64(1e-9 * (1 + a[i][i]))
		a[i][n] = s.xy[p]
	}
	for i := range n {
		best := i
		for r := i + 1; r < n; r++ {
			if math.Abs(a[r][i]) > math.Abs(a[best][i]) {
				best = r
			}
		}
		a[i], a[best] = a[best], a[i]
		if a[i][i] == 0 {
			return coef, false
		}
		for r := range n {
			if r == i {
				continue
			}
			k := a[r][i] / a[i][i]
			for c := i; c <= n; c++ {
				a[r][c] -= float64(k * a[i][c])
			}
		}
	}
	for i, p := range free {
		v := a[i][n] / a[i][i]
		if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
			return coef, false
		}
		coef[p] = v
	}
	return coef, true
}
