package model

import "math"

// MaxLabels bounds the labels of a model: a row of the table is 16 bytes, so four rows share a cache line.
const MaxLabels = 16

// Softmax turns logits into probabilities in place, after dividing them by the temperature.
func Softmax(x []float64, temperature float64) {
	top := math.Inf(-1)
	for _, v := range x {
		top = max(top, v)
	}
	var sum float64
	for i, v := range x {
		x[i] = math.Exp((v - top) / temperature)
		sum += x[i]
	}
	for i := range x {
		x[i] /= sum
	}
}
