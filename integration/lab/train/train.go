// Package train makes the model of souk/classifier/model from labelled prompts and says how good it is.
package train

import (
	"fmt"
	"math"
	"slices"

	"souk/classifier/model"
)

// Train learns a model from rows; temperature comes from predictions on rows that the predicting model had
// not learned from. It returns the weights file. The same rows in the same order and the same Params give the
// same bytes.
func Train(rows []Row, p Params) ([]byte, error) {
	labels := LabelsOf(rows)
	if len(labels) < 2 || len(labels) > model.MaxLabels {
		return nil, fmt.Errorf("train: rows have %d labels, want 2 to %d", len(labels), model.MaxLabels)
	}
	var scores []Score
	for fold := range Folds {
		out, rest := part(rows, inFold(fold))
		w := Fit(Samples(rest, labels), len(labels), p)
		scores = append(scores, w.scores(out, labels)...)
	}
	w := Fit(Samples(rows, labels), len(labels), p)
	return w.Encode(labels, Temperature(scores, len(labels)))
}

// Score is a prediction before calibration, and the truth.
type Score struct {
	Logits [model.MaxLabels]float64
	Label  int
}

func (w *Weights) scores(rows []Row, labels []string) []Score {
	var scratch model.Scratch
	out := make([]Score, len(rows))
	for i, r := range rows {
		out[i].Label = slices.Index(labels, r.Domain)
		w.Logits(scratch.Extract(r.System, r.Prompt), &out[i].Logits)
	}
	return out
}

// Temperature is the divisor of logits under which the truth was likeliest (Guo et al. 2017), to 1 %.
func Temperature(scores []Score, labels int) float64 {
	best, at := math.Inf(1), 1.0
	for t := 0.1; t < 10; t *= 1.01 {
		var loss float64
		for _, s := range scores {
			p := s.Logits
			model.Softmax(p[:labels], t)
			loss -= math.Log(max(p[s.Label], 1e-12))
		}
		if loss < best {
			best, at = loss, t
		}
	}
	return at
}
