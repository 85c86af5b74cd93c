package iemas

import (
	"slices"
	"time"

	"souk/integration/lab/virtual"
	"souk/market"
	"souk/market/flow"
)

// maxFlow is the paper's network as printed (4.2, C.2.4): of the edges above zero as many as can be, and
// among as many the greatest weight. A bonus on every edge, larger than all weights together, makes one of
// the other. It gives the engine of each task; -1: none. That is not the greatest weight: see the page.
func maxFlow(weights [][]int64, v *virtual.View) []int32 {
	p, bonus := flow.Problem{Off: []int32{0}}, int64(1)
	for _, ws := range weights {
		bonus += max(0, slices.Max(ws))
	}
	var seats []int32 // engines with a slot free
	for i := range v.Engines {
		if free := v.Free(i); free > 0 {
			seats, p.Slots = append(seats, int32(i)), append(p.Slots, int32(free))
		}
	}
	for _, ws := range weights {
		for s, i := range seats {
			if ws[i] > 0 {
				p.Seat, p.Weight = append(p.Seat, int32(s)), append(p.Weight, ws[i]+bonus)
			}
		}
		p.Off = append(p.Off, int32(len(p.Seat)))
	}
	var solver flow.Solver
	if err := solver.Solve(&p, nil); err != nil {
		panic("iemas: a batch is no problem of flow: " + err.Error())
	}
	out := slices.Clone(solver.Match)
	for j, s := range out {
		if s >= 0 {
			out[j] = seats[s]
		}
	}
	return out
}

// weigh is v - c of a task on each engine, by what is expected; until all are seeded, tasks go in turn.
func (a *auction) weigh(now time.Time, j int, q *virtual.Request) (weights []int64, xs [][]float64) {
	engines := len(a.predict.agents)
	for i := range engines {
		x := a.predict.of(now.Sub(virtual.Start), i, a.Kind(q), q)
		e := a.predict.expect(i, x)
		quote := market.Quote{TTFT: now.Sub(virtual.Start) - q.Arrived + time.Duration(e.latency*1e9),
			Cost: market.Credits(e.cost), Quality: e.quality}
		w := int64(q.Terms.Value(quote) - quote.Cost)
		if a.warm < warmup*engines {
			w = 0
			if i == (a.warm+j)%engines {
				w = 1
			}
		}
		weights, xs = append(weights, w), append(xs, x)
	}
	return weights, xs
}
