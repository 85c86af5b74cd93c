package tree

import "math"

// ln is the natural logarithm of a number above 0, as near as 1e-15 of it. That of package math differs in
// the last bit between machines; this one is made of operations that IEEE 754 defines to the bit.
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
