package bench

import (
	"math"
	"slices"
)

// turns are figures of one thing and of what it is compared with, measured in turn: each pair saw the same
// machine.
type turns struct{ own, base []float64 }

func (t *turns) add(own, base float64) {
	t.own, t.base = append(t.own, own), append(t.base, base)
}

// between says what figures that differ by chance come to, and between what that lies with 95 %: the
// Hodges-Lehmann estimate, and the interval that belongs to Wilcoxon's signed ranks. A turn in which
// something else had the processor moves neither by much.
func between(xs []float64) (middle, low, high float64) {
	var means []float64 // of every two, and of each with itself
	for i := range xs {
		for j := range i + 1 {
			means = append(means, (xs[i]+xs[j])/2)
		}
	}
	slices.Sort(means)
	n := float64(len(xs)) // but for one time in forty, so many of the means lie below the middle:
	below := max(0, int(n*(n+1)/4-1.96*math.Sqrt(n*(n+1)*(2*n+1)/24)))
	return median(means), means[below], means[len(means)-1-below]
}

// multiple says how many times the base the thing is, and between which multiples that lies.
func (t *turns) multiple() (middle, low, high float64) {
	logs := make([]float64, len(t.own))
	for i := range logs {
		logs[i] = math.Log(t.own[i] / t.base[i])
	}
	middle, low, high = between(logs)
	return math.Exp(middle), math.Exp(low), math.Exp(high)
}

// fewestTurns are so many that an interval holds the truth nineteen times in twenty.
const fewestTurns = 6

// bar is a bar of the multiple, judged by the interval if there is one: where it holds the limit, the bar is
// open.
func (t *turns) bar(name string, limit float64, of, unit, note string) Bar {
	b := ratio(name, limit, of, unit, t.own, t.base, note)
	if len(t.own) >= fewestTurns {
		b.Multiple, b.Low, b.High = t.multiple()
	}
	return b
}
