package turn

import (
	"container/heap"
	"time"
)

// Timer calls Due once at or after the time that it is set to, and is cleared then. Zero, it is not set.
type Timer struct {
	Due func()

	at    time.Time
	order uint64 // of setting, so that equal times fire in a fixed order
	place int    // in the heap, from 1; 0: not set
}

// IsSet reports whether the timer's time is still to come.
func (t *Timer) IsSet() bool { return t.place > 0 }

// Before implements bounded.Heap, and Placed.
func (t *Timer) Before(o *Timer) bool {
	return t.at.Before(o.at) || t.at.Equal(o.at) && t.order < o.order
}

func (t *Timer) Placed(at int) { t.place = at }

// At returns the time that the timer is set to, or was last.
func (t *Timer) At() time.Time { return t.at }

// Set sets a timer to a time, or clears it for the zero time.
func (t *Turn) Set(x *Timer, at time.Time) {
	switch {
	case at.IsZero():
		if x.place > 0 {
			heap.Remove(&t.timers, x.place-1)
		}
		return
	case x.place > 0 && x.at.Equal(at):
		return
	}
	t.order++
	x.at, x.order = at, t.order
	if x.place > 0 {
		heap.Fix(&t.timers, x.place-1)
		return
	}
	heap.Push(&t.timers, x)
}

// Next is the earliest time that a timer is set to, or zero.
func (t *Turn) Next() time.Time {
	if len(t.timers) == 0 {
		return time.Time{}
	}
	return t.timers[0].at
}

// Ring calls the timers that are due, one after another, with those that become due by that.
func (t *Turn) Ring() {
	for len(t.timers) > 0 && !t.timers[0].at.After(t.now) {
		heap.Pop(&t.timers).(*Timer).Due()
	}
}

// Earlier is the earlier of two times, the zero time being none.
func Earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Later is the later of two times.
func Later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
