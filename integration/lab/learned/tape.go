package learned

import "math"

// matrix is rows of numbers, with what a loss gains by each of them.
type matrix struct {
	R, C int
	V, G []float64
}

func newMatrix(r, c int) *matrix { return &matrix{r, c, make([]float64, r*c), make([]float64, r*c)} }

func (m *matrix) row(i int) []float64 { return m.V[i*m.C : (i+1)*m.C] }

func (m *matrix) gain(i int) []float64 { return m.G[i*m.C : (i+1)*m.C] }

func dot(a, b []float64) (sum float64) {
	for i, x := range a {
		sum += x * b[i]
	}
	return sum
}

func axpy(times float64, of, to []float64) {
	for i, x := range of {
		to[i] += times * x
	}
}

// tape notes what was computed, so that gradients can be computed backwards.
type tape struct{ back []func() }

// backward computes the gradients, after a loss has filled those of what it is of.
func (t *tape) backward() {
	for i := len(t.back) - 1; i >= 0; i-- {
		t.back[i]()
	}
	t.back = t.back[:0]
}

func (t *tape) then(back func()) { t.back = append(t.back, back) }

// mul is the product of matrices.
func (t *tape) mul(a, b *matrix) *matrix {
	out := newMatrix(a.R, b.C)
	for i := range a.R {
		to := out.row(i)
		for k, x := range a.row(i) {
			if x != 0 {
				axpy(x, b.row(k), to)
			}
		}
	}
	t.then(func() {
		for i := range a.R {
			g, to := out.gain(i), a.gain(i)
			for k, x := range a.row(i) {
				to[k] += dot(g, b.row(k))
				if x != 0 {
					axpy(x, g, b.gain(k))
				}
			}
		}
	})
	return out
}

// pair has the product of each row of a with each row of b.
func (t *tape) pair(a, b *matrix) *matrix {
	out := newMatrix(a.R, b.R)
	for i := range a.R {
		for j := range b.R {
			out.V[i*b.R+j] = dot(a.row(i), b.row(j))
		}
	}
	t.then(func() {
		for i := range a.R {
			for j := range b.R {
				g := out.G[i*b.R+j]
				axpy(g, b.row(j), a.gain(i))
				axpy(g, a.row(i), b.gain(j))
			}
		}
	})
	return out
}

// add is a sum; b may be one row, which is added to each.
func (t *tape) add(a, b *matrix) *matrix {
	out := newMatrix(a.R, a.C)
	for i := range out.V {
		out.V[i] = a.V[i] + b.V[i%len(b.V)]
	}
	t.then(func() {
		for i, g := range out.G {
			a.G[i] += g
			b.G[i%len(b.V)] += g
		}
	})
	return out
}

// scale multiplies the columns of a by the one row of b.
func (t *tape) scale(a, b *matrix) *matrix {
	out := newMatrix(a.R, a.C)
	for i := range out.V {
		out.V[i] = a.V[i] * b.V[i%len(b.V)]
	}
	t.then(func() {
		for i, g := range out.G {
			a.G[i] += g * b.V[i%len(b.V)]
			b.G[i%len(b.V)] += g * a.V[i]
		}
	})
	return out
}

// relu leaves nothing below 0.
func (t *tape) relu(a *matrix) *matrix {
	out := newMatrix(a.R, a.C)
	for i, x := range a.V {
		out.V[i] = max(0, x)
	}
	t.then(func() {
		for i, g := range out.G {
			if a.V[i] > 0 {
				a.G[i] += g
			}
		}
	})
	return out
}

// beside has the columns of a and then those of b.
func (t *tape) beside(a, b *matrix) *matrix {
	out := newMatrix(a.R, a.C+b.C)
	for i := range a.R {
		copy(out.row(i), a.row(i))
		copy(out.row(i)[a.C:], b.row(i))
	}
	t.then(func() {
		for i := range a.R {
			axpy(1, out.gain(i)[:a.C], a.gain(i))
			axpy(1, out.gain(i)[a.C:], b.gain(i))
		}
	})
	return out
}

// unit has rows of length one.
func (t *tape) unit(a *matrix) *matrix {
	out := newMatrix(a.R, a.C)
	lengths := make([]float64, a.R)
	for i := range a.R {
		lengths[i] = math.Sqrt(dot(a.row(i), a.row(i))) + 1e-9
		axpy(1/lengths[i], a.row(i), out.row(i))
	}
	t.then(func() {
		for i := range a.R {
			g, u := out.gain(i), out.row(i)
			axpy(1/lengths[i], g, a.gain(i))
			axpy(-dot(g, u)/lengths[i], u, a.gain(i))
		}
	})
	return out
}

// softmax turns numbers into shares.
func softmax(x []float64) {
	most := math.Inf(-1)
	for _, v := range x {
		most = max(most, v)
	}
	sum := 0.0
	for i, v := range x {
		x[i] = math.Exp(v - most)
		sum += x[i]
	}
	for i := range x {
		x[i] /= sum
	}
}

// attend has for each row of q a mean of rows of v, those from from[i] on: each counts the more the more
// the row of k beside it is like q's.
func (t *tape) attend(q, k, v *matrix, from []int, n int) *matrix {
	out := newMatrix(q.R, v.C)
	shares := newMatrix(q.R, n)
	root := math.Sqrt(float64(q.C))
	for i := range q.R {
		a := shares.row(i)
		for j := range n {
			a[j] = dot(q.row(i), k.row(from[i]+j)) / root
		}
		softmax(a)
		for j, share := range a {
			axpy(share, v.row(from[i]+j), out.row(i))
		}
	}
	t.then(func() {
		by := make([]float64, n)
		for i := range q.R {
			a, g, mean := shares.row(i), out.gain(i), 0.0
			for j, share := range a {
				by[j] = dot(g, v.row(from[i]+j))
				mean += share * by[j]
				axpy(share, g, v.gain(from[i]+j))
			}
			for j, share := range a {
				of := share * (by[j] - mean) / root
				axpy(of, k.row(from[i]+j), q.gain(i))
				axpy(of, q.row(i), k.gain(from[i]+j))
			}
		}
	})
	return out
}

// logistic is the probability of a logit.
func logistic(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// adam is Adam with decoupled decay of weights (Loshchilov and Hutter 2019).
type adam struct {
	of          []*matrix
	rate, decay float64
	first, next [][]float64
	steps       float64
}

func newAdam(rate, decay float64, of ...*matrix) *adam {
	a := &adam{of: of, rate: rate, decay: decay}
	for _, m := range of {
		a.first, a.next = append(a.first, make([]float64, len(m.V))), append(a.next, make([]float64,
			len(m.V)))
	}
	return a
}

// step moves the weights against their gradients, and forgets those.
func (a *adam) step() {
	const one, two = 0.9, 0.999
	a.steps++
	c1, c2 := 1-math.Pow(one, a.steps), 1-math.Pow(two, a.steps)
	for k, m := range a.of {
		f, n := a.first[k], a.next[k]
		for i, g := range m.G {
			f[i] = one*f[i] + (1-one)*g
			n[i] = two*n[i] + (1-two)*g*g
			m.V[i] -= a.rate * (f[i]/c1/(math.Sqrt(n[i]/c2)+1e-8) + a.decay*m.V[i])
			m.G[i] = 0
		}
	}
}
