package games

import (
	"math"

	"souk/market/flow"
)

// Limits of a window: what is solved in it takes some ten milliseconds.
const (
	MostDone   = 512 // tasks
	MostShares = 8   // agents that held some of a task's prompt
)

// Done is a task that was served, as far as the price of anarchy is concerned.
type Done struct {
	Agent   int     // that served it, from 0
	Seconds float64 // from its coming to its end
	Beside  int     // tasks that ran there when it was placed
	Shares  [MostShares]Share
}

// Share is the part of a task's prompt that an agent held.
type Share struct {
	Agent int32
	Of    float32 // 0 to 1; 0: nobody is meant
}

// Window is the tasks that were served in a time.
type Window struct {
	Done  []Done
	Slots []int // of each agent
}

// Constants says how long a task takes on an agent where n run and which holds the share o of its prompt:
// PerTask*n + Least + Pole/(slots-n)^2 - Overlap*o seconds (anarchy, 6.4). Slots 0: the agent's.
type Constants struct {
	PerTask, Least, Pole, Overlap float64
	Slots                         float64
}

// Theirs are the paper's: "not fitted to observed latencies".
var Theirs = Constants{PerTask: 0.005, Least: 0.020, Pole: 0.010, Overlap: 0.015, Slots: 64}

// terms returns the factors of the constants.
func (c *Constants) terms(n, slots, share float64) [4]float64 {
	if c.Slots > 0 {
		slots = c.Slots
	}
	room := max(1, slots-n) // beyond its slots nothing runs
	return [4]float64{n, 1, 1 / (room * room), -share}
}

func (c *Constants) takes(x [4]float64) float64 {
	return max(1e-6, c.PerTask*x[0]+c.Least*x[1]+c.Pole*x[2]+c.Overlap*x[3])
}

// share returns the part of its prompt that an agent held.
func (d *Done) share(agent int) float64 {
	for _, s := range d.Shares {
		if s.Of > 0 && int(s.Agent) == agent {
			return float64(s.Of)
		}
	}
	return 0
}

// besides returns the mean number of tasks on each agent, by its arrivals, themselves included.
func (w *Window) besides() []float64 {
	sum, n := make([]float64, len(w.Slots)), make([]float64, len(w.Slots))
	for i := range w.Done {
		d := &w.Done[i]
		sum[d.Agent] += float64(d.Beside + 1)
		n[d.Agent]++
	}
	for k := range sum {
		sum[k] /= max(1, n[k])
	}
	return sum
}

// Fit are the constants, none below zero, by which what the tasks took is explained best.
func (w *Window) Fit() (c Constants) {
	var xx [4][4]float64
	var xy [4]float64
	for i := range w.Done {
		d := &w.Done[i]
		x := c.terms(float64(d.Beside+1), float64(w.Slots[d.Agent]), d.share(d.Agent))
		for a := range x {
			xy[a] += x[a] * d.Seconds
			for b := range x {
				xx[a][b] += x[a] * x[b]
			}
		}
	}
	var b [4]float64
	for range 500 { // coordinate descent: the error is convex
		for a := range b {
			if xx[a][a] == 0 {
				continue
			}
			rest := xy[a]
			for o := range b {
				if o != a {
					rest -= xx[a][o] * b[o]
				}
			}
			b[a] = max(0, rest/xx[a][a])
		}
	}
	return Constants{PerTask: b[0], Least: b[1], Pole: b[2], Overlap: b[3]}
}

// PoA is the ratio of the tasks' time to the least they would have by these constants had they been dealt out
// otherwise, as many to one agent as to another (anarchy, Eq. 12); NaN if nothing was served. The number of
// tasks on an agent is kept, as in the paper, so the least is too little. It is an index: it tells times
// apart, and decides nothing.
func (w *Window) PoA(c Constants) float64 {
	agents, tasks := len(w.Slots), len(w.Done)
	if tasks == 0 || agents == 0 {
		return math.NaN()
	}
	n := w.besides()
	took, most := 0.0, 0.0
	cost := make([]float64, 0, tasks*agents)
	for i := range w.Done {
		d := &w.Done[i]
		took += d.Seconds
		for k := range agents {
			x := c.takes(c.terms(n[k], float64(w.Slots[k]), d.share(k)))
			cost, most = append(cost, x), max(most, x)
		}
	}
	scale := 1e9 / most // of a weight, so that no sum is too large
	p := flow.Problem{Off: make([]int32, 1, tasks+1)}
	for i, x := range cost {
		p.Seat = append(p.Seat, int32(i%agents))
		p.Weight = append(p.Weight, 1+int64(scale*(most-x))) // above zero, so that everybody is placed
		if (i+1)%agents == 0 {
			p.Off = append(p.Off, int32(i+1))
		}
	}
	for range agents {
		p.Slots = append(p.Slots, int32((tasks+agents-1)/agents))
	}
	var s flow.Solver
	if err := s.Solve(&p, nil); err != nil {
		return math.NaN()
	}
	least := 0.0
	for i, k := range s.Match {
		least += cost[i*agents+int(k)]
	}
	return took / least
}
