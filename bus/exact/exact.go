// Package exact has functions that give the same bits on every machine. Those of package math do not: they
// are assembly on some, and have products fused into sums on others.
package exact

import "math"

// Ln is the natural logarithm of a number above 0, to the last bit but one. The method is FreeBSD's e_log.c:
// x = 2^k (1+f), and a polynomial in s = f/(2+f).
func Ln(x float64) float64 {
	f, e := math.Frexp(x)
	if f < math.Sqrt2/2 {
		f, e = 2*f, e-1
	}
	f--
	k := float64(e)
	s := f / (2 + f)
	s2 := s * s
	s4 := s2 * s2
	horner := func(c ...float64) (y float64) {
		for _, a := range c {
			y = float64(y*s4) + a
		}
		return y
	}
	r := float64(s2*horner(1.479819860511658591e-01, 1.818357216161805012e-01, 2.857142874366239149e-01,
		6.666666666666735130e-01)) +
		float64(s4*horner(1.531383769920937332e-01, 2.222219843214978396e-01, 3.999999999940941908e-01))
	half := float64(0.5 * f * f)
	const high, low = 6.93147180369123816490e-01, 1.90821492927058770002e-10 // of ln 2
	return float64(k*high) - ((half - (float64(s*(half+r)) + float64(k*low))) - f)
}

// Exp is e^x for x from -700 to 700, to a part in 1e10.
func Exp(x float64) float64 {
	if x < 0 {
		return 1 / Exp(-x)
	}
	halved := 0
	for ; x > 0.25 && halved < 1100; halved++ { // it ends beyond all numbers, too
		x /= 2
	}
	sum, term := 1.0, 1.0
	for i := 1; i <= 12; i++ {
		term = float64(term * x / float64(i))
		sum += term
	}
	for range halved {
		sum = float64(sum * sum)
	}
	return sum
}

// Solve solves the equations of a symmetric and positive matrix by Cholesky's way. Of that a is the lower
// half, row after row, and b the right side; then b is the solution, and what a holds is of no use. No square
// on the way counts for less than 1e-12, so that a matrix which is nearly singular has a solution, too.
func Solve(a, b []float64) {
	row := func(i int) []float64 { return a[i*(i+1)/2:][:i+1] }
	for i := range b {
		own := row(i)
		for j := range own {
			of := row(j)
			for k := range j {
				own[j] -= float64(own[k] * of[k])
			}
			if j == i {
				own[i] = math.Sqrt(max(own[i], 1e-12))
				b[i] /= own[i]
				break
			}
			own[j] /= of[j]
			b[i] -= float64(own[j] * b[j])
		}
	}
	for i := len(b) - 1; i >= 0; i-- {
		for k := i + 1; k < len(b); k++ {
			b[i] -= float64(row(k)[i] * b[k])
		}
		b[i] /= row(i)[i]
	}
}
