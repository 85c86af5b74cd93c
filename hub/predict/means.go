package predict

import (
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
	Memory   float64       `yaml:"memory"`       // tasks after which what was seen counts a third
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

// Means predicts by running means that forget: TTFT = base + perToken * uncached + perTask * running, fitted
// by least squares over decayed sums; output as a share of max_tokens; prompt tokens as a ratio to the door's
// estimate. Forecasts depend on nothing but what it was made with and what it was taught, in that order, so
// that the same history gives the same round. Not for concurrent use.
type Means struct {
	prior Prior
	keep  float64 // what an old observation still counts when a new one comes

	// Decayed sums of the normal equations of TTFT over (1, uncached/1000, running), in milliseconds.
	xx   [3][3]float64
	xy   [3]float64
	coef [3]float64
	seen int // TTFTs

	taught uint64

	base, fade float64 // the assumed line's height in milliseconds, and what is left of its weight

	ratio, share, itl mean // itl in seconds
	slowest           float64
}

// mean is a running mean that forgets.
type mean struct{ sum, weight float64 }

func (m *mean) add(x, keep float64) {
	m.sum, m.weight = float64(m.sum*keep)+x, float64(m.weight*keep)+1
}
func (m *mean) value() float64 { return m.sum / m.weight }

// NewMeans returns a predictor that knows nothing but its prior.
func NewMeans(p Prior) *Means {
	m := &Means{prior: p, keep: 1 - 1/p.Memory, slowest: p.Slowest.Seconds()}
	m.ratio = mean{p.Weight, p.Weight}
	m.share = mean{p.Share * p.Weight, p.Weight}
	m.assume(ms(p.Base), ms(p.PerToken)*1000, ms(p.PerTask))
	return m
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// assume enters the prior as observations at the corners of what prompts look like, so that the equations
// have a solution from the start.
func (m *Means) assume(base, perK, perTask float64) {
	m.xx, m.xy = [3][3]float64{}, [3]float64{}
	m.base, m.fade = base, 1
	for _, x := range [][3]float64{{1, 0, 0}, {1, 2, 0}, {1, 0, 4}, {1, 2, 4}} {
		m.enter(x, base+float64(perK*x[1])+float64(perTask*x[2]), m.prior.Weight/4, 1)
	}
	m.fit()
}

func (m *Means) enter(x [3]float64, y, weight, keep float64) {
	for i := range x {
		for j := range x {
			m.xx[i][j] = float64(m.xx[i][j]*keep) + float64(weight*x[i]*x[j])
		}
		m.xy[i] = float64(m.xy[i]*keep) + float64(weight*x[i]*y)
	}
}

// Tokens expects how many tokens the agent counts in a prompt that the door estimated at so many.
func (m *Means) Tokens(estimate int) int {
	if estimate <= 0 {
		return 0
	}
	return max(1, int(math.Round(float64(estimate)*min(8, m.ratio.value()))))
}

// Forecast is what a task with these features is expected to need.
func (m *Means) Forecast(f Features) Forecast {
	uncached := max(1, m.Tokens(f.Prompt)-f.Cached)
	t := m.coef[0] + float64(m.coef[1]*float64(uncached)/1000) + float64(m.coef[2]*float64(f.InFlight))
	out := int(math.Round(m.share.value() * float64(f.MaxTokens)))
	return Forecast{
		TTFT:   span(t / 1000),
		Output: min(max(out, min(1, f.MaxTokens)), f.MaxTokens),
	}
}

// span turns seconds into a duration between 0 and an hour.
func span(seconds float64) time.Duration {
	return time.Duration(min(max(0, seconds), 3600) * float64(time.Second))
}

// Learn takes in how such a task went.
func (m *Means) Learn(f Features, o Observation) {
	m.taught++
	if f.Prompt > 0 && o.Prompt > 0 {
		m.ratio.add(min(8, float64(o.Prompt)/float64(f.Prompt)), m.keep)
	}
	if f.MaxTokens > 0 && !o.Cut {
		m.share.add(min(1, float64(max(0, o.Output))/float64(f.MaxTokens)), m.keep)
	}
	if o.ITL > 0 {
		s := min(o.ITL.Seconds(), 60)
		// The slowest fades towards the prior, so that one stall does not hold money back for ever.
		m.slowest = max(s, m.prior.Slowest.Seconds(), m.slowest*m.keep)
		m.itl.add(s, m.keep)
	}
	if o.TTFT > 0 {
		cached := o.Cached
		if o.NoCacheReport {
			cached = f.Cached
		}
		uncached := max(1, o.Prompt-cached)
		m.enter([3]float64{1, float64(uncached) / 1000, float64(f.InFlight)}, min(ms(o.TTFT), 3.6e6), 1,
			m.keep)
		m.seen++
		m.fade *= m.keep
		m.fit()
	}
}

// Hint takes in the mean TTFT that an agent says of itself. It shifts the prior, as the agent knows its
// engine better than a table does; the slopes stay. Once something was measured hints count no more, but for
// one far below the one in force: that was a mistake, and would weigh on every forecast until many tasks have
// shown so, of which none might come.
func (m *Means) Hint(ttft time.Duration) {
	perK, base := ms(m.prior.PerToken)*1000, ms(m.prior.Base)
	if ttft > 0 { // of a middling prompt: the prior's line is moved to pass through it at 500 tokens
		base = max(0, min(ms(ttft), 3.6e6)-perK/2)
	}
	switch {
	case m.seen == 0 && base != m.base:
		m.taught++
		m.assume(base, perK, ms(m.prior.PerTask))
	case m.seen > 0 && base < m.base/4:
		lower := float64((m.base - base) * m.fade * m.prior.Weight) // at each corner of assume, a quarter
		for i, corners := range [3]float64{1, 1, 2} {
			m.xy[i] -= float64(lower * corners)
		}
		m.base = base
		m.taught++
		m.fit()
	}
}

// Taught counts what changed the forecasts: while it stays, so do they.
func (m *Means) Taught() uint64 { return m.taught }

// SlowestITL is the slowest time between tokens seen lately: it bounds how long an answer may take.
func (m *Means) SlowestITL() time.Duration { return span(m.slowest) }

// ITL is the mean time between tokens; 0 while none was measured.
func (m *Means) ITL() time.Duration {
	if m.itl.weight == 0 {
		return 0
	}
	return span(m.itl.value())
}

// fit solves the normal equations with coefficients held at zero or above: more to compute, or more tasks
// beside it, never makes an engine faster. Three unknowns leave so few sets of free ones that all are tried,
// most first.
func (m *Means) fit() {
	for _, free := range [][]int{{0, 1, 2}, {0, 1}, {0, 2}, {1, 2}, {0}, {1}, {2}} {
		if c, ok := m.solve(free); ok {
			m.coef = c
			return
		}
	}
	m.coef = [3]float64{}
}

// solve finds the least squares over the free coefficients, the others being 0; ok if all are sound.
func (m *Means) solve(free []int) (coef [3]float64, ok bool) {
	n := len(free)
	var a [3][4]float64
	for i, p := range free {
		for j, q := range free {
			a[i][j] = m.xx[p][q]
		}
		// A trace of ridge keeps a column that has never varied from dividing by nothing.
		a[i][i] += float64(1e-9 * (1 + a[i][i]))
		a[i][n] = m.xy[p]
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
