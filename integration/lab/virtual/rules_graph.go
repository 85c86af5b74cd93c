package virtual

import "math"

// GraphRouter (Feng et al., ICLR 2025; github.com/ulab-uiuc/GraphRouter, commit f513909). The model of
// greatest reward: what its answer is expected to be worth less a share of its cost. Its three scenarios
// weigh the cost 0, 0.5 and 0.8, and learn rewards anew for each; here what is learned is how good answers
// are, and the cost is that of the card, of the dearest model's.

func init() {
	addLearned("graph", "learned: greatest effect less cost, from a graph of tasks, questions and models",
		"GraphRouter, commit f513909", "weight of the cost", []float64{0, 0.5},
		func(of []candidate, weight float64) (best int) {
			dearest, most := of[len(of)-1].cost, math.Inf(-1)
			for k := range of {
				effect := 1 / (1 + math.Exp(-of[k].score))
				// the conversions keep the compiler from fusing a product into a sum
				reward := float64((1-weight)*effect) - float64(weight*of[k].cost/max(1, dearest))
				// whose last bits may differ between machines
				if reward = math.Round(reward*(1<<20)) / (1 << 20); reward > most {
					best, most = k, reward
				}
			}
			return best
		})
}
