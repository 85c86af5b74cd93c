package regime

import (
	"cmp"
	"math"
	"time"
)

const (
	// Every is how often slowdowns are read (anarchy, 6.2).
	Every = 5 * time.Second
	// intervals of that are kept. A reading is of one, of two, four, eight or all, until it has enough.
	intervals = 12
	enough    = 20  // observations
	fresh     = 0.3 // the newest reading's part of the mean (Eq. 10)
	tail      = 0.99
	most      = 1e6 // of a reading: one mad clock is forgotten within minutes
	hour      = int(time.Hour / Every)

	upAfter   = 2 // readings above a threshold
	downAfter = 6 // readings below margin of it, so that no state is left downward within 30 s
	margin    = 0.8
	stays     = 30 * time.Second
)

// thresholds of the mean reading: the first is of transition, the second of saturated. They are the paper's
// 0.3 s and 2 s by its 55 ms.
var thresholds = [Saturated]float64{5, 36}

// track is one way to read slowdowns.
type track struct {
	mean  float64 // the readings', exponentially weighted
	above int     // readings in a row with the mean above the threshold to the next state
}

// The tracks: what tasks wait for a slot counts as far as chance does not explain it, or whole.
const (
	beyond = iota
	whole
	tracks
)

// detector follows the readings. It goes by the waits that chance does not explain, or by whole ones while
// there is evidence enough that more comes than can be served. As that takes a while to gather, whole ones
// are read from when it began to.
type detector struct {
	tracks [tracks]track
	by     int // the one that it goes by
	state  State
	since  int64 // when it began, by the clock of whoever asks
	under  int   // readings in a row with the mean under the threshold to this state, by the margin
}

// add takes a reading in, of either track. One that is no number, or below zero, is none. began: there is
// evidence, which there was not at the reading before; certain: it is enough.
func (d *detector) add(now int64, readings [tracks]float64, began, certain bool) {
	if began {
		d.tracks[whole] = d.tracks[beyond]
	}
	if d.by = beyond; certain {
		d.by = whole
	}
	for i, reading := range readings {
		if !(reading >= 0) {
			continue
		}
		t := &d.tracks[i]
		t.mean = float64(fresh*min(reading, most)) + float64((1-fresh)*t.mean)
		if d.state < Saturated && min(t.mean, reading) > thresholds[d.state] {
			t.above++
		} else {
			t.above = 0
		}
	}
	if !(readings[d.by] >= 0) {
		return
	}
	if d.state > Below && d.mean() < margin*thresholds[d.state-1] {
		d.under++
	} else {
		d.under = 0
	}
	switch {
	case d.tracks[d.by].above >= upAfter:
		d.enter(d.state+1, now)
	case d.under >= downAfter && now-d.since >= int64(stays):
		d.enter(d.state-1, now)
	}
}

// mean returns the mean of the readings that the detector goes by.
func (d *detector) mean() float64 { return d.tracks[d.by].mean }

func (d *detector) enter(s State, now int64) {
	d.state, d.since, d.under = s, now, 0
	for i := range d.tracks {
		d.tracks[i].above = 0
	}
}

// buckets of a histogram: eight to an octave, from 2^-24 up. So a quantile is right to a sixteenth.
const (
	octaves = 64
	lowest  = (1023 - 24) * 8
)

// counts is a histogram of numbers above zero.
type counts struct {
	n  int
	of [octaves * 8]uint32
}

func (c *counts) add(x float64, times int) {
	i := min(max(0, int(math.Float64bits(x)>>49)-lowest), len(c.of)-1)
	c.of[i] += uint32(times)
	c.n += times
}

func (c *counts) addAll(o *counts) {
	if o.n == 0 {
		return
	}
	c.n += o.n
	for i, k := range o.of {
		c.of[i] += k
	}
}

// quantile is the number that so many of all are at or below. Of fewer than a hundred the largest is not the
// 0.99: one alone says nothing.
func (c *counts) quantile(q float64) float64 {
	left := int(q * float64(c.n-1))
	for i, k := range c.of {
		if left -= int(k); left < 0 {
			return math.Float64frombits(uint64(i+lowest)<<49) * (1 + 1.0/16)
		}
	}
	return math.NaN()
}

// interval holds the observations of a period.
type interval struct {
	slowdowns counts
	served    int
	turned    int             // tasks that were sent away at once, or waited in vain
	longest   [tracks]float64 // slowdown of those that waited in vain
}

// waits counts the waits that are not over.
type waits struct {
	slowdowns counts
	longest   float64
}

// Watch reads slowdowns of one hub: times to first tokens, by what idle agents take. It reads no clock: a
// moment is nanoseconds of one that never goes back.
type Watch struct {
	test detector

	past [intervals]interval // the one at hand first, from at on
	at   int
	next int64 // when the one at hand ends; 0: none has begun

	capacity capacity
	read     int64         // when the last reading was
	waits    [tracks]waits // of tasks that wait now
	waiting  int
	sum      counts // scratch
}

// NewWatch begins below the knee.
func NewWatch() *Watch {
	w := &Watch{}
	for i := range w.test.tracks {
		w.test.tracks[i].mean = 1
	}
	return w
}

func (w *Watch) State() State  { return w.test.state }
func (w *Watch) Mean() float64 { return w.test.mean() }

// Served observes a task that was served: how long it waited for a slot, how long its first token took from
// there on, and how long that was expected to take on an idle agent. Where one of the last two is not above
// zero nothing is known of its time.
func (w *Watch) Served(waited, first, idle time.Duration) {
	x := &w.past[w.at]
	x.served++
	if first > 0 && idle > 0 {
		if fastest := &w.capacity.fastest[0]; *fastest == 0 || first < *fastest {
			*fastest = first
		}
		took, idle := w.capacity.beyond(waited)+first, w.capacity.idle(idle)
		x.slowdowns.add(float64(took)/float64(idle), 1)
	}
}

// Missed observes so many tasks that waited for so long, and were not served. As nobody knows how much longer
// they would have had to, they count as long as the longest that waits: else who gives up soon hides others.
func (w *Watch) Missed(waited, idle time.Duration, times int) {
	x := &w.past[w.at]
	x.turned += times
	for i, waited := range w.capacity.waited(waited) {
		if waited > 0 && idle > 0 {
			x.longest[i] = max(x.longest[i], float64(waited)/float64(w.capacity.idle(idle)))
		}
	}
}

// Turned observes a task that was sent away for want of room. It counts as long as the longest that waits.
func (w *Watch) Turned() { w.past[w.at].turned++ }

// Due reports whether it is time for a reading: Waits is then told of all that wait, and Read ends it.
func (w *Watch) Due(now int64) bool {
	w.next = cmp.Or(w.next, now+int64(Every))
	return now >= w.next
}

// Waits tells of so many tasks that have waited for so long now: for a slot, and then, where they have one,
// for a first token.
func (w *Watch) Waits(forSlot, forToken, idle time.Duration, times int) {
	w.waiting += times
	if idle <= 0 || times <= 0 {
		return
	}
	idle = w.capacity.idle(idle)
	for i, waited := range w.capacity.waited(forSlot) {
		if waited += max(0, forToken); waited <= 0 {
			continue
		}
		slowdown := float64(waited) / float64(idle)
		w.waits[i].slowdowns.add(slowdown, times)
		w.waits[i].longest = max(w.waits[i].longest, slowdown)
	}
}

// Read takes a reading, and begins the next interval. After a while without any, in which nobody watched, it
// is one reading, and what was observed before is too old.
func (w *Watch) Read(now int64) {
	x := &w.past[w.at]
	var slow [tracks]float64
	for i := range w.waits {
		at := &w.waits[i]
		if longest := max(at.longest, x.longest[i]); x.turned > 0 && longest > 0 {
			at.slowdowns.add(longest, x.turned)
		}
		if slow[i] = w.slowdown(at); w.idle() {
			slow[i] = 1
		}
	}
	w.test.add(now, slow, w.capacity.from > w.read, w.capacity.certain)
	w.read = now
	steps := 1 + (now-w.next)/int64(Every)
	w.next += steps * int64(Every)
	for range min(steps, intervals) {
		w.at = (w.at + 1) % intervals
		w.past[w.at] = interval{}
	}
	w.waits, w.waiting = [tracks]waits{}, 0
}

// idle reports whether nothing was served for a minute, and nothing waits.
func (w *Watch) idle() bool {
	for i := range w.past {
		if w.past[i].served+w.past[i].turned > 0 {
			return false
		}
	}
	return w.waiting == 0
}

// slowdown reads how long first tokens take, of those that wait and of the latest intervals, of so many that
// there is enough.
func (w *Watch) slowdown(at *waits) float64 {
	w.sum = at.slowdowns
	for k, wide := 0, 1; ; wide = min(2*wide, intervals) {
		for ; k < wide; k++ {
			w.sum.addAll(&w.past[(w.at-k+intervals)%intervals].slowdowns)
		}
		if w.sum.n >= enough || wide == intervals {
			return w.sum.quantile(tail)
		}
	}
}
