package sage

import (
	"souk/bus/exact"
)

// meanLater is e^-fade.
const meanLater = 0.8187307530779818

// less is the discount on a use for a call of a state before it.
func (s *state) less() float32 {
	if s.later > 0 {
		return float32(s.later) * (1.0 / 65535)
	}
	return meanLater
}

// spanOf is the span of a call that took so long, and where that ends.
func spanOf(seconds float64) (k int, ends float64) {
	for ends = shortest; k < spans-1 && seconds >= ends; k++ {
		ends *= 2
	}
	return k, ends
}

// lasted takes in how long a call took of the last of two roles.
func (g *graph) lasted(before, last uint8, seconds float64) {
	if g.mean == 0 {
		g.mean = float32(seconds)
	}
	g.mean += float32(0.05 * (float32(seconds) - g.mean))
	if g.then == 0 || g.mean > g.then*1.1 || g.mean < g.then*0.9 {
		g.then = g.mean
		for k, middle := 0, 0.75*shortest; k < spans; k++ {
			g.decay[k] = float32(exact.Exp(-min(600, fade*middle/float64(g.then))))
			middle *= 2
		}
	}
	k, _ := spanOf(seconds)
	all := [2]*state{&g.single[last], nil}
	if at := g.find(before, last, true); at >= 0 {
		all[1] = &g.double[at]
	}
	for _, s := range all {
		if s == nil {
			continue
		}
		if s.took[k]++; s.took[k] == 255 {
			for i := range s.took {
				s.took[i] /= 2
			}
		}
		sum, n := float32(0), float32(0)
		for i, x := range s.took {
			sum += float32(float32(x) * g.decay[i])
			n += float32(x)
		}
		s.later = uint16(max(1, min(65535, 65535*sum/n)))
	}
}

// rest is the discount on a use after a call of the last of two roles, which has taken so long.
func (g *graph) rest(before, last uint8, seconds float64, second bool) float64 {
	if g.then <= 0 {
		return meanLater
	}
	rate := fade / float64(g.then)
	from, ends := spanOf(seconds)
	within := (ends - seconds) / (ends / 2) // the part of the span that is left
	if from == 0 {
		within = (ends - seconds) / ends
	}
	if from == spans-1 {
		within, ends = 1, 2*seconds
	}
	// what ends in this span does so in the middle of what is left of it
	soon := float64(within * exact.Exp(-min(600, float64(rate*(ends-seconds)/2))))
	grown := exact.Exp(min(600, float64(rate*seconds)))
	past := func(s *state) (n, sum float64) { // of calls that took longer
		n, sum = float64(s.took[from])*within, float64(float64(s.took[from])*soon)
		for k := from + 1; k < spans; k++ {
			n += float64(s.took[k])
			sum += float64(float64(float64(s.took[k])*float64(g.decay[k])) * grown)
		}
		return n, sum
	}
	n, sum := past(&g.single[last])
	if n > 0 { // as if it were so many calls
		n, sum = pseudo, float64(pseudo*sum/n)
	}
	if k := g.find(before, last, false); k >= 0 && second {
		more, by := past(&g.double[k])
		n, sum = n+more, sum+by
	}
	if n == 0 { // none has taken so long: as long again
		return exact.Exp(-min(600, float64(rate*seconds)))
	}
	return sum / n
}
