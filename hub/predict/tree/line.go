package tree

import (
	"math"

	"souk/bus/exact"
)

// line is a plane by least squares over what was seen, each feature on a scale of its own. It keeps means and
// products of what lies off them, so that large numbers which differ little lose nothing.
type line struct {
	N    float64
	Mean []float64 // of the features, then of y
	Off  []float64 // products of what is off the means, of each and those up to it: a triangle
	Coef []float64
	News int // observations since the last fit
}

// refit is after how many observations a plane is fitted again.
const refit = 8

func newLine(features int) line {
	d := features + 1
	all := make([]float64, d+features+d*(d+1)/2) // what is read most stands together
	mean, coef, off := all[:d:d], all[d:d+features:d+features], all[d+features:]
	return line{Mean: mean, Off: off, Coef: coef}
}

// scratch is room for the equations of one fit; a tree has one.
type scratch struct {
	delta, scale, a, b []float64
}

func (l *line) add(s *scratch, x []float64, y, weight float64) {
	before := l.N
	l.N += weight
	share := weight / l.N
	for i := range l.Mean {
		v := y
		if i < len(x) {
			v = x[i]
		}
		s.delta[i] = v - l.Mean[i]
		l.Mean[i] += float64(s.delta[i] * share)
	}
	factor, k := share*before, 0
	for i, a := range s.delta {
		a *= factor
		for _, b := range s.delta[:i+1] {
			l.Off[k] += float64(a * b)
			k++
		}
	}
	if l.News++; l.News >= refit {
		l.News = 0
		l.fit(s)
	}
}

// fit solves the equations. A feature that never varied has no part; one observation's worth of ridge keeps
// those that vary together from tearing at each other.
func (l *line) fit(s *scratch) {
	d, a, b := len(l.Coef), s.a[:0], s.b[:0]
	y, off := l.Off[d*(d+1)/2:], l.Off
	for i := range d {
		own := off[:i+1] // a row of the triangle
		off = off[i+1:]
		s.scale[i] = 0
		if v := own[i]; v > 1e-12*(1+float64(l.Mean[i]*l.Mean[i]))*l.N {
			s.scale[i] = 1 / math.Sqrt(v)
		}
		for j, v := range own[:i] {
			a = append(a, v*s.scale[i]*s.scale[j])
		}
		a, b = append(a, 1+1/l.N), append(b, y[i]*s.scale[i])
	}
	exact.Solve(a, b)
	for i, v := range b {
		l.Coef[i] = v * s.scale[i]
	}
}

// value is the plane's at x. With slopes none of its own is below these negated.
func (l *line) value(x, slopes []float64) float64 {
	sum := l.Mean[len(l.Coef)]
	for i, c := range l.Coef {
		if slopes != nil {
			c = max(c, -slopes[i])
		}
		sum += float64(c * (x[i] - l.Mean[i]))
	}
	return sum
}

// heir is a copy that counts as so much at most.
func (l *line) heir(weight float64) line {
	h := newLine(len(l.Coef))
	copy(h.Mean, l.Mean)
	copy(h.Coef, l.Coef)
	h.N = min(l.N, weight)
	for i, v := range l.Off {
		h.Off[i] = v * (h.N / l.N)
	}
	return h
}
