package forecast

import (
	"math"
	"slices"
)

// band is the interval around forecasts in which nine in ten answers shall lie: by how often what came was so
// many times what was forecast, of the last two hundred forecasts of about that size.
type band struct {
	sizes  ring    // of forecasts
	ratios [3]ring // by the size of the forecast
	level  float64
}

const (
	goal     = 0.9
	adapts   = 0.01
	memories = 200
)

// ring is the last numbers that came, in the order in which they did, and by size.
type ring struct {
	came, sorted []float64
	at           int
}

func (r *ring) add(x float64) {
	if len(r.came) < memories {
		r.came = append(r.came, x)
	} else {
		i, _ := slices.BinarySearch(r.sorted, r.came[r.at])
		r.sorted = slices.Delete(r.sorted, i, i+1)
		r.came[r.at] = x
		r.at = (r.at + 1) % memories
	}
	i, _ := slices.BinarySearch(r.sorted, x)
	r.sorted = slices.Insert(r.sorted, i, x)
}

func (r *ring) quantile(q float64) float64 {
	n := len(r.sorted)
	return r.sorted[min(n-1, max(0, int(math.Ceil(q*float64(n)))-1))]
}

// interval returns the bounds in which the answer to a forecast should lie.
func (b *band) interval(forecast float64) (group int, low, high float64) {
	if len(b.sizes.came) >= 30 {
		for group < 2 && forecast > b.sizes.quantile(float64(group+1)/3) {
			group++
		}
	}
	r := &b.ratios[group]
	if len(r.came) < 20 {
		return group, 0, 10 * forecast
	}
	return group, r.quantile((1-b.level)/2) * forecast, r.quantile((1+b.level)/2) * forecast
}

func (b *band) learn(group int, forecast, came float64, covered bool) {
	b.sizes.add(forecast)
	b.ratios[group].add(came / max(forecast, 1e-6))
	if covered {
		b.level -= adapts * (1 - goal)
	} else {
		b.level += adapts * goal
	}
	b.level = min(max(b.level, 0.5), 0.999)
}

// Score judges a way to forecast.
type Score struct {
	Name    string  `json:"name"`
	TTFT    float64 `json:"ttft_nmae"`
	Cost    float64 `json:"cost_nmae"`
	Covered float64 `json:"covered"` // by its 90 % intervals
	Windows float64 `json:"windows"` // of 500 tasks, those of which 0.86 to 0.94 were covered
	// the same of the intervals that a hub says itself
	OwnCovered float64 `json:"own_covered,omitempty"`
	OwnWindows float64 `json:"own_windows,omitempty"`
	// mean error by the mean of what came: above 0, forecasts were too high
	Bias     float64 `json:"bias"`
	Openings int     `json:"openings"`        // of its gate for first tokens
	Lengths  int     `json:"length_openings"` // of its gate for lengths of answers
	Open     float64 `json:"open"`            // share of tasks for which its gate was open
}

// judge keeps the score of one way.
type judge struct {
	off, came, costOff, cost, bias float64
	band                           band
	tasks, open                    int
	given, own                     counts
	pending                        map[int]promise
}

// counts counts the covered tasks, and the windows with enough and not too many.
type counts struct{ tasks, covered, windows, good, inWindow int }

func (c *counts) count(covered bool) {
	c.tasks++
	if covered {
		c.covered++
		c.inWindow++
	}
	if c.tasks%window == 0 {
		c.windows++
		if c.inWindow >= fewest && c.inWindow <= mostCovered {
			c.good++
		}
		c.inWindow = 0
	}
}

func (c *counts) shares() (covered, windows float64) {
	return float64(c.covered) / float64(max(1, c.tasks)), float64(c.good) / float64(max(1, c.windows))
}

// promise is an interval that was given.
type promise struct {
	group     int
	low, high float64
}

func newJudge() *judge { return &judge{band: band{level: goal}, pending: map[int]promise{}} }

// window is the number of tasks of a window; of these, from fewest to mostCovered shall be covered.
const window, fewest, mostCovered = 500, 430, 470

func (j *judge) sent(t *Task, e Expected) {
	group, low, high := j.band.interval(e.TTFT)
	j.pending[t.ID] = promise{group, low, high}
}

func (j *judge) ended(t *Task, e Expected) {
	p := j.pending[t.ID]
	delete(j.pending, t.ID)
	j.tasks++
	j.off += math.Abs(e.TTFT - t.TTFT)
	j.bias += e.TTFT - t.TTFT
	j.came += t.TTFT
	j.costOff += math.Abs(e.Cost - t.Cost)
	j.cost += t.Cost
	if e.Open {
		j.open++
	}
	covered := t.TTFT >= p.low && t.TTFT <= p.high
	j.band.learn(p.group, e.TTFT, t.TTFT, covered)
	j.given.count(covered)
	if e.forecast.High > 0 {
		j.own.count(t.TTFT >= e.forecast.Low.Seconds() && t.TTFT <= e.forecast.High.Seconds())
	}
}

func (j *judge) score(name string, f Forecaster) Score {
	n := float64(max(1, j.tasks))
	s := Score{Name: name, TTFT: j.off / j.came, Cost: j.costOff / j.cost, Bias: j.bias / j.came,
		Open: float64(j.open) / n}
	s.Covered, s.Windows = j.given.shares()
	s.OwnCovered, s.OwnWindows = j.own.shares()
	if g, ok := f.(interface{ Openings() (firsts, lengths int) }); ok {
		s.Openings, s.Lengths = g.Openings()
	}
	return s
}
