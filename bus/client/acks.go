package client

import (
	"sync"
	"time"

	"souk/bus"
)

// An acknowledgement lets an agent forget what was read of an answer, and nobody waits for it. So those of
// all answers that a reader hears wait for one another a moment, and go out in one write.
const (
	ackAfter = 50 * time.Millisecond
	ackMost  = 256 // that wait
)

// acks holds the acknowledgements that wait.
type acks struct {
	bus bus.Bus

	mu    sync.Mutex
	waits []bus.Msg
	timer *time.Timer // flushes; nil until the first
}

func (a *acks) add(m bus.Msg) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waits = append(a.waits, m)
	switch {
	case len(a.waits) >= ackMost:
		a.send()
	case len(a.waits) > 1: // the timer runs
	case a.timer == nil:
		a.timer = time.AfterFunc(ackAfter, a.flush)
	default:
		a.timer.Reset(ackAfter)
	}
}

// flush sends what waits.
func (a *acks) flush() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.send()
}

// send is flush for who has the lock.
func (a *acks) send() {
	if a.timer != nil {
		a.timer.Stop()
	}
	for _, m := range a.waits {
		a.bus.Publish(m)
	}
	clear(a.waits)
	a.waits = a.waits[:0]
}
