package learned

import (
	"cmp"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
)

// weights are matrices by name.
type weights map[string]*matrix

// problem holds the rows that a router learns from.
type problem struct {
	set    *Set
	rows   []*Row // to learn from
	cards  map[string]Card
	random *rand.Rand
}

// drawn is a matrix of random numbers of a mean square.
func (p *problem) drawn(r, c int, deviation float64) *matrix {
	m := newMatrix(r, c)
	for i := range m.V {
		m.V[i] = deviation * p.random.NormFloat64()
	}
	return m
}

// How every router learns, as one for all: chosen by what came of the first parts, so many.
const (
	tuned  = 2
	epochs = 15
	batch  = 64
	rate   = 3e-3
	decay  = 1
)

// learn goes over all rows some times, in batches; each fills the gradients of what it computes.
func (p *problem) learn(w weights, each func(t *tape, rows []*Row)) {
	var of []*matrix
	for _, name := range slices.Sorted(maps.Keys(w)) {
		of = append(of, w[name])
	}
	steps, t := newAdam(rate, decay, of...), &tape{}
	rows := slices.Clone(p.rows)
	for epoch := range epochs {
		steps.rate = rate * (1 - float64(epoch)/epochs)
		p.random.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
		for some := range slices.Chunk(rows, batch) {
			each(t, some)
			t.backward()
			steps.step()
		}
	}
}

// fit sets the gradients of logits of how good answers are: those of cross entropy. Nothing is learned of a
// question that all models answer alike.
func (p *problem) fit(logits *matrix, rows []*Row) {
	for i, r := range rows {
		for m, s := range r.Scores {
			if !math.IsNaN(s) {
				logits.gain(i)[m] += (logistic(logits.row(i)[m]) - s) / float64(len(rows))
			}
		}
	}
}

// vectors has a row for each question.
func vectors(rows []*Row) *matrix {
	x := newMatrix(len(rows), 1+Size)
	for i, r := range rows {
		r.vector(x.row(i))
	}
	return x
}

// tasks are the names of the tasks of what is learned from.
func (p *problem) tasks() (all []string) {
	for _, r := range p.rows {
		all = append(all, r.Task)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// centres has the mean question of each task.
func (p *problem) centres() *matrix {
	tasks := p.tasks()
	m, n := newMatrix(len(tasks), 1+Size), make([]float64, len(tasks))
	x := vectors(p.rows)
	for i, r := range p.rows {
		k, _ := slices.BinarySearch(tasks, r.Task)
		axpy(1, x.row(i), m.row(k))
		n[k]++
	}
	for k := range tasks {
		for d := range m.row(k) {
			m.row(k)[d] /= n[k]
		}
	}
	return m
}

// past draws so many rows of each task, some twice where there are fewer.
func (p *problem) past(tasks, n int) (all []*Row) {
	names := p.tasks()
	for k := range tasks {
		var of []*Row
		for _, r := range p.rows {
			if r.Task == names[k] {
				of = append(of, r)
			}
		}
		for _, i := range p.random.Perm(max(n, len(of)))[:n] {
			all = append(all, of[i%len(of)])
		}
	}
	return all
}

// clusters are the centres of k-means.
func (p *problem) clusters(n int) *matrix {
	x := vectors(p.rows)
	m := newMatrix(n, x.C)
	for k, i := range p.random.Perm(x.R)[:min(n, x.R)] {
		copy(m.row(k), x.row(i))
	}
	for range 10 {
		next, rows := newMatrix(n, x.C), make([]float64, n)
		for i := range x.R {
			k := nearest(m, x.row(i))
			axpy(1, x.row(i), next.row(k))
			rows[k]++
		}
		for k, r := range rows {
			if r > 0 {
				clear(m.row(k))
				axpy(1/r, next.row(k), m.row(k))
			}
		}
	}
	return m
}

// nearest is the row of a matrix that a vector is nearest to.
func nearest(m *matrix, x []float64) int {
	best, least := 0, math.Inf(1)
	for k := range m.R {
		far := 0.0
		for d, c := range m.row(k) {
			far += (x[d] - c) * (x[d] - c)
		}
		if far < least {
			best, least = k, far
		}
	}
	return best
}

func nearestAll(m *matrix, rows []*Row) (all []int) {
	x := vectors(rows)
	for i := range rows {
		all = append(all, nearest(m, x.row(i)))
	}
	return all
}

// about says of each model what there is: which it is, its size and its price; 0 where nobody knows.
func (p *problem) about() *matrix {
	n := len(p.set.Models)
	m := newMatrix(n, n+2)
	for i, name := range p.set.Models {
		c := p.cards[name]
		m.row(i)[i] = 1
		m.row(i)[n], m.row(i)[n+1] = math.Log(cmp.Or(c.Size, 10)/10)/2, math.Log(cmp.Or(c.Out, 0.2)/0.2)/2
	}
	return m
}
