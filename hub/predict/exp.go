package predict

// Exp is e^x for x from -700 to 700, the same on every machine, which math.Exp is not.
func Exp(x float64) float64 {
	if x < 0 {
		return 1 / Exp(-x)
	}
	halved := 0
	for ; x > 0.25; halved++ {
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
