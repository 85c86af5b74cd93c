package serve

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"souk/bus/follow"
)

// pulse notices that the process did not run for so long that its lease may have ended meanwhile: it was
// stopped, or its machine slept. A timer that was to say so may be served late, behind requests that came
// meanwhile and that another treasury has answered.
type pulse struct {
	lost <-chan struct{} // the leadership that it is of
	most time.Duration
	last atomic.Int64 // Unix nanoseconds of the wall's clock, which goes on while the machine sleeps
	once sync.Once
	gap  chan struct{} // closed after the first gap
}

// A lease is renewed each third of its time, so it lives two thirds longer at least.
func newPulse(ttl time.Duration, lost <-chan struct{}) *pulse {
	p := &pulse{lost: lost, most: ttl * 6 / 10, gap: make(chan struct{})}
	p.last.Store(time.Now().UnixNano())
	return p
}

// runs reports whether the process has run all the time, and leads.
func (p *pulse) runs() bool {
	if time.Now().UnixNano()-p.last.Load() > int64(p.most) {
		p.once.Do(func() { close(p.gap) })
	}
	select {
	case <-p.gap:
		return false
	case <-p.lost:
		return false
	default:
		return true
	}
}

// beat looks again and again, until ctx ends, there was a gap, or it leads no more.
func (p *pulse) beat(ctx context.Context) {
	for p.runs() {
		if p.last.Store(time.Now().UnixNano()); !follow.Pause(ctx, p.most/10) {
			return
		}
	}
}
