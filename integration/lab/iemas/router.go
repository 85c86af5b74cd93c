package iemas

import (
	"slices"
	"time"

	"souk/hub/predict/tree"
	"souk/integration/lab/virtual"
	"souk/market"
)

// auction is the paper's router as printed: batches, Eq. 5's trees, min-cost MAX-flow over edges whose
// welfare is above zero. Who has no such edge anywhere is refused; who found no slot stays for the next
// batch. What Eq. 8 charges moves no task, and is left out.
type auction struct {
	virtual.Plain
	*World
	predict *eq5
	view    *virtual.View
	line    []*virtual.Request
	came    map[*virtual.Request]*sample
	warm    int // tasks that went in turn, to seed the predictors
}

// sample is a task that was sent.
type sample struct {
	x     []float64
	sent  time.Time
	first time.Duration
}

// C.2.1, and the "small number of representative" dialogues of 4.1, in turns an engine.
const (
	batch   = 16
	maxWait = 10 * time.Millisecond
	warmup  = 10
)

// auctionOf is the rule in a world.
func auctionOf(w *World) virtual.Rule {
	return virtual.Rule{Name: "iemas", About: "batches of 16 or 10 ms, Eq. 5's trees, min-cost max-flow",
		Source: "IEMAS, Algorithm 1, 4.1, 4.2 and C.2, as printed", Holds: true,
		New: func(uint64, float64) virtual.Policy {
			return &auction{World: w, predict: newEq5(tree.Default(), len(w.Fleet.Engines)),
				came: map[*virtual.Request]*sample{}}
		}}
}

func (a *auction) Arrive(now time.Time, q *virtual.Request, v *virtual.View) int {
	a.view, a.line = v, append(a.line, q)
	a.predict.arrived(now.Sub(virtual.Start))
	return virtual.Wait
}

func (a *auction) First(now time.Time, q *virtual.Request, _ *virtual.View) {
	a.came[q].first = now.Sub(a.came[q].sent)
}

func (a *auction) Done(_ time.Time, q *virtual.Request, u market.Usage, v *virtual.View) {
	s := a.came[q]
	delete(a.came, q)
	a.predict.ended(q.Engine, s.x, expected{s.first.Seconds(), float64(v.Engines[q.Engine].Card.Cost(u)),
		a.Score(q, modelOf(q.Engine))})
}

func (a *auction) Wake(now time.Time) (place []virtual.Placed, next time.Time) {
	if len(a.line) == 0 {
		return nil, next
	}
	due := virtual.Start.Add(a.line[0].Arrived + maxWait)
	if len(a.line) < batch && now.Before(due) {
		return nil, due
	}
	n := min(batch, len(a.line))
	weights, xs := make([][]int64, n), make([][][]float64, n)
	for j, q := range a.line[:n] {
		weights[j], xs[j] = a.weigh(now, j, q)
	}
	for j, i := range maxFlow(weights, a.view) {
		switch q := a.line[j]; {
		case i >= 0:
			a.warm++
			a.came[q] = &sample{x: xs[j][i], sent: now}
			a.predict.sent(now.Sub(virtual.Start), int(i), q)
			place = append(place, virtual.Placed{Request: q, Engine: int(i)})
		case slices.Max(weights[j]) <= 0:
			place = append(place, virtual.Placed{Request: q, Engine: virtual.Wait})
		}
	}
	a.line = slices.DeleteFunc(a.line, func(q *virtual.Request) bool {
		return slices.ContainsFunc(place, func(p virtual.Placed) bool { return p.Request == q })
	})
	return place, next
}
