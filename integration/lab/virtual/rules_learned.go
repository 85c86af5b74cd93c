package virtual

import (
	"math"
	"slices"
	"time"

	"souk/integration/lab/learned"
	"souk/market"
)

// What is common to routers that have learned from recorded answers which model answers a question best:
// see package learned. They choose a model by the question alone, as published, and send at once, to one
// of its engines by lot: what is in flight, and what a cache holds, is nothing to them. A model that they
// learned nothing of is left out, unless there is no other: then any engine is drawn.

// learner is a router by its scores.
type learner struct {
	Plain
	Lots
	router *learned.Router
	choose func(of []candidate) int
}

// candidate is a model that a router may choose.
type candidate struct {
	score   float64 // the router's own
	cost    float64 // of the request at its cheapest engine, with nothing cached
	engines []int
}

// addLearned adds a router. choose says which of some candidates it takes; the cheapest come first.
func addLearned(name, about, source, knob string, values []float64, choose func(of []candidate,
	knob float64) int) {
	Add(Rule{Name: name, About: about, Source: source, Knob: knob, Values: values,
		New: func(seed uint64, value float64) Policy {
			return &learner{Lots: NewLots(seed), router: learned.Texts()[name],
				choose: func(of []candidate) int { return choose(of, value) }}
		}})
}

// Arrive implements Policy.
func (l *learner) Arrive(_ time.Time, r *Request, v *View) int {
	among := v.Able()
	if of := l.candidates(r, v); len(of) > 0 {
		among = of[l.choose(of)].engines
	}
	return among[l.random.IntN(len(among))]
}

func (l *learner) candidates(r *Request, v *View) (of []candidate) {
	place := map[string]int{}
	for _, i := range v.Able() {
		e := &v.Engines[i]
		if !slices.Contains(l.router.Models, e.Recorded) {
			continue
		}
		k, ok := place[e.Recorded]
		if !ok {
			k = len(of)
			place[e.Recorded] = k
			of = append(of, candidate{cost: math.Inf(1)})
		}
		cost := float64(e.Card.Cost(market.Usage{Prompt: r.Prompt, Output: v.Output(r)}))
		of[k].cost, of[k].engines = min(of[k].cost, cost), append(of[k].engines, i)
	}
	if len(of) < 2 {
		return of
	}
	read := r.Read()
	if read == nil {
		read = &learned.Question{}
	}
	scores := l.router.Score(read)
	for model, k := range place {
		of[k].score = scores[slices.Index(l.router.Models, model)]
	}
	slices.SortStableFunc(of, func(a, b candidate) int {
		switch {
		case a.cost < b.cost:
			return -1
		case a.cost > b.cost:
			return 1
		}
		return 0
	})
	return of
}

// highest is the candidate with the highest score.
func highest(of []candidate, _ float64) (best int) {
	for k := range of {
		if of[k].score > of[best].score {
			best = k
		}
	}
	return best
}
