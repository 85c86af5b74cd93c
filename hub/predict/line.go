package predict

import (
	"math"
	"slices"
	"time"

	"souk/bus/exact"
)

// A line is the time to a first token over what there is to do before it:
//
//	TTFT = b0 + b1*u + b2*q + b3*left + b4*decoding + b5*resident
//
// u are the tokens to compute, and q what they attend to. An engine that has more to do is never faster, so
// no coefficient is below 0.
const terms = 6

// point holds a line's features, in the units of its terms: one, thousands of tokens, millions of pairs of
// tokens, milliseconds, tasks, thousands of tokens.
type point [terms]float64

// line are the coefficients, in milliseconds.
type line [terms]float64

// at returns the features of a task that has so many tokens to compute behind so many cached ones, beside
// such a load. Impossible loads count as the greatest possible.
func at(uncached, cached int, l Load) point {
	u := thousands(uncached)
	return point{1, u, u * (thousands(cached) + float64(u/2)), ms(min(max(0, l.Left), time.Hour)),
		float64(min(max(0, l.Decoding), 1e5)), thousands(l.Resident)}
}

func thousands(tokens int) float64 { return float64(min(max(0, tokens), 1e7)) / 1000 }

// Products that go into a sum are converted, though they are floats already: it keeps the compiler from
// fusing the two, which would round differently on machines with fused multiply-add, and quotes with it.

// along returns a line's value at a point.
func (b *line) along(x *point) float64 {
	sum := 0.0
	for i := range b {
		sum += float64(b[i] * x[i])
	}
	return sum
}

// alone adds the milliseconds for so many tokens behind so many cached ones; u counts the first in thousands.
func (b *line) alone(from float64, uncached, cached int) (to, u float64) {
	u = thousands(uncached)
	return from + float64(b[1]*u) + float64(b[2]*(u*(thousands(cached)+float64(u/2)))), u
}

// delay returns the milliseconds that such a load adds to a line: in all, and by the prompts in hand.
func (b *line) delay(l Load) (all, queue float64) {
	x := at(0, 0, l)
	queue = float64(b[3] * x[3])
	return queue + float64(b[4]*x[4]) + float64(b[5]*x[5]), queue
}

// usual is the square of each term's usual size, for the tasks that an assumed line stands for.
var usual = point{1, 2, 4, 1e4, 8, 64}

// sums holds the sums of the normal equations of TTFT.
type sums struct {
	XX [terms][terms]float64 // the upper half
	XY [terms]float64
	YY float64
}

func (s *sums) weight() float64 { return s.XX[0][0] }

// enter adds an observation.
func (s *sums) enter(x *point, y, weight float64) {
	for i := range x {
		w := weight * x[i]
		for j := i; j < terms; j++ {
			s.XX[i][j] += float64(w * x[j])
		}
		s.XY[i] += float64(w * y)
	}
	s.YY += float64(weight * y * y)
}

// add adds another's sums, at such a share.
func (s *sums) add(o *sums, share float64) {
	for i := range s.XX {
		for j := i; j < terms; j++ {
			s.XX[i][j] += float64(share * o.XX[i][j])
		}
		s.XY[i] += float64(share * o.XY[i])
	}
	s.YY += float64(share * o.YY)
}

// fade decays the sums.
func (s *sums) fade(keep float64) {
	for i := range s.XX {
		for j := i; j < terms; j++ {
			s.XX[i][j] *= keep
		}
		s.XY[i] *= keep
	}
	s.YY *= keep
}

// follow replaces the observed times by those of a line.
func (s *sums) follow(b *line) {
	s.YY = 0
	for i := range b {
		s.XY[i] = 0
		for j := range b {
			s.XY[i] += float64(s.XX[min(i, j)][max(i, j)] * b[j])
		}
		s.YY += float64(b[i] * s.XY[i])
	}
}

// fit is the line of least squares whose coefficients are at or above 0, where another is assumed that counts
// as so many observations. Of coefficients that would be below 0 the lowest is left out, until none is.
func (s *sums) fit(assumed *line, weight float64) (b line) {
	var right, scale [terms]float64
	for i := range terms {
		ridge := float64(weight*usual[i]) + float64(1e-9*s.XX[i][i])
		scale[i] = 1 / math.Sqrt(s.XX[i][i]+ridge)
		right[i] = (s.XY[i] + float64(ridge*assumed[i])) * scale[i]
	}
	in, a, x := []int{0, 1, 2, 3, 4, 5}, make([]float64, 0, terms*terms), make([]float64, 0, terms)
	for len(in) > 0 {
		a, x = a[:0], x[:0]
		for k, i := range in {
			for _, j := range in[:k] {
				a = append(a, s.XX[j][i]*scale[i]*scale[j])
			}
			a, x = append(a, 1), append(x, right[i])
		}
		exact.Solve(a, x)
		least := slices.Index(x, slices.Min(x))
		if least >= 0 && x[least] < 0 {
			in = slices.Delete(in, least, least+1)
			continue
		}
		for k, i := range in {
			if b[i] = x[k] * scale[i]; !(b[i] <= math.MaxFloat64) {
				return *assumed
			}
		}
		break
	}
	return b
}

// off returns the observations' mean distance from a line, and its standard error.
func (s *sums) off(b *line) (mean, deviates float64) {
	n := s.weight()
	fitted, squares := 0.0, s.YY
	for i := range b {
		fitted += float64(b[i] * s.XX[0][i])
		squares -= float64(2 * b[i] * s.XY[i])
		squares += float64(b[i] * b[i] * s.XX[i][i])
		for j := i + 1; j < terms; j++ {
			squares += float64(2 * b[i] * b[j] * s.XX[i][j])
		}
	}
	mean = (s.XY[0] - fitted) / n
	return mean, math.Sqrt(max(0, squares/n-float64(mean*mean)) / n)
}
