package iemas

import (
	"fmt"
	"math"

	"souk/integration/lab/virtual"
)

// mostTurn is the last turn of Fig. 3.
const mostTurn = 20

// Qualities of a task that are expected.
const (
	latency = iota
	cost
	graded // quality
	measures
)

// MeasureNames are their names.
var MeasureNames = [measures]string{"latency", "cost", "quality"}

func (e *expected) all() [measures]float64 { return [measures]float64{e.latency, e.cost, e.quality} }

// sums adds up the tasks of one turn.
type sums struct {
	off, said, came [measures]float64
	squares         float64 // of quality
	n               float64
}

// Errors says how one way did on one stream, over tasks after the first tenth.
type Errors struct {
	turns [mostTurn + 1]sums // by turn, from 1 on; later ones are the last
}

func (e *Errors) add(turn int, said, came expected) {
	t := &e.turns[min(turn, mostTurn)]
	s, c := said.all(), came.all()
	t.n++
	for k := range s {
		t.off[k] += math.Abs(s[k] - c[k])
		t.said[k] += s[k]
		t.came[k] += c[k]
	}
	t.squares += float64((s[graded] - c[graded]) * (s[graded] - c[graded]))
}

// NMAE sums up what forecasts were off, by what came, over all tasks; of quality the error of a chance.
func (e *Errors) NMAE(k int) float64 {
	off, came := 0.0, 0.0
	for _, t := range e.turns {
		off, came = off+t.off[k], came+t.came[k]
	}
	return off / came
}

// Brier is the mean square by which a chance was off what came.
func (e *Errors) Brier() float64 {
	sum, n := 0.0, 0.0
	for _, t := range e.turns {
		sum, n = sum+t.squares, n+t.n
	}
	return sum / max(1, n)
}

// Turn is the NMAE of the tasks of one turn; 0: there were none.
func (e *Errors) Turn(turn, k int) float64 {
	t := &e.turns[turn]
	if t.came[k] == 0 {
		return 0
	}
	return t.off[k] / t.came[k]
}

// Mean is the NMAE of turns' means: of what was expected and what came of all tasks of a turn together, as
// the paper's figure draws them, the turns equal.
func (e *Errors) Mean(k int) float64 {
	off, came := 0.0, 0.0
	for _, t := range e.turns {
		n := max(1, t.n)
		off, came = off+math.Abs(t.said[k]-t.came[k])/n, came+t.came[k]/n
	}
	return off / came
}

// expectAll has all ways expect what comes of a stream, which a router places.
func (w *World) expectAll(router string, seed uint64, callers, tasks int) ([]Errors, error) {
	s := w.setting(seed, callers, tasks)
	p, end, err := w.policy(router, s)
	if err != nil {
		return nil, err
	}
	out := make([]Errors, len(Ways))
	o := newWatch(w, p, func(q *virtual.Request, says []expected, came expected) {
		if q.ID < tasks/10 {
			return
		}
		for k := range says {
			out[k].add(q.Turn+1, says[k], came)
		}
	})
	if _, _, err = virtual.Run(s, o); err == nil {
		err = end()
	}
	if err != nil {
		return nil, fmt.Errorf("predictors on %s, seed %d: %w", w.Name, seed, err)
	}
	return out, nil
}
