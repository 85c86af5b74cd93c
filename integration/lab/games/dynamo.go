package games

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"souk/hub/regime"
	"souk/integration/lab/virtual"
	"souk/market"
)

// dynamo is the paper's router (Eq. 1 and 2): a request goes to the engine with the least weighted sum of
// blocks to compute and blocks in use, or is drawn by the softmax of these sums, scaled to their range as
// Dynamo does.
type dynamo struct {
	params   regime.Params // in force: what is drawn by, and the weight of blocks to compute
	random   *rand.Rand
	active   []int // blocks in use by what was sent to each engine
	adaptive *adaptive
}

func newDynamo(engines int, p regime.Params, seed uint64) *dynamo {
	return &dynamo{params: p, random: rand.New(rand.NewPCG(seed, 0x64796e61)), active: make([]int, engines)}
}

// blocks returns how many blocks a request has in use until it ends.
func blocks(r *virtual.Request) int { return (r.Prompt + r.Output + blockSize - 1) / blockSize }

func (d *dynamo) Arrive(now time.Time, r *virtual.Request, v *virtual.View) int {
	d.adapt(now)
	costs := make([]float64, len(d.active))
	for i := range costs {
		costs[i] = d.params.Overlap*float64(v.Need(r)-v.Match(i, r)) + float64(d.active[i])
	}
	to := d.draw(costs)
	d.active[to] += blocks(r)
	return to
}

// draw takes an engine by the costs; of equals any.
func (d *dynamo) draw(costs []float64) int {
	least, most := slices.Min(costs), slices.Max(costs)
	weights, sum := make([]float64, len(costs)), 0.0
	for i, c := range costs {
		switch {
		case d.params.Temperature > 0 && most > least:
			weights[i] = math.Exp(-(c - least) / (most - least) / d.params.Temperature)
		case d.params.Temperature > 0 || c == least:
			weights[i] = 1
		}
		sum += weights[i]
	}
	x := d.random.Float64() * sum
	for i, w := range weights {
		if x -= w; x < 0 {
			return i
		}
	}
	return len(costs) - 1
}

func (d *dynamo) First(now time.Time, r *virtual.Request, _ *virtual.View) {
	if d.adaptive != nil {
		d.adaptive.first(now.Sub(virtual.Start) - r.Arrived)
	}
}

func (d *dynamo) Done(_ time.Time, r *virtual.Request, _ market.Usage, _ *virtual.View) {
	d.active[r.Engine] -= blocks(r)
}

func (d *dynamo) Scraped(now time.Time, _ *virtual.View)       { d.adapt(now) }
func (d *dynamo) Wake(time.Time) ([]virtual.Placed, time.Time) { return nil, time.Time{} }
func (d *dynamo) Near() bool                                   { return false }

// adapt has the parameters follow the load, as the paper's controller does (6.2, 6.3).
func (d *dynamo) adapt(now time.Time) {
	if a := d.adaptive; a != nil {
		d.params = regime.Control{Adapt: true, Transition: regime.DefaultControl().Transition,
			Saturated: regime.DefaultControl().Saturated}.Params(a.read(now), regime.Default())
	}
}

// adaptive is the controller as published: every five seconds a mean, weighted by 0.3, of the P99 of times to
// the first token in that time, against 0.3 s and 2 s; up after two readings, down after two below 0.8 of it,
// where the paper leaves both numbers open.
type adaptive struct {
	firsts []time.Duration
	next   time.Time
	mean   float64
	state  regime.State
	above  int
	under  int
	moved  func(now time.Time, s regime.State)
}

func (a *adaptive) first(took time.Duration) { a.firsts = append(a.firsts, took) }

func (a *adaptive) read(now time.Time) regime.State {
	if a.next.IsZero() {
		a.next = now.Add(regime.Every)
	}
	if now.Before(a.next) || len(a.firsts) == 0 {
		return a.state
	}
	a.next = now.Add(regime.Every)
	a.mean = 0.3*quantile(a.firsts, 0.99).Seconds() + 0.7*a.mean
	a.firsts = a.firsts[:0]
	of := func(mean float64) regime.State {
		switch {
		case mean >= 2:
			return regime.Saturated
		case mean >= 0.3:
			return regime.Transition
		}
		return regime.Below
	}
	up, down := of(a.mean) > a.state, of(a.mean/0.8) < a.state
	if a.above++; !up {
		a.above = 0
	}
	if a.under++; !down {
		a.under = 0
	}
	if a.above >= 2 || a.under >= 2 {
		a.state, a.above, a.under = of(a.mean), 0, 0
		if a.moved != nil {
			a.moved(now, a.state)
		}
	}
	return a.state
}

// quantile returns quantile q of durations.
func quantile(all []time.Duration, q float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}
