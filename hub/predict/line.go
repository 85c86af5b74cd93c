package predict

import (
	"math"
	"time"
)

// A line is the time to a first token over what there is to do before it:
//
//	TTFT = b0 + b1*u + b2*q + b3*left + b4*decoding + b5*resident
//
// u are the tokens to compute, and q what they attend to. An engine that has more to do is never faster, so
// no coefficient is below 0.
const terms = 6

// point is where a line is looked at, in the units of its terms: one, thousands of tokens, millions of pairs
// of tokens, milliseconds, tasks, thousands of tokens.
type point [terms]float64

// line are the coefficients, in milliseconds.
type line [terms]float64

// at is what a task is that has so many tokens to compute behind so many that are cached, beside such a load.
// Whoever says more than there can be says as much as there can be.
func at(uncached, cached int, l Load) point {
	u := thousands(uncached)
	return point{1, u, u * (thousands(cached) + float64(u/2)), ms(min(max(0, l.Left), time.Hour)),
		float64(min(max(0, l.Decoding), 1e5)), thousands(l.Resident)}
}

func thousands(tokens int) float64 { return float64(min(max(0, tokens), 1e7)) / 1000 }

// Products that go into a sum are converted, though they are floats already: it keeps the compiler from
// fusing the two, which would round differently on machines with fused multiply-add, and quotes with it.

// along is how high a line is at a point.
func (b *line) along(x *point) float64 {
	sum := 0.0
	for i := range b {
		sum += float64(b[i] * x[i])
	}
	return sum
}

// usual is how large each term is, squared, in the tasks that an assumed line stands for.
var usual = point{1, 2, 4, 1e4, 8, 64}

// sums are those of the normal equations of TTFT.
type sums struct {
	xx [terms][terms]float64 // the upper half
	xy [terms]float64
	yy float64
}

func (s *sums) weight() float64 { return s.xx[0][0] }

// enter adds an observation.
func (s *sums) enter(x *point, y, weight float64) {
	for i := range x {
		w := weight * x[i]
		for j := i; j < terms; j++ {
			s.xx[i][j] += float64(w * x[j])
		}
		s.xy[i] += float64(w * y)
	}
	s.yy += float64(weight * y * y)
}

// add adds another's sums, as so much of themselves.
func (s *sums) add(o *sums, share float64) {
	for i := range s.xx {
		for j := i; j < terms; j++ {
			s.xx[i][j] += float64(share * o.xx[i][j])
		}
		s.xy[i] += float64(share * o.xy[i])
	}
	s.yy += float64(share * o.yy)
}

// fade makes what was seen count less.
func (s *sums) fade(keep float64) {
	for i := range s.xx {
		for j := i; j < terms; j++ {
			s.xx[i][j] *= keep
		}
		s.xy[i] *= keep
	}
	s.yy *= keep
}

// mostSweeps bounds how often a fit goes through the coefficients.
const mostSweeps = 200

// fit is the line of least squares whose coefficients are at or above 0, where another is assumed that counts
// as so many observations. It is found by going down one coefficient after the other, from a line near it.
func (s *sums) fit(assumed *line, weight float64, from *line) line {
	b := *from
	var full [terms][terms]float64
	var right, scale [terms]float64
	for i := range b {
		ridge := float64(weight*usual[i]) + 1e-9*s.xx[i][i]
		full[i][i] = s.xx[i][i] + ridge
		right[i] = s.xy[i] + float64(ridge*assumed[i])
		scale[i] = math.Sqrt(full[i][i])
		for j := i + 1; j < terms; j++ {
			full[i][j], full[j][i] = s.xx[i][j], s.xx[i][j]
		}
	}
	for range mostSweeps {
		moved, size := 0.0, 0.0
		for i := range b {
			if full[i][i] == 0 {
				continue
			}
			sum := right[i]
			for j := range b {
				if j != i {
					sum -= float64(full[i][j] * b[j])
				}
			}
			next := max(0, sum/full[i][i])
			if math.IsNaN(next) || math.IsInf(next, 0) {
				next = assumed[i]
			}
			moved = max(moved, math.Abs(next-b[i])*scale[i])
			size = max(size, next*scale[i])
			b[i] = next
		}
		if moved <= 1e-6*size {
			break
		}
	}
	return b
}

// off is how far the observations are off a line in the mean, and the standard error of that.
func (s *sums) off(b *line) (mean, deviates float64) {
	n := s.weight()
	fitted, squares := 0.0, s.yy
	for i := range b {
		fitted += float64(b[i] * s.xx[0][i])
		squares -= float64(2 * b[i] * s.xy[i])
		squares += float64(b[i] * b[i] * s.xx[i][i])
		for j := i + 1; j < terms; j++ {
			squares += float64(2 * b[i] * b[j] * s.xx[i][j])
		}
	}
	mean = (s.xy[0] - fitted) / n
	return mean, math.Sqrt(max(0, squares/n-float64(mean*mean)) / n)
}
