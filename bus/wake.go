package bus

import "time"

// Nudge wakes who waits on a channel with room for one word, if nobody has yet.
func Nudge(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Sooner returns the earlier of two times; a zero one is none.
func Sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
