package regime

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// Chance alone begins no regime, or seldom, however few the slots are: at eight tenths of what they serve,
// each for twenty hours, tasks of ten seconds, or of a minute, in many of which no task ends and in others
// only short ones do.
func TestChanceIsNoRegime(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for _, c := range []struct {
		slots int
		hold  float64
	}{{1, 10}, {2, 10}, {4, 10}, {16, 10}, {2, 60}} {
		rises, saturated, readings := chance(seed, c.slots, c.hold, 20)
		if rises > 3 || saturated > readings/20 { // one in a hundred hours is meant
			t.Errorf("%d slots of %v s: in 20 hours a regime began %d times, %d of %d readings are saturated", c.slots,
				c.hold, rises, saturated, readings)
		}
	}
}

// chance plays slots alone.
func chance(seed uint64, slots int, hold, hours float64) (rises, saturated, readings int) {
	const idle = 100 * time.Millisecond
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
	next := 0.0
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
			next += r.ExpFloat64() * hold / (float64(slots) * 0.8)
			if w.Came(int64(now * 1e9)); len(busy) < slots {
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
	return rises, saturated, readings
}
