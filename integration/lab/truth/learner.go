package truth

import (
	"math"
	"math/rand/v2"
)

// learner finds by trying which lies pay, about several things at once: of each it has a truth, which is the
// first, and lies beside it. Half of the time it says of a thing what has paid best so far, and else one of
// what it has not given up. A lie is given up once it has paid less than the best by twice the standard
// error of the difference, and counts as best only where it has paid more than the truth by as much: who
// cannot tell that a lie pays tells the truth.
type learner struct {
	random *rand.Rand
	of     [][]arm
	best   []int // of each thing
}

// arm is the truth or a lie about one thing, with what it has paid.
type arm struct {
	gone         bool
	n, mean, sum float64 // trials, the mean of what they paid, and the sum of squares of differences to it
}

func (a *arm) add(x float64) {
	a.n++
	d := x - a.mean
	a.mean += d / a.n
	a.sum += float64(d * (x - a.mean))
}

// within is the variance of the mean.
func (a *arm) within() float64 {
	if a.n < fewest {
		return math.Inf(1)
	}
	return a.sum / (a.n - 1) / a.n
}

// Of a difference of means, so many standard errors are no chance; and so much of what was seen counts after
// a judgement, as others learn, too.
const (
	surely = 2
	kept   = 0.9
)

// fewest is the number of trials before which nothing is said of a lie.
const fewest = 3

// above returns by how much a paid more than b, in standard errors.
func (a *arm) above(b *arm) float64 {
	e := math.Sqrt(a.within() + b.within())
	if e == 0 {
		e = math.SmallestNonzeroFloat64
	}
	return (a.mean - b.mean) / e
}

func newLearner(random *rand.Rand, kinds []int) *learner {
	l := &learner{random: random, best: make([]int, len(kinds))}
	for _, n := range kinds {
		l.of = append(l.of, make([]arm, n))
	}
	return l
}

// choose draws what is said of each thing.
func (l *learner) choose() []int {
	said := make([]int, len(l.of))
	for i, arms := range l.of {
		said[i] = l.best[i]
		if l.random.IntN(2) == 0 {
			for said[i] = l.random.IntN(len(arms)); arms[said[i]].gone; {
				said[i] = l.random.IntN(len(arms))
			}
		}
	}
	return said
}

// learn takes what was paid by what was said.
func (l *learner) learn(said []int, paid float64) {
	for i, k := range said {
		l.of[i][k].add(paid)
	}
}

// judge finds what has paid best, and gives up what has not.
func (l *learner) judge() {
	for i, arms := range l.of {
		best := 0
		for k := 1; k < len(arms); k++ {
			a := &arms[k]
			if !a.gone && a.above(&arms[0]) > surely && (best == 0 || a.mean > arms[best].mean) {
				best = k
			}
		}
		l.best[i] = best
		for k := range arms {
			a := &arms[k]
			a.gone = a.gone || k > 0 && k != best && a.above(&arms[best]) < -surely
			a.n, a.sum = a.n*kept, a.sum*kept
		}
	}
}
