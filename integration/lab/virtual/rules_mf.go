package virtual

import "math"

// RouteLLM's matrix factorisation (Ong et al. 2025; github.com/lm-sys/RouteLLM,
// routers/matrix_factorization, commit b667a99). A dearer model has the question where its answer is
// preferred to that of the cheaper one with at least the probability of a threshold. Theirs has two
// models; of more each is beside the best of those that cost less.

func init() {
	addLearned("mf", "learned: a dearer model where its answer is likely preferred to a cheaper one's",
		"RouteLLM, matrix factorisation, commit b667a99", "probability from which the dearer model has it",
		[]float64{0.5, 0.7},
		func(of []candidate, least float64) (best int) {
			for k := range of {
				if of[k].score-of[best].score > math.Log(least/(1-least)) {
					best = k
				}
			}
			return best
		})
}
