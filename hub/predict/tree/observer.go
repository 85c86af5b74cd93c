package tree

import (
	"slices"
	"sort"
)

const (
	first = 64 // observations that say where bins lie
	bins  = 32 // of a feature, at most
)

// moments are the sums of which a variance is made.
type moments struct{ N, Sum, Squares float64 }

func (m *moments) add(y, weight float64) {
	m.N += weight
	m.Sum += float64(weight * y)
	m.Squares += float64(weight * y * y)
}

func (m *moments) plus(o moments) { m.N, m.Sum, m.Squares = m.N+o.N, m.Sum+o.Sum, m.Squares+o.Squares }

func (m moments) less(o moments) moments {
	return moments{m.N - o.N, m.Sum - o.Sum, m.Squares - o.Squares}
}

// spread is the variance by the weight.
func (m moments) spread() float64 { return max(0, m.Squares-float64(m.Sum*m.Sum)/m.N) }

// observer gathers a leaf's observations to find its split: y by the value of each feature, in bins whose
// edges are the first values. All y are taken relative to the first one, for precision.
type observer struct {
	Center float64
	All    moments
	Rows   []float64   // the first observations: features, y, weight; none once there are bins
	Edges  [][]float64 // of a feature: where its second bin begins, and so on
	Bins   [][]moments
}

func (o *observer) add(x []float64, y, weight float64) {
	if o.All.N == 0 {
		o.Center = y
	}
	y -= o.Center
	o.All.add(y, weight)
	if o.Edges != nil {
		o.count(x, y, weight)
		return
	}
	if o.Rows == nil {
		o.Rows = make([]float64, 0, first*(len(x)+2))
	}
	o.Rows = append(append(o.Rows, x...), y, weight)
	if len(o.Rows) < first*(len(x)+2) {
		return
	}
	d := len(x)
	o.Edges, o.Bins = make([][]float64, d), make([][]moments, d)
	var values [first]float64
	for f := range d {
		for i := range values {
			values[i] = o.Rows[i*(d+2)+f]
		}
		slices.Sort(values[:])
		var edges [bins - 1]float64
		n, last := 0, values[0]
		for i := first / bins; i < first; i += first / bins {
			if values[i] > last {
				edges[n], last = values[i], values[i]
				n++
			}
		}
		o.Edges[f], o.Bins[f] = slices.Clone(edges[:n]), make([]moments, n+1)
	}
	for i := 0; i < len(o.Rows); i += d + 2 {
		o.count(o.Rows[i:i+d], o.Rows[i+d], o.Rows[i+d+1])
	}
	o.Rows = nil
}

func (o *observer) count(x []float64, y, weight float64) {
	for f, edges := range o.Edges {
		bin := sort.Search(len(edges), func(i int) bool { return edges[i] > x[f] })
		o.Bins[f][bin].add(y, weight)
	}
}

// split is the split that leaves the least variance, with so much weight on either side.
func (o *observer) split(least float64) (b best) {
	whole := o.All.spread() / o.All.N
	for f, edges := range o.Edges {
		c, left := choice{feature: f}, moments{}
		for i, at := range edges {
			left.plus(o.Bins[f][i])
			right := o.All.less(left)
			if left.N < least || right.N < least {
				continue
			}
			if merit := whole - (left.spread()+right.spread())/o.All.N; merit > c.merit {
				c.at, c.merit, c.left = at, merit, left
			}
		}
		b.offer(c)
	}
	return b
}
