package seat

import (
	"math"
	"math/bits"
	"time"
)

// Classes of idle sessions, by how many turns they had and how long the last pause was, and bins of how long
// they have been idle.
const (
	gaps    = 5
	classes = 4 * gaps
	bins    = 36
)

// edges are the ends of the bins: 0.05 s, and each half as long again as the one before.
var edges = func() (e [bins]time.Duration) {
	for i, at := 0, 0.05; i < bins; i, at = i+1, float64(at*1.5) {
		e[i] = time.Duration(at * float64(time.Second))
	}
	return e
}()

// class is the class of idle sessions: those that had so many turns, the last after a pause of this gap.
func class(turns, gap uint8) int {
	t := 3
	switch {
	case turns <= 2:
		t = max(0, int(turns)-1)
	case turns <= 5:
		t = 2
	}
	return t*gaps + int(gap)
}

// gapOf is the gap of a pause; 0 is none.
func gapOf(pause time.Duration) uint8 {
	switch {
	case pause < 2*time.Second:
		return 1
	case pause < 15*time.Second:
		return 2
	case pause < 2*time.Minute:
		return 3
	}
	return 4
}

const (
	firstReturns = 200  // before that nothing is known
	refitEvery   = 50   // returns
	halveEvery   = 5000 // returns
	pseudo       = 3    // events of all that a class is thought to have had
)

// Index says how much an idle session is worth keeping: the chance that it comes back, for each second that
// it has to be kept until then (Gittins 1979). It learns from all sessions how likely one is to come back
// that has been idle for so long. The zero Index has seen none.
type Index struct {
	events, exposure [classes][bins]float64 // returns; seconds that were waited for them
	returns          int
	best             [classes][bins]float64 // of sessions as old as a bin's beginning
	leaves           [classes]time.Duration // when it is below a tenth of a fresh one's
	fresh            float64                // of one that had its first turn a moment ago, see settled
}

// settled is how long a fresh session has been idle. Seats are looked at once a second, so who comes back at
// once needs none kept, and says nothing of the others: a few who do would make all others seem worth little.
const settled = time.Second

// waited says that a session of a class was idle from one age to another.
func (x *Index) waited(class int, from, to time.Duration) {
	for b := binOf(from); b < bins && from < to; b++ {
		until := min(to, edges[b])
		x.exposure[class][b] += (until - from).Seconds()
		from = until
	}
}

// returned says that one came back at an age.
func (x *Index) returned(class int, age time.Duration) {
	if b := binOf(age); b < bins {
		x.events[class][b]++
	}
	x.returns++
	if x.returns%halveEvery == 0 {
		for c := range classes {
			for b := range bins {
				x.events[c][b] /= 2
				x.exposure[c][b] /= 2
			}
		}
	}
	if x.returns >= firstReturns && x.returns%refitEvery == 0 {
		x.fit()
	}
}

// least is the bin of the youngest age of so many bits.
var least = func() (l [65]uint8) {
	for n := 1; n < 64; n++ {
		for l[n] = l[n-1]; l[n] < bins && edges[l[n]] <= 1<<(n-1); l[n]++ {
		}
	}
	return l
}()

// last are the oldest ages of the bins. Twice as old as the youngest age of so many bits is at most two bins
// further, as three would be older, so two comparisons find the bin, without a branch that is hard to guess.
var last = func() (l [bins + 2]time.Duration) {
	for b := range l {
		if l[b] = math.MaxInt64; b < bins {
			l[b] = edges[b] - 1
		}
	}
	return l
}()

// binOf is the bin of an age; bins of one beyond them all.
func binOf(age time.Duration) int {
	if age <= 0 {
		return 0
	}
	b := int(least[bits.Len64(uint64(age))])
	b += int(uint64(last[b]-age) >> 63)
	return b + int(uint64(last[b]-age)>>63)
}

// begin is where a bin begins.
func begin(b int) time.Duration {
	if b == 0 {
		return 0
	}
	return edges[b-1]
}

// fit works out the index of every class and bin.
func (x *Index) fit() {
	var all [bins]float64
	for b := range bins {
		events, exposure := 0.0, 0.0
		for c := range classes {
			events, exposure = events+x.events[c][b], exposure+x.exposure[c][b]
		}
		if exposure > 0 {
			all[b] = events / exposure
		}
	}
	for c := range classes {
		x.best[c] = x.rank(c, &all)
	}
	x.fresh = x.best[class(1, 0)][binOf(settled)]
	for c := range classes {
		x.leaves[c] = edges[bins-1]
		for b := range bins {
			if x.best[c][b] < x.fresh/10 {
				x.leaves[c] = begin(b)
				break
			}
		}
	}
}

// rank is the index of sessions of a class as old as the beginning of each bin, where all classes together
// come back so often: over all times to wait on, the most of the chance that one is back by then, by the time
// that it is kept on the mean.
func (x *Index) rank(class int, all *[bins]float64) (best [bins]float64) {
	var stay, kept [bins]float64 // chance that it is not back by the end of a bin; time kept in it
	for b := range bins {
		span := (edges[b] - begin(b)).Seconds()
		stay[b], kept[b] = 1, span
		if all[b] > 0 {
			hazard := (x.events[class][b] + pseudo) / (x.exposure[class][b] + pseudo/all[b])
			stay[b] = Exp(-min(600, float64(hazard*span)))
			kept[b] = (1 - stay[b]) / hazard
		}
	}
	return bestRates(&stay, &kept)
}

// bestRates is, from the beginning of each bin, the most of the chance to be back by the end of a bin, by the
// time kept until then, where each bin has a chance that one stays away and a time kept.
func bestRates(stay, kept *[bins]float64) (best [bins]float64) {
	for from := range bins {
		away, time := 1.0, 0.0
		for b := from; b < bins; b++ {
			time += float64(away * kept[b])
			away = float64(away * stay[b])
			best[from] = max(best[from], (1-away)/time)
		}
	}
	return best
}

// known reports whether enough was seen.
func (x *Index) known() bool { return x.returns >= firstReturns }

// gone reports whether one that has been idle for so long is not worth a seat: less than a tenth of a fresh
// one.
func (x *Index) gone(class int, idle time.Duration) bool {
	if !x.known() {
		return idle > 9*time.Second
	}
	return idle >= x.leaves[class]
}
