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
	below := ranksBelow(len(xs))
	return median(means), means[below], means[len(means)-1-below]
}

// ranksBelow returns how many of the sorted means of n figures are left out at each end, so that the truth
// lies outside the rest with a chance of at most 2.5 % a side, by the distribution of Wilcoxon's signed
// ranks, which is counted out, and taken for normal beyond 200 figures. Of fewer figures than fewestTurns
// none is left out, and the range between does not reach 95 %.
func ranksBelow(n int) int {
	if n > 200 {
		x := float64(n)
		return int(x*(x+1)/4 - 1.96*math.Sqrt(x*(x+1)*(2*x+1)/24))
	}
	ways := make([]float64, n*(n+1)/2+1) // how likely the signed ranks come to each sum
	ways[0] = 1
	for rank := range n {
		for sum := len(ways) - 1; sum >= 0; sum-- {
			ways[sum] /= 2
			if sum > rank {
				ways[sum] += ways[sum-rank-1] / 2
			}
		}
	}
	k := 0
	for sum := ways[0]; sum+ways[k+1] <= 0.025; k++ {
		sum += ways[k+1]
	}
	return k
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

// fewestTurns is the least number of turns whose interval holds the truth nineteen times in twenty.
const fewestTurns = 6

// bar makes the bar of the multiple, judged by the interval if there is one: where it holds the limit, the
// bar is open.
func (t *turns) bar(name string, limit float64, of, unit, note string) Bar {
	b := ratio(name, limit, of, unit, t.own, t.base, note)
	if len(t.own) >= fewestTurns {
		b.Multiple, b.Low, b.High = t.multiple()
	}
	return b
}
