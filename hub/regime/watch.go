package regime

import (
	"math"
	"slices"
	"time"

	"souk/market"
)

const (
	// Every is how often the signals are read (anarchy, 6.2).
	Every = 5 * time.Second
	// intervals of that are kept. A reading is of one, of two, four, eight or all, until it has enough.
	intervals = 12
	enough    = 20  // observations
	fresh     = 0.3 // the newest reading's part of the mean (Eq. 10)
	tail      = 0.99
	most      = 1e6 // of a reading: one mad clock is forgotten within minutes
	hour      = int(time.Hour / Every)
	// fewest readings of an hour's quietest tenth: before there are so many, nobody knows what is quiet
	fewest = 12

	upAfter   = 2 // readings above a threshold
	downAfter = 6 // readings below margin of it, so that no state is left downward within 30 s
	margin    = 0.8
	stays     = 30 * time.Second
)

// thresholds of the mean reading: the first is of transition, the second of saturated. Those of slowdown and
// ttft are the paper's 0.3 s and 2 s by its 55 ms; those of price and backlog are chosen.
var thresholds = [signals][2]float64{Slowdown: {5, 36}, TTFT: {5, 36}, Price: {0.1, 1}, Backlog: {1, 10}}

// track is one way to read a signal.
type track struct {
	mean  float64 // the readings', exponentially weighted
	above int     // readings in a row with the mean above the threshold to the next state
}

// The tracks of a signal: what tasks wait for a slot counts as far as chance does not explain it, or whole.
const (
	beyond = iota
	whole
	tracks
)

// detector follows one signal. It goes by the waits that chance does not explain, or by whole ones while
// there is evidence enough that more comes than can be served. As that takes a while to gather, whole ones
// are read from when it began to.
type detector struct {
	theta  [2]float64
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
		if d.state < Saturated && min(t.mean, reading) > d.theta[d.state] {
			t.above++
		} else {
			t.above = 0
		}
	}
	if !(readings[d.by] >= 0) {
		return
	}
	if d.state > Below && d.mean() < margin*d.theta[d.state-1] {
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

// mean is of the readings that it goes by.
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

// interval is what was observed in a time.
type interval struct {
	slowdowns, firsts counts
	prices            counts
	cost              float64 // of those awards
	served            int
	turned            int             // tasks that were sent away at once, or waited in vain
	longest           [tracks]longest // of those that waited in vain
}

// longest is a wait, in seconds, and by what an idle agent takes.
type longest struct{ seconds, slowdown float64 }

// waits counts the waits that are not over.
type waits struct {
	slowdowns, firsts counts
	longest           longest
}

// Watch reads the signals of one hub. It reads no clock: a moment is nanoseconds of one that never goes back.
type Watch struct {
	acts  Signal
	tests [signals]detector
	past  [intervals]interval // the one at hand first, from at on
	at    int
	next  int64 // when the one at hand ends; 0: none has begun

	room    room
	read    int64         // when the last reading was
	waits   [tracks]waits // of tasks that wait now
	waiting int
	sum     interval  // scratch
	lows    []float64 // readings of first tokens within an hour, the oldest at low
	low     int
	sorted  []float64 // scratch
}

// NewWatch begins below the knee.
func NewWatch(c Control) *Watch {
	w := &Watch{}
	w.acts, _ = signal(c.Signal)
	for i := range w.tests {
		w.tests[i].theta = thresholds[i]
	}
	for _, s := range []Signal{Slowdown, TTFT} {
		for i := range w.tests[s].tracks {
			w.tests[s].tracks[i].mean = 1
		}
	}
	return w
}

// State is the regime, by the signal that acts.
func (w *Watch) State() State { return w.tests[w.acts].state }

// Reading is what a signal says: its state, and the mean of its readings.
func (w *Watch) Reading(s Signal) (State, float64) { return w.tests[s].state, w.tests[s].mean() }

// Readings are of all signals, by name.
func (w *Watch) Readings() (all []Reading) {
	for i := range w.tests {
		d := &w.tests[i]
		all = append(all, Reading{Signal(i).String(), d.state.String(), d.state, d.mean()})
	}
	return all
}

// Reading is what a signal says, for people.
type Reading struct {
	Signal, State string
	Level         State `json:"-"`
	Mean          float64
}

// Served observes a task that was served: how long it waited for a slot, how long its first token took from
// there on, and how long that was expected to take on an idle agent. Where one of the last two is not above
// zero nothing is known of its time.
func (w *Watch) Served(waited, first, idle time.Duration) {
	x := &w.past[w.at]
	x.served++
	if first > 0 && idle > 0 {
		w.room.first(first)
		took, idle := w.room.beyond(waited)+first, w.room.idle(idle)
		x.firsts.add(took.Seconds(), 1)
		x.slowdowns.add(float64(took)/float64(idle), 1)
	}
}

// Missed observes so many tasks that waited for so long, and were not served. As nobody knows how much longer
// they would have had to, they count as long as the longest that waits: else who gives up soon would hide who
// does not.
func (w *Watch) Missed(waited, idle time.Duration, times int) {
	x := &w.past[w.at]
	x.turned += times
	for i, waited := range w.room.waited(waited) {
		x.longest[i].note(waited, w.room.idle(idle))
	}
}

// Turned observes a task that was sent away for want of room. It counts as long as the longest that waits.
func (w *Watch) Turned() { w.past[w.at].turned++ }

// note takes in a wait that may be the longest.
func (l *longest) note(waited, idle time.Duration) {
	if waited <= 0 || idle <= 0 {
		return
	}
	l.seconds = max(l.seconds, waited.Seconds())
	l.slowdown = max(l.slowdown, float64(waited)/float64(idle))
}

// Priced observes an award with its slot price and cost.
func (w *Watch) Priced(price, cost market.Credits) {
	x := &w.past[w.at]
	x.prices.add(float64(max(0, price)), 1)
	x.cost += float64(max(0, cost))
}

// Due reports whether it is time for a reading: then all that wait are to be told of by Waits, and Read ends
// it.
func (w *Watch) Due(now int64) bool {
	if w.next == 0 {
		w.next = now + int64(Every)
	}
	return now >= w.next
}

// Waits tells of so many tasks that have waited for so long now: for a slot, and then, where they have one,
// for a first token.
func (w *Watch) Waits(forSlot, forToken, idle time.Duration, times int) {
	w.waiting += times
	if idle <= 0 || times <= 0 {
		return
	}
	idle = w.room.idle(idle)
	for i, waited := range w.room.waited(forSlot) {
		if waited += max(0, forToken); waited <= 0 {
			continue
		}
		x := &w.waits[i]
		x.firsts.add(waited.Seconds(), times)
		x.slowdowns.add(float64(waited)/float64(idle), times)
		x.longest.note(waited, idle)
	}
}

// Read reads all signals, and begins the next interval. After a while without any, in which nobody watched,
// it is one reading, and what was observed before is too old.
func (w *Watch) Read(now int64) {
	x := &w.past[w.at]
	var slow, first, price, backlog [tracks]float64
	for i := range w.waits {
		at := &w.waits[i]
		at.longest.seconds = max(at.longest.seconds, x.longest[i].seconds)
		at.longest.slowdown = max(at.longest.slowdown, x.longest[i].slowdown)
		if x.turned > 0 && at.longest.slowdown > 0 {
			at.firsts.add(at.longest.seconds, x.turned)
			at.slowdowns.add(at.longest.slowdown, x.turned)
		}
		slow[i], first[i] = w.times(at)
		price[i], backlog[i] = w.price(), w.backlog(i)
	}
	quietest := w.quietest(first[beyond])
	for i := range first {
		if first[i] /= quietest; w.idle() {
			slow[i], first[i] = 1, 1
		}
	}
	began, certain := w.room.from > w.read, w.room.certain
	for s, readings := range [signals][tracks]float64{Slowdown: slow, TTFT: first, Price: price,
		Backlog: backlog} {
		w.tests[s].add(now, readings, began, certain)
	}
	w.read = now
	steps := 1 + (now-w.next)/int64(Every)
	w.next += steps * int64(Every)
	for range min(steps, intervals) {
		w.at = (w.at + 1) % intervals
		w.past[w.at] = interval{}
	}
	w.waits, w.waiting = [tracks]waits{}, 0
}

// back is the interval that was so many before the one at hand.
func (w *Watch) back(k int) *interval { return &w.past[(w.at-k+intervals)%intervals] }

// window adds up what add takes of the intervals, the latest first, until there is enough, and returns how
// many that took.
func (w *Watch) window(add func(*interval), n *int) int {
	k := 0
	for wide := 1; ; wide = min(2*wide, intervals) {
		for ; k < wide; k++ {
			add(w.back(k))
		}
		if *n >= enough || wide == intervals {
			return k
		}
	}
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

// times reads how long first tokens take: by idle agents, and in seconds.
func (w *Watch) times(at *waits) (slow, first float64) {
	slowdowns, firsts := &w.sum.slowdowns, &w.sum.firsts
	*slowdowns, *firsts = at.slowdowns, at.firsts
	w.window(func(x *interval) { slowdowns.addAll(&x.slowdowns); firsts.addAll(&x.firsts) }, &firsts.n)
	return slowdowns.quantile(tail), firsts.quantile(tail)
}

// quietest returns the first token's time in the quietest tenth of an hour, of which first is a reading.
func (w *Watch) quietest(first float64) float64 {
	if !math.IsNaN(first) {
		if len(w.lows) < hour {
			w.lows = append(w.lows, first)
		} else {
			w.lows[w.low] = first
			w.low = (w.low + 1) % hour
		}
	}
	if len(w.lows) < fewest {
		return math.NaN()
	}
	w.sorted = append(w.sorted[:0], w.lows...)
	slices.Sort(w.sorted)
	return w.sorted[len(w.sorted)/10]
}

// price reads slot prices, by what an award costs.
func (w *Watch) price() float64 {
	w.sum.prices, w.sum.cost = counts{}, 0
	w.window(func(x *interval) { w.sum.prices.addAll(&x.prices); w.sum.cost += x.cost }, &w.sum.prices.n)
	switch n := w.sum.prices.n; {
	case n == 0 && w.idle():
		return 0
	case n == 0 || w.sum.cost <= 0:
		return math.NaN()
	default:
		if w.sum.prices.of[0] == uint32(n) { // all are zero
			return 0
		}
		return w.sum.prices.quantile(tail) / (w.sum.cost / float64(n))
	}
}

// backlog reads how long those who wait have to, at the rate at which tasks end. Where none does it is how
// long they have waited.
func (w *Watch) backlog(by int) float64 {
	served := 0
	k := w.window(func(x *interval) { served += x.served }, &served)
	switch {
	case w.waiting == 0:
		return 0
	case served == 0:
		return w.waits[by].longest.seconds
	}
	seconds := float64(w.waiting) * Every.Seconds() * float64(k) / float64(served)
	return w.room.waited(time.Duration(min(seconds, 1e9) * float64(time.Second)))[by].Seconds()
}
