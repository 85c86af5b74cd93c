package seat

import "time"

// Shares says which share of several classes of idle sessions comes back that have been idle for so long. It
// has the ages of [Index], and is learned in the same way, class by class, each shrunk towards all.
type Shares struct {
	events, exposure [][bins]float32 // by class: returns; seconds that were waited for them
	share            [][bins]uint16  // that comes back, of those as old as a bin's beginning, in 65535ths
	rate             [][bins]float32 // as [Index] has it, of those as old; see rated
	rated            []int           // by class: at which fit its rates were worked out
	all              [bins]float64   // returns a second, of all classes together, at the last fit
	fits             int
	returns          int
}

// NewShares knows nothing of so many classes.
func NewShares(classes int) *Shares {
	return &Shares{events: make([][bins]float32, classes), exposure: make([][bins]float32, classes),
		share: make([][bins]uint16, classes), rate: make([][bins]float32, classes),
		rated: make([]int, classes)}
}

// Exp is e^x for x from -700 to 700, the same on every machine, which math.Exp is not.
func Exp(x float64) float64 { return exp(x) }

// SessionClasses is how many [SessionClass] there are.
const SessionClasses = classes

// SessionClass is the class of sessions that had so many turns, the last after such a pause; 0: there was
// none.
func SessionClass(turns int, pause time.Duration) int {
	gap := uint8(0)
	if pause > 0 {
		gap = gapOf(pause)
	}
	return class(uint8(min(max(turns, 0), 255)), gap)
}

// Waited says that a session of a class was idle from one age to another.
func (x *Shares) Waited(class int, from, to time.Duration) {
	for b := binOf(from); b < bins && from < to; b++ {
		until := min(to, edges[b])
		x.exposure[class][b] += float32((until - from).Seconds())
		from = until
	}
}

// Returned says that one came back at an age.
func (x *Shares) Returned(class int, age time.Duration) {
	if b := binOf(age); b < bins {
		x.events[class][b]++
	}
	x.returns++
	if x.returns%halveEvery == 0 {
		for c := range x.events {
			for b := range bins {
				x.events[c][b] /= 2
				x.exposure[c][b] /= 2
			}
		}
	}
	if x.returns%refitEvery == 0 {
		x.fit()
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
	return float64(x.share[class][b]) / 65535
}

func (x *Shares) fit() {
	var events, exposure [bins]float64
	for c := range x.events {
		for b := range bins {
			events[b] += float64(x.events[c][b])
			exposure[b] += float64(x.exposure[c][b])
		}
	}
	for b := range bins {
		if x.all[b] = 0; exposure[b] > 0 {
			x.all[b] = events[b] / exposure[b]
		}
	}
	x.fits++
	nobody := -1 // a class of which nothing was seen: all those are alike
	for c := range x.share {
		if x.exposure[c] == [bins]float32{} && x.events[c] == [bins]float32{} {
			if nobody >= 0 {
				x.share[c] = x.share[nobody]
				continue
			}
			nobody = c
		}
		away := 1.0
		for b := bins - 1; b >= 0; b-- {
			stay, _ := x.stays(c, b)
			away = float64(away * stay)
			x.share[c][b] = uint16(float64(65535 * (1 - away)))
		}
	}
}

// stays is the share of a class that is not back by the end of a bin, of those that were away at its
// beginning, and for how long they were on the mean.
func (x *Shares) stays(c, b int) (stay, kept float64) {
	span := spans[b]
	if x.all[b] <= 0 {
		return 1, span
	}
	hazard := (float64(x.events[c][b]) + pseudo) / (float64(x.exposure[c][b]) + pseudo/x.all[b])
	stay = exp(-min(600, float64(hazard*span)))
	return stay, (1 - stay) / hazard
}

// spans are the lengths of the bins, in seconds.
var spans = func() (s [bins]float64) {
	for b := range s {
		s[b] = (edges[b] - begin(b)).Seconds()
	}
	return s
}()

// Rate is how much a session is worth keeping that has been idle for so long: the chance that it comes back,
// for each second that it has to be kept until then, see [Index].
func (x *Shares) Rate(class int, idle time.Duration) float64 {
	b := binOf(idle)
	if b == bins || x.fits == 0 {
		return 0
	}
	if x.rated[class] != x.fits {
		x.rated[class] = x.fits
		var stay, kept [bins]float64
		for b := range bins {
			stay[b], kept[b] = x.stays(class, b)
		}
		for from, best := range bestRates(&stay, &kept) {
			x.rate[class][from] = float32(best)
		}
	}
	return float64(x.rate[class][b])
}
