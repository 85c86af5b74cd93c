package regime

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// Chance alone begins no regime, or seldom, however few the slots are: at eight tenths of what they serve,
// each for forty hours, tasks of ten seconds, or of a minute, in many of which no task ends and in others
// only short ones do; and tasks that come two or four at once.
//
// One in a hundred hours is meant. In two thousand hours of each of these it was between .2 and 3, so that
// all of this comes to 3.2 in the mean; what is asked is missed by chance less than once in a million times.
func TestChanceIsNoRegime(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	const each, all = 11, 16
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	began := 0
	for _, c := range []alone{{slots: 1, hold: 10}, {slots: 2, hold: 10}, {slots: 4, hold: 10},
		{slots: 16, hold: 10}, {slots: 2, hold: 60},
		{slots: 8, hold: 10, burst: 2}, {slots: 16, hold: 10, burst: 2},
		{slots: 16, hold: 2, burst: 4}} {
		a := c.begin(seed)
		saturated, readings, times := 0, 0, 0
		before := Below
		a.play(0.8, 40*3600, func() bool {
			readings++
			s := a.w.State()
			if s == Saturated {
				saturated++
			}
			if before == Below && s > Below {
				times++
			}
			before = s
			return true
		})
		if began += times; times > each || saturated > readings/20 {
			t.Errorf("%d slots of %v s, tasks come %d at once: in 40 hours a regime began %d times, %d of %d readings "+
				"are saturated", c.slots, c.hold, max(1, c.burst), times, saturated, readings)
		}
	}
	if began > all {
		t.Errorf("in 320 hours a regime began %d times", began)
	}
}

// Twice of what few slots serve is seen soon where half of it came before, and seldom where eight tenths of
// it come.
func TestFewSlotsAreSeenToBeFull(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for _, c := range []struct {
		alone
		within float64 // half of all times, s: any test that knows nothing of before takes half as long again
	}{{alone{slots: 8, hold: 10}, 20}, {alone{slots: 4, hold: 10}, 36}, {alone{slots: 2, hold: 2}, 17}} {
		const times = 100
		var seen []float64
		wrong := 0
		for i := range uint64(times) {
			a := c.begin(seed + i)
			a.play(0.5, 1200+5*a.rng.Float64(), func() bool { return true })
			began, rises := a.now, a.rises
			a.play(2, 600, func() bool { return a.rises == rises })
			seen = append(seen, a.now-began)

			a = c.begin(seed + i)
			a.play(0.5, 1200, func() bool { return true })
			rises = a.rises
			if a.play(0.8, 600, func() bool { return a.rises == rises }); a.rises > rises {
				wrong++
			}
		}
		slices.Sort(seen)
		t.Logf("%d slots of %v s: seen after %.1f s, %.1f s; wrong %d times", c.slots, c.hold, seen[times/2],
			seen[times*95/100], wrong)
		if seen[times/2] > c.within {
			t.Errorf("%d slots of %v s: twice what they serve is seen after %.1f s, half of %d times", c.slots, c.hold,
				seen[times/2], times)
		}
		if wrong > 8 { // one or two are meant
			t.Errorf("%d slots of %v s: of %d times 0.8 of what they serve was taken %d times for more than they do",
				c.slots, c.hold, times, wrong)
		}
	}
}

// alone is slots alone, of tasks that have one for so many seconds in the mean, and come so many at once.
type alone struct {
	slots int
	hold  float64
	burst int

	w         *Watch
	rng       *rand.Rand
	now, read float64
	busy      [][2]float64 // until when, for how long
	queue     []float64    // since when
	rises     int
}

func (a alone) begin(seed uint64) *alone {
	a.rng, a.w, a.read, a.burst = rand.New(rand.NewPCG(seed, 1)), NewWatch(), 5, max(1, a.burst)
	a.w.Due(1)
	return &a
}

func inNanos(s float64) time.Duration { return time.Duration(s * 1e9) }

// serve gives a task its slot.
func (a *alone) serve(came float64) {
	const idle = 100 * time.Millisecond
	took := a.rng.ExpFloat64() * a.hold
	a.busy = append(a.busy, [2]float64{a.now + took, took})
	a.w.Served(inNanos(a.now-came), idle, idle)
}

// play has so much come, of what the slots serve, for some seconds, as long as each says so after a reading.
func (a *alone) play(load, length float64, each func() bool) {
	pause := a.hold * float64(a.burst) / (float64(a.slots) * load)
	next, end := a.now+a.rng.ExpFloat64()*pause, a.now+length
	for {
		first := -1
		for i := range a.busy {
			if first < 0 || a.busy[i][0] < a.busy[first][0] {
				first = i
			}
		}
		switch at := min(next, a.read, end); {
		case first >= 0 && a.busy[first][0] <= at:
			a.now = a.busy[first][0]
			a.w.Ended(inNanos(a.busy[first][1]))
			if a.busy = slices.Delete(a.busy, first, first+1); len(a.queue) > 0 {
				a.serve(a.queue[0])
				a.queue = a.queue[1:]
			}
		case at == end:
			a.now = end
			return
		case at == next:
			a.now = next
			next += a.rng.ExpFloat64() * pause
			for range a.burst {
				if a.w.Came(int64(a.now * 1e9)); len(a.busy) < a.slots {
					a.serve(a.now)
				} else {
					a.queue = append(a.queue, a.now)
				}
			}
		default:
			a.now = a.read
			a.read += 5
			now, before := int64(a.now*1e9)+2, a.w.State()
			a.w.Room(now, a.slots)
			for _, came := range a.queue {
				a.w.Waits(inNanos(a.now-came), 0, 100*time.Millisecond, 1)
			}
			a.w.Read(now)
			if a.w.State() > before {
				a.rises++
			}
			if !each() {
				return
			}
		}
	}
}

// How many tasks come at once is known within minutes, and a load that changes is not taken for it. Of one
// play the deviation is 0.2 at three at once; what is judged is the mean of nine.
func TestTasksAtOnce(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	const plays = 9
	mean := func(burst int, loads ...float64) (found float64) {
		for i := range uint64(plays) {
			a := alone{slots: 64, hold: 10, burst: burst}.begin(seed + i)
			for _, load := range loads {
				a.play(load, 1800/float64(len(loads)), func() bool { return true })
			}
			found += a.w.capacity.burst
		}
		return found / plays
	}
	for _, c := range []struct {
		burst       int
		least, most float64
	}{{1, 1, 1.1}, {2, 1.4, 2}, {3, 2, 3}, {9, mostBurst, mostBurst}} {
		if got := mean(c.burst, 0.6); got < c.least || got > c.most {
			t.Errorf("%v tasks at once are taken for %.2f", c.burst, got)
		}
	}
	if got := mean(1, 0.2, 0.8, 0.3, 0.7, 0.4, 0.6); got > 1.2 {
		t.Errorf("a load that changes is taken for %.2f tasks at once", got)
	}
}
