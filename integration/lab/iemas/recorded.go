package iemas

import (
	"fmt"
	"math"
	"slices"

	"souk/integration/lab/traces"
	"souk/integration/lab/virtual"
)

// Recorded are questions to which the answers of all models of the fleet were judged, of the kinds that a set
// stands for.
type Recorded struct {
	scores [][]float64 // of a question, by model
	kind   []int       // of a question
	row    []int       // of a question, among all that were read

	Rows, Missing, Doubled int // rows of these kinds; left out: a model has no score, or the row came before
}

// record keeps what can be used of rows. A score that is no share is an error.
func record(rows []traces.Question, kinds, models []string) (*Recorded, error) {
	r := &Recorded{}
	seen := map[string]bool{}
	for n, q := range rows {
		kind := slices.Index(kinds, q.Task)
		if kind < 0 {
			continue
		}
		r.Rows++
		if key := fmt.Sprint(q); seen[key] { // maps are printed in the order of their keys
			r.Doubled++
			continue
		} else {
			seen[key] = true
		}
		var scores []float64
		for _, m := range models {
			x, ok := q.Models[m]
			if !ok {
				break
			}
			if !(x[0] >= 0 && x[0] <= 1) || math.IsInf(x[1]+x[2], 0) {
				return nil, fmt.Errorf("row %d, %s: %s has a score of %v, want 0 to 1", n+1, q.Task, m, x[0])
			}
			scores = append(scores, x[0])
		}
		if len(scores) < len(models) {
			r.Missing++
			continue
		}
		r.scores, r.kind, r.row = append(r.scores, scores), append(r.kind, kind), append(r.row, n)
	}
	if len(r.scores) == 0 {
		return nil, fmt.Errorf("of %d rows of %v none has scores of all of %v", r.Rows, kinds, models)
	}
	return r, nil
}

// Kept is the number of questions.
func (r *Recorded) Kept() int { return len(r.scores) }

// question is the one for which a turn stands: by who asks, and what, so that it is the same under any
// router.
func (r *Recorded) question(q *virtual.Request) int {
	x := uint64(q.Caller)<<40 ^ uint64(q.Turn)<<24 ^ uint64(q.Prompt)
	x ^= x >> 33 // MurmurHash3's finalizer
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	x ^= x >> 33
	return int(x % uint64(len(r.scores)))
}

// Score says how good a model's answer to a turn is.
func (r *Recorded) Score(q *virtual.Request, model int) float64 {
	return r.scores[r.question(q)][model]
}

// Kind numbers what a turn asks for, as a caller's tag would say.
func (r *Recorded) Kind(q *virtual.Request) int { return r.kind[r.question(q)] }

// mean is a model's score over all questions: what its owner registers.
func (r *Recorded) mean(model int) float64 {
	sum := 0.0
	for _, s := range r.scores {
		sum += s[model]
	}
	return sum / float64(len(r.scores))
}
