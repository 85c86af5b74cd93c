package tree

import "slices"

const (
	first = 64 // observations that say where bins lie
	bins  = 32 // of a feature, at most
)

// moments are what a variance is made of.
type moments struct{ n, sum, squares float64 }

func (m *moments) add(y, weight float64) {
	m.n += weight
	m.sum += float64(weight * y)
	m.squares += float64(weight * y * y)
}

func (m *moments) plus(o moments) { m.n, m.sum, m.squares = m.n+o.n, m.sum+o.sum, m.squares+o.squares }

func (m moments) less(o moments) moments {
	return moments{m.n - o.n, m.sum - o.sum, m.squares - o.squares}
}

// spread is the variance by the weight.
func (m moments) spread() float64 { return max(0, m.squares-float64(m.sum*m.sum)/m.n) }

// observer is what a leaf gathers to be split: y by the value of each feature, in bins between the values
// that came first. All y count from the first one on, for precision.
type observer struct {
	center float64
	all    moments
	rows   []float64   // the first observations: features, y, weight; none once there are bins
	edges  [][]float64 // of a feature: where its second bin begins, and so on
	bins   [][]moments
}

// observerSize is what one takes, the first observations or the bins, whichever is more.
func observerSize(features int) int {
	const head = 32 + 3*24
	const slice = 2 * 24
	return head + max(8*first*(features+2), features*(slice+8*(bins-1)+24*bins))
}

func (o *observer) add(x []float64, y, weight float64) {
	if o.all.n == 0 {
		o.center = y
	}
	y -= o.center
	o.all.add(y, weight)
	if o.edges != nil {
		o.count(x, y, weight)
		return
	}
	if o.rows == nil {
		o.rows = make([]float64, 0, first*(len(x)+2))
	}
	o.rows = append(append(o.rows, x...), y, weight)
	if len(o.rows) < first*(len(x)+2) {
		return
	}
	d := len(x)
	o.edges, o.bins = make([][]float64, d), make([][]moments, d)
	var values [first]float64
	for f := range d {
		for i := range values {
			values[i] = o.rows[i*(d+2)+f]
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
		o.edges[f], o.bins[f] = slices.Clone(edges[:n]), make([]moments, n+1)
	}
	for i := 0; i < len(o.rows); i += d + 2 {
		o.count(o.rows[i:i+d], o.rows[i+d], o.rows[i+d+1])
	}
	o.rows = nil
}

func (o *observer) count(x []float64, y, weight float64) {
	for f, edges := range o.edges {
		bin := 0
		for lo, hi := 0, len(edges); lo < hi; bin = lo {
			if mid := (lo + hi) / 2; edges[mid] <= x[f] {
				lo = mid + 1
			} else {
				hi = mid
			}
		}
		o.bins[f][bin].add(y, weight)
	}
}

// split is the split that leaves the least variance, with so much weight on either side.
func (o *observer) split(least float64) (b best) {
	whole := o.all.spread() / o.all.n
	for f, edges := range o.edges {
		c, left := choice{feature: f}, moments{}
		for i, at := range edges {
			left.plus(o.bins[f][i])
			right := o.all.less(left)
			if left.n < least || right.n < least {
				continue
			}
			if merit := whole - (left.spread()+right.spread())/o.all.n; merit > c.merit {
				c.at, c.merit = at, merit
			}
		}
		b.offer(c)
	}
	return b
}

// sides are what lies on the two sides of a split.
func (o *observer) sides(c choice) (left, right moments) {
	for i, at := range o.edges[c.feature] {
		if at > c.at {
			break
		}
		left.plus(o.bins[c.feature][i])
	}
	return left, o.all.less(left)
}
