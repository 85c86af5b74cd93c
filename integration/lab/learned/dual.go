package learned

import (
	"cmp"
	"math"
	"slices"
)

// RouterDC (Chen et al., NeurIPS 2024; github.com/shuhao02/RouterDC, train_router_mdeberta.py, commit
// 0b8fd02): a question goes to the model whose learned vector is most like, by cosine, what an encoder
// makes of it. Two contrasts teach it: each of the three models that answered best is to be more like the
// question than the three that answered worst, those that answered well left out; and another question of
// its cluster is to be more like it than three of others.
//
// Theirs fine-tunes a language model (mDeBERTa v3); there is none here, so the encoder is a layer over
// the sketch beside a small network over it. Clusters are by k-means of sketches. Cosines are divided by a
// temperature of 0.2, where theirs is 1 and the language model's vectors grow.

const (
	dualWide        = 32
	dualTop         = 3
	dualOthers      = 3
	dualClusters    = 12
	dualTemperature = 0.2
)

func trainDual(p *problem) weights {
	w := weights{"straight": p.drawn(1+Size, dualWide, 0.1), "hidden": p.drawn(1+Size, dualWide, 0.1),
		"out": p.drawn(dualWide, dualWide, 0.1), "models": p.drawn(len(p.set.Models), dualWide, 0.78)}
	cluster := p.clusters(dualClusters)
	p.learn(w, func(t *tape, rows []*Row) {
		x := vectors(rows)
		read := readDual(t, w, x)
		logits := t.pair(read, t.unit(w["models"]))
		for i, r := range rows {
			p.contrast(logits, i, r)
		}
		like := t.pair(read, read)
		of := make([]int, len(rows))
		for i := range rows {
			of[i] = nearest(cluster, x.row(i))
		}
		for i := range rows {
			p.together(like, i, of)
		}
	})
	return w
}

// contrast sets a question's gradients: models that answered best beside those that answered worst.
func (p *problem) contrast(logits *matrix, i int, r *Row) {
	var order []int
	for m, s := range r.Scores {
		if !math.IsNaN(s) {
			order = append(order, m)
		}
	}
	p.random.Shuffle(len(order), func(a, b int) { order[a], order[b] = order[b], order[a] })
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(r.Scores[b], r.Scores[a]) })
	worst := slices.DeleteFunc(slices.Clone(order[max(0, len(order)-dualTop):]),
		func(m int) bool { return r.Scores[m] > 0.5 })
	for _, best := range order[:min(dualTop, len(order))] {
		if r.Scores[best] > 0 && !slices.Contains(worst, best) {
			contrasted(logits, i, append([]int{best}, worst...), 1/float64(logits.R))
		}
	}
}

// together sets the gradients of a question beside one of its cluster and some of others.
func (p *problem) together(like *matrix, i int, cluster []int) {
	var same, other []int
	for k, c := range cluster {
		if c == cluster[i] && k != i {
			same = append(same, k)
		} else if c != cluster[i] {
			other = append(other, k)
		}
	}
	if len(same) == 0 || len(other) < dualOthers {
		return
	}
	all := []int{same[p.random.IntN(len(same))]}
	for range dualOthers {
		all = append(all, other[p.random.IntN(len(other))])
	}
	contrasted(like, i, all, 1/float64(like.R))
}

// contrasted adds the gradients by which the first of some columns is to be more than the others.
func contrasted(m *matrix, i int, columns []int, times float64) {
	share := make([]float64, len(columns))
	for k, c := range columns {
		share[k] = m.row(i)[c] / dualTemperature
	}
	softmax(share)
	share[0]--
	for k, c := range columns {
		m.gain(i)[c] += times * share[k] / dualTemperature
	}
}

func readDual(t *tape, w weights, x *matrix) *matrix {
	return t.unit(t.add(t.mul(x, w["straight"]), t.mul(t.relu(t.mul(x, w["hidden"])), w["out"])))
}

func scoreDual(t *tape, w weights, x *matrix, _ []int) *matrix {
	return t.pair(readDual(t, w, x), t.unit(w["models"]))
}
