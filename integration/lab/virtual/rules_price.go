package virtual

import "time"

// What a caller does who reads price lists: takes the cheapest, takes the best, or takes what is worth
// most at the price that is posted. The best price to post is found by trying.

func init() {
	line := func(name, about, source string, choose func(l *Line, now time.Time, r *Request, v *View) int) {
		Add(Rule{Name: name, About: about, Source: source, Holds: true,
			New: func(seed uint64, _ float64) Policy { return &Line{Lots: NewLots(seed), Choose: choose} }})
	}
	line("cheapest", "where it costs least; of equally cheap engines the least loaded",
		"OpenRouter, sort: price (openrouter.ai/docs, provider routing, 2026)",
		func(l *Line, _ time.Time, r *Request, v *View) int {
			least := v.Cost(l.Least(v.Able(), func(i int) float64 { return float64(v.Cost(i, r)) }), r)
			var among []int
			for _, i := range v.Able() {
				if v.Cost(i, r) == least {
					among = append(among, i)
				}
			}
			return l.Least(among, l.Load)
		})
	line("best", "where the quality is greatest; of equally good engines the least loaded",
		"the answer to \"which model is best\", for every task",
		func(l *Line, _ time.Time, r *Request, v *View) int {
			var among []int
			for _, i := range v.Able() {
				switch {
				case len(among) == 0 || v.Engines[i].Score > v.Engines[among[0]].Score:
					among = []int{i}
				case v.Engines[i].Score == v.Engines[among[0]].Score:
					among = append(among, i)
				}
			}
			return l.Least(among, l.Load)
		})
	Add(Rule{Name: "posted", About: "engines ask so many times their card; a task goes where that leaves it most",
		Source: "posted prices, as every provider has them; Kleinberg and Leighton 2003 for what can be lost",
		Knob:   "times the card", Values: []float64{1, 1.5, 2, 3, 5, 8}, Holds: true,
		New: func(seed uint64, times float64) Policy {
			return &Line{Lots: NewLots(seed), Choose: greedily, Price: times}
		}})
}
