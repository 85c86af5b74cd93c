package tree

import "math"

// The functions of package math differ in the last bit between machines, as some are written for one machine.
// These are made of operations that IEEE 754 defines to the bit.

// ln is the natural logarithm of a number above 0, as near as 1e-15 of it.
func ln(x float64) float64 {
	m, e := math.Frexp(x) // x = m 2^e, m from a half to 1
	if m < math.Sqrt2/2 {
		m, e = 2*m, e-1
	}
	s := (m - 1) / (m + 1) // ln m = 2 (s + s^3/3 + s^5/5 + ...)
	square, sum := s*s, 0.0
	for k := 23; k >= 1; k -= 2 {
		sum = float64(sum*square) + 1/float64(k)
	}
	return float64(2*s*sum) + float64(float64(e)*math.Ln2)
}

// exp is e to the power x.
func exp(x float64) float64 {
	switch {
	case x < -700:
		return 0
	case x > 700:
		x = 700
	}
	k := math.Floor(x/math.Ln2 + 0.5)
	r := x - float64(k*math.Ln2)
	sum := 1.0
	for i := 18; i >= 1; i-- {
		sum = float64(sum*r)/float64(i) + 1
	}
	return math.Ldexp(sum, int(k))
}

// below is the part of a normal distribution that lies below z, within 1e-7 (Abramowitz and Stegun 26.2.17).
func below(z float64) float64 {
	t := 1 / (1 + float64(0.2316419*math.Abs(z)))
	sum := 0.0
	for _, c := range [...]float64{1.330274429, -1.821255978, 1.781477937, -0.356563782, 0.319381530} {
		sum = float64((sum + c) * t)
	}
	tail := float64(0.3989422804014327 * exp(-z*z/2) * sum)
	if z < 0 {
		return tail
	}
	return 1 - tail
}
