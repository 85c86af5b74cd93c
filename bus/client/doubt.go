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
	maxDoubts = 1 << 15          // as many tasks as a gateway has at once, unless it is told to have more
)

// doubt is a task of which nobody has said what became of it.
type doubt struct {
	at    time.Time
	age   int64 // of the task then, in milliseconds
	again int   // bus.AgainUnheard or bus.AgainHeard
}

// doubted says how a task is sent, by its token, and how old it is in milliseconds: 0 for one of which
// nothing is in doubt. The lock is held.
func (r *Reader) doubted(token string, now time.Time) (again int, age int64) {
	d := r.doubts.Peek(token)
	if d == nil || now.Sub(d.at) > doubtFor {
		r.doubts.Drop(token)
		return 0, 0
	}
	asleep := now.Round(0).Sub(d.at.Round(0)) // by the clock that goes on while the machine is suspended
	return d.again, min(d.age+max(now.Sub(d.at), asleep).Milliseconds(), bus.MaxPatient)
}

// settle notes how a stream of a client has ended.
func (r *Reader) settle(client, token string, m *reader.Stream, code bus.Code, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch before := r.doubts.Peek(token); {
	case code == bus.CodeUnknown:
		again := bus.AgainUnheard
		if m.Taken() {
			again = bus.AgainHeard
		}
		if before != nil {
			again = max(again, before.again)
		}
		r.doubts.Put(client, token, doubt{now, m.Age(now), again}, 1)
	case code == bus.CodeUnavailable, code == bus.CodeDraining, code == bus.CodeDuplicate: // as it was
	default:
		r.doubts.Drop(token)
	}
}
