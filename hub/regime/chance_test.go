package regime

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// Two slots, of which chance has eight tenths in use, a minute for each task: in many a minute no task ends,
// and in others only short ones do. What is known of tasks is kept from before, so that such a minute is no
// regime, or seldom.
func TestAMinuteWithoutAnEndIsNoRegime(t *testing.T) {
	const (
		slots, hold = 2, 60.0
		idle        = 100 * time.Millisecond
		hours       = 20
	)
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	w := NewWatch(Control{})
	w.Due(1)
	seconds := func(s float64) time.Duration { return time.Duration(s * 1e9) }
	var busy [][2]float64 // until when, for how long
	var queue []float64   // since when
	begin := func(now, came float64) {
		took := r.ExpFloat64() * hold
		busy = append(busy, [2]float64{now + took, took})
		w.Served(seconds(now-came), idle, idle)
	}
	next, rises, saturated, readings := 0.0, 0, 0, 0
	for now, read := 0.0, 5.0; now < hours*3600; {
		first := -1
		for i := range busy {
			if first < 0 || busy[i][0] < busy[first][0] {
				first = i
			}
		}
		switch {
		case first >= 0 && busy[first][0] <= min(next, read):
			now = busy[first][0]
			w.Ended(seconds(busy[first][1]))
			if busy = slices.Delete(busy, first, first+1); len(queue) > 0 {
				begin(now, queue[0])
				queue = queue[1:]
			}
		case next <= read:
			now = next
			next += r.ExpFloat64() * hold / (slots * 0.8)
			if w.Came(); len(busy) < slots {
				begin(now, now)
			} else {
				queue = append(queue, now)
			}
		default:
			now = read
			read += 5
			at, before := int64(now*1e9)+2, w.State()
			w.Room(at, slots)
			for _, came := range queue {
				w.Waits(seconds(now-came), 0, idle, 1)
			}
			w.Read(at)
			readings++
			if w.State() > before {
				rises++
			}
			if w.State() == Saturated {
				saturated++
			}
		}
	}
	t.Logf("seed %d: in %d hours a regime rose %d times, %d of %d readings are saturated", seed, hours, rises,
		saturated, readings)
	if rises > 60 || saturated > readings/10 {
		t.Errorf("seed %d: %d rises, %d of %d readings are saturated", seed, rises, saturated, readings)
	}
}
