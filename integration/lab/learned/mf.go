package learned

// Matrix factorisation (RouteLLM, Ong et al. 2025; github.com/lm-sys/RouteLLM,
// routers/matrix_factorization, commit b667a99): the logit of a model for a question is w . (v_model * (x
// W)), with v_model of length one, and the probability that one model's answer is preferred to another's
// is the logistic of the difference. It is learned from pairs of answers of which one is better, with
// noise on x.
//
// Ours is smaller (32 numbers for 128), learns from pairs of scores where theirs learned from people's
// preferences, and has more than two models.

const (
	mfWide  = 32
	mfPairs = 8   // of a question, each time
	mfNoise = 0.1 // of a number of x, whose mean square is one
)

func trainMF(p *problem) weights {
	w := weights{"text": p.drawn(1+Size, mfWide, 0.1), "models": p.drawn(len(p.set.Models), mfWide, 1),
		"out": p.drawn(1, mfWide, 0.3)}
	p.learn(w, func(t *tape, rows []*Row) {
		x := vectors(rows)
		for i := range x.V {
			x.V[i] += mfNoise * p.random.NormFloat64()
		}
		logits := scoreMF(t, w, x, nil)
		for i, r := range rows {
			for range mfPairs {
				if better, worse, ok := p.preferred(r); ok {
					g := logistic(logits.row(i)[worse]-logits.row(i)[better]) / float64(mfPairs*len(rows))
					logits.gain(i)[better] -= g
					logits.gain(i)[worse] += g
				}
			}
		}
	})
	return w
}

// preferred draws two models whose answers to a question differ, the better first.
func (p *problem) preferred(r *Row) (better, worse int, ok bool) {
	for range 20 {
		a, b := p.random.IntN(len(r.Scores)), p.random.IntN(len(r.Scores))
		switch {
		case r.Scores[a] > r.Scores[b]:
			return a, b, true
		case r.Scores[a] < r.Scores[b]:
			return b, a, true
		}
	}
	return 0, 0, false
}

func scoreMF(t *tape, w weights, x *matrix, _ []int) *matrix {
	return t.pair(t.scale(t.mul(x, w["text"]), w["out"]), t.unit(w["models"]))
}
