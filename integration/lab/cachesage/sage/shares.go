package sage

import (
	"math"
	"math/bits"
	"time"

	"souk/bus/exact"
)

const (
	bins       = 36
	refitEvery = 50   // returns
	halveEvery = 5000 // returns
	thought    = 3    // events of all that a class is thought to have had
)

// edges are the ends of the bins: 0.05 s, and each half as long again as the one before.
var edges = func() (e [bins]time.Duration) {
	for i, at := 0, 0.05; i < bins; i, at = i+1, float64(at*1.5) {
		e[i] = time.Duration(at * float64(time.Second))
	}
	return e
}()

// Shares says which share of several classes of idle sessions comes back that have been idle for so long. It
// has the ages of a class of turns, and is learned in the same way, class by class, each shrunk towards all.
type Shares struct {
	of      []shares
	all     [bins]float64 // returns a bin of waiting, of all classes together, at the last fit
	returns int
}

// shares holds the shares of one class, each by age.
type shares struct {
	events   [bins]uint16 // returns, in parts
	exposure [bins]uint16 // waited for them, in parts of a bin
	share    [bins]uint16 // that comes back, of those as old as a bin's beginning, in 65535ths
}

// parts are counted of a return and of a bin that was waited.
const parts = 8

// NewShares knows nothing of so many classes.
func NewShares(classes int) *Shares { return &Shares{of: make([]shares, classes)} }

// Waited says that a session of a class was idle from one age to another. Whole parts of bins alone are taken
// in; it returns up to which age that was, and so from where to go on.
func (x *Shares) Waited(class int, from, to time.Duration) time.Duration {
	for b := binOf(from); b < bins && from < to; b++ {
		part := (edges[b] - begin(b)) / parts
		n := parts - int((from-begin(b)+part/2)/part) // that are left of the bin
		if to < edges[b] {
			n = min(n, int((to-from)/part))
		}
		x.wait(class, b, n)
		if to < edges[b] {
			return from + time.Duration(n)*part
		}
		from = edges[b]
	}
	return from
}

// wait counts so many parts of a bin.
func (x *Shares) wait(class, bin, n int) {
	c := &x.of[class]
	if c.exposure[bin] += uint16(max(0, n)); c.exposure[bin] > mostParts {
		c.halve()
	}
}

// mostParts is a count at which a class is halved.
const mostParts = 1<<16 - 2*parts

// Returned says that one came back at an age, where up to another it was told of before.
func (x *Shares) Returned(class int, from, age time.Duration) {
	from = x.Waited(class, from, age)
	if b := binOf(age); b < bins {
		part := (edges[b] - begin(b)) / parts
		x.wait(class, b, int((max(0, age-from)+part/2)/part))
		c := &x.of[class]
		if c.events[b] += parts; c.events[b] > mostParts {
			c.halve()
		}
	}
	x.returns++
	if x.returns%halveEvery == 0 {
		for i := range x.of {
			x.of[i].halve()
		}
	}
	if x.returns%refitEvery == 0 {
		x.fit()
	}
}

func (c *shares) halve() {
	for b := range bins {
		c.events[b] /= 2
		c.exposure[b] /= 2
	}
}

// Known reports whether enough was seen to say anything.
func (x *Shares) Known() bool { return x.returns >= refitEvery }

// Of is the share of a class that comes back, of those that have been idle for so long.
func (x *Shares) Of(class int, idle time.Duration) float64 {
	b := binOf(idle)
	if b == bins {
		return 0
	}
	return float64(x.of[class].share[b]) / 65535
}

func (x *Shares) fit() {
	var events, exposure [bins]float64
	for i := range x.of {
		for b := range bins {
			events[b] += float64(x.of[i].events[b])
			exposure[b] += float64(x.of[i].exposure[b])
		}
	}
	for b := range bins {
		if x.all[b] = 0; exposure[b] > 0 {
			x.all[b] = events[b] / exposure[b]
		}
	}
	nobody := -1 // a class of which nothing was seen: all those are alike
	for i := range x.of {
		c := &x.of[i]
		if c.exposure == [bins]uint16{} && c.events == [bins]uint16{} {
			if nobody >= 0 {
				c.share = x.of[nobody].share
				continue
			}
			nobody = i
		}
		away := 1.0
		for b := bins - 1; b >= 0; b-- {
			away = float64(away * x.stays(c, b))
			c.share[b] = uint16(float64(65535 * (1 - away)))
		}
	}
}

// stays is the share of a class that is not back by the end of a bin, of those that were away at its
// beginning.
func (x *Shares) stays(c *shares, b int) float64 {
	if x.all[b] <= 0 {
		return 1
	}
	hazard := (float64(c.events[b]) + thought*parts) / (float64(c.exposure[b]) + thought*parts/x.all[b])
	return exact.Exp(-min(600, hazard))
}

// youngest is the bin of the youngest age of so many bits.
var youngest = func() (l [65]uint8) {
	for n := 1; n < 64; n++ {
		for l[n] = l[n-1]; l[n] < bins && edges[l[n]] <= 1<<(n-1); l[n]++ {
		}
	}
	return l
}()

// oldest are the oldest ages of the bins. Twice as old as the youngest age of so many bits is at most two
// bins further, as three would be older, so two comparisons find the bin, without a branch that is hard to
// guess.
var oldest = func() (l [bins + 2]time.Duration) {
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
	b := int(youngest[bits.Len64(uint64(age))])
	b += int(uint64(oldest[b]-age) >> 63)
	return b + int(uint64(oldest[b]-age)>>63)
}

// begin returns the lower edge of a bin.
func begin(b int) time.Duration {
	if b == 0 {
		return 0
	}
	return edges[b-1]
}
