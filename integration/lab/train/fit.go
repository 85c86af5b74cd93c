package train

import (
	"math"
	"math/rand/v2"

	"souk/classifier/model"
)

// Sample is one row as the learner sees it.
type Sample struct {
	Features []uint32 // distinct buckets
	Label    int
	Weight   float64 // share of a whole row: variants of one row weigh less
}

// Params steer the learner. They were chosen by cross-validation inside the training part.
type Params struct {
	Epochs int     // passes over the samples
	Rate   float64 // Adagrad's step
	Decay  float64 // of a weight towards zero, at every sample that holds its feature
	Prior  float64 // weights start at so much of the naive Bayes log odds
	Seed   uint64  // of the order of the samples
}

// DefaultParams has the parameters of the shipped model.
var DefaultParams = Params{Epochs: 12, Rate: 0.1, Decay: 1e-4, Prior: 0.2, Seed: 1}

type row = [model.MaxLabels]float32

// Weights is a softmax regression before quantisation: the logit of label l is
// Bias[l] + sum over features f of Rows[f][l] / sqrt(number of features).
type Weights struct {
	Labels int
	Rows   []row
	Bias   row
}

// Fit learns by Adagrad (Duchi, Hazan, Singer 2011) from naive Bayes log odds (as Wang and Manning 2012 found
// good for short texts), which stand in for n-grams that are too rare to be learned. The same samples in the
// same order and the same Params give the same Weights on machines of one architecture.
func Fit(samples []Sample, labels int, p Params) *Weights {
	w := &Weights{Labels: labels, Rows: prior(samples, labels, p.Prior)}
	squares := make([]row, model.Buckets) // sums of squared gradients
	var biasSquares row
	rng := rand.New(rand.NewPCG(p.Seed, 0))
	order := rng.Perm(len(samples))
	rate, decay := float32(p.Rate), float32(p.Decay)
	var prob [model.MaxLabels]float64
	var grad row
	for range p.Epochs {
		rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for _, at := range order {
			s := &samples[at]
			if len(s.Features) == 0 {
				continue
			}
			w.Logits(s.Features, &prob)
			model.Softmax(prob[:labels], 1)
			prob[s.Label]--
			scale := float32(s.Weight / math.Sqrt(float64(len(s.Features))))
			for l := range labels {
				g := float32(prob[l] * s.Weight)
				biasSquares[l] += g * g
				w.Bias[l] -= 0.1 * rate * g / root(biasSquares[l])
				grad[l] = float32(prob[l]) * scale
			}
			for _, f := range s.Features {
				r, sq := w.Rows[f][:labels], squares[f][:labels]
				for l, v := range r {
					g := grad[l] + float32(decay*v)
					q := sq[l] + float32(g*g)
					sq[l] = q
					r[l] = v - float32(rate*g/root(q))
				}
			}
		}
	}
	return w
}

// root is one machine instruction on most machines.
func root(x float32) float32 { return float32(math.Sqrt(float64(x + 1e-6))) }

// prior is share times the log odds of each feature in each label against the rest, by rows that hold it.
func prior(samples []Sample, labels int, share float64) []row {
	holds := make([][model.MaxLabels]float64, model.Buckets)
	var rows [model.MaxLabels]float64
	var all float64
	for i := range samples {
		s := &samples[i]
		rows[s.Label] += s.Weight
		all += s.Weight
		for _, f := range s.Features {
			holds[f][s.Label] += s.Weight
		}
	}
	out := make([]row, model.Buckets)
	for f := range holds {
		var sum float64
		for l := range labels {
			sum += holds[f][l]
		}
		if sum == 0 {
			continue
		}
		for l := range labels {
			in := (holds[f][l] + 0.5) / (rows[l] + 1)
			rest := (sum - holds[f][l] + 0.5) / (all - rows[l] + 1)
			out[f][l] = float32(share * math.Log(in/rest))
		}
	}
	return out
}

// Logits fills out[:w.Labels].
func (w *Weights) Logits(features []uint32, out *[model.MaxLabels]float64) {
	var sum row
	for _, f := range features {
		r := &w.Rows[f]
		for l := range w.Labels {
			sum[l] += r[l]
		}
	}
	scale := 1 / math.Sqrt(float64(max(1, len(features))))
	for l := range w.Labels {
		out[l] = float64(w.Bias[l]) + float64(sum[l])*scale
	}
}
