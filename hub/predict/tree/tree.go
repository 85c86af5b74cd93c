// Package tree learns from what came, one observation after the other, by Hoeffding trees: a leaf is split as
// soon as enough has come through it to say that a split is the best one (Domingos and Hulten 2000; the
// paper's predictors, iemas 4.1).
//
// The same observations in the same order give the same answers, bit by bit, on every machine, whether the
// tree was written down and read in between or not. So nothing walks a map, logarithms are computed here, and
// a product that goes into a sum is converted, though it is a float already: it keeps the compiler from
// fusing the two, which rounds differently.
//
// A tree is not for concurrent use.
package tree

import (
	"math"

	"souk/bus/exact"
)

// Config says how trees grow.
type Config struct {
	Grace float64 // weight that comes to a leaf between two looks at whether to split it
	Delta float64 // chance that another split than the chosen would have been the best
	Tie   float64 // two splits are as good once Hoeffding's bound is below that
	Least float64 // weight on either side of a split
	Depth int     // splits above a leaf, at most, which bounds the memory, too
}

// Default is careful: with a chance of 1e-7 and five a side, as is usual, a tree of times to the first token
// errs by a third more.
func Default() Config {
	return Config{Grace: 200, Delta: 1e-4, Tie: 0.05, Least: 30, Depth: 6}
}

// Bounds of what a tree takes.
const (
	// most is the greatest number that is an observation: beyond, squares would lose all that matters.
	most = 1e12
	// fade is the weight of a leaf's earlier errors when the next one comes.
	fade = 0.95
)

// bound is Hoeffding's, of what ranges over 1, after so many observations.
func (c *Config) bound(n float64) float64 { return math.Sqrt(-exact.Ln(c.Delta) / (2 * n)) }

// sound reports whether numbers are an observation.
func sound(weight float64, xs ...float64) bool {
	if !(weight >= 1e-6 && weight <= 1e6) {
		return false
	}
	for _, x := range xs {
		if !(math.Abs(x) <= most) {
			return false
		}
	}
	return true
}

// choice is a split of a leaf's observations, and how good it is.
type choice struct {
	feature   int
	at, merit float64
	left      moments // of what is less
}

// best are the best split and the merit of the best one on another feature.
type best struct {
	choice
	second float64
}

// offer takes in the best split on one feature.
func (b *best) offer(c choice) {
	switch {
	case c.merit > b.merit:
		b.choice, b.second = c, b.merit
	case c.merit > b.second:
		b.second = c.merit
	}
}
