package bus

import (
	"math"
	"time"
)

// Rate allows Each a second, and Burst of them at once after a rest.
type Rate struct{ Each, Burst float64 }

// Forever is longer than any wait of a [Bucket].
const Forever = time.Duration(math.MaxInt64)

// Bucket holds the rest of a rate, below 0 where what was taken is still to be waited for. The zero value is
// full. Not for concurrent use.
type Bucket struct {
	left float64
	at   time.Time
}

// Take takes n, and says how long to wait for it, at most a day; nothing is taken where that is longer than
// most.
func (b *Bucket) Take(now time.Time, r Rate, n float64, most time.Duration) (wait time.Duration, ok bool) {
	if b.at.IsZero() {
		b.left = r.Burst
	} else {
		b.left = min(r.Burst, b.left+now.Sub(b.at).Seconds()*r.Each)
	}
	b.at = now
	if short := n - b.left; short > 0 {
		const longest = 24 * time.Hour
		wait = time.Duration(min(short/r.Each, longest.Seconds()) * float64(time.Second))
		if wait > most {
			return wait, false
		}
	}
	b.left -= n
	return wait, true
}

// Sooner returns the earlier of two times; a zero one is none.
func Sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
