package client

import (
	"time"

	"souk/bus"
	"souk/bus/reader"
)

// A task that ended with CodeUnknown may be with a hub, and whoever asked for it is told to send it again
// under its id. A door cannot tell that from a task that is sent for the first time, and would place it by
// itself: so what is sent again here asks the door to look for it first. Another program that sends it again
// knows nothing of that, and sends it as new.

const (
	doubtFor  = 10 * time.Minute // then hubs have forgotten its id, too
	maxDoubts = 4096
)

// doubt is a task of which nobody has said what became of it.
type doubt struct {
	at    time.Time
	again int // bus.AgainUnheard or bus.AgainHeard
}

// doubted says how a task is sent, by its token: 0 for one of which nothing is in doubt. The lock is held.
func (r *Reader) doubted(token string, now time.Time) int {
	d := r.doubts[token]
	if now.Sub(d.at) > doubtFor {
		delete(r.doubts, token)
		return 0
	}
	return d.again
}

// settle notes how a stream has ended.
func (r *Reader) settle(token string, m *reader.Stream, code bus.Code, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch _, before := r.doubts[token]; {
	case code == bus.CodeUnknown:
		again := bus.AgainUnheard
		if m.Taken() {
			again = bus.AgainHeard
		}
		if len(r.doubts) >= maxDoubts && !before {
			r.dropDoubt(now)
		}
		r.doubts[token] = doubt{now, max(again, r.doubts[token].again)}
	case code == bus.CodeUnavailable, code == bus.CodeDraining, code == bus.CodeDuplicate: // as it was
	case before:
		delete(r.doubts, token)
	}
}

// dropDoubt makes room for one more: those that are old go, else the oldest.
func (r *Reader) dropDoubt(now time.Time) {
	oldest := ""
	for token, d := range r.doubts {
		if now.Sub(d.at) > doubtFor {
			delete(r.doubts, token)
		} else if oldest == "" || d.at.Before(r.doubts[oldest].at) {
			oldest = token
		}
	}
	if len(r.doubts) >= maxDoubts {
		delete(r.doubts, oldest)
	}
}
