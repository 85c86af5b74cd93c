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

type ack struct {
	agent string
	said  bus.StreamControl
}

// acks are those that wait.
type acks struct {
	mu    sync.Mutex
	waits []ack
	timer *time.Timer // set while any wait
	send  func([]ack)
}

func (a *acks) add(agent string, said *bus.StreamControl) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waits = append(a.waits, ack{agent, *said})
	switch {
	case len(a.waits) >= ackMost:
		a.flush()
	case len(a.waits) > 1:
	case a.timer == nil:
		a.timer = time.AfterFunc(ackAfter, a.Flush)
	default:
		a.timer.Reset(ackAfter)
	}
}

// Flush sends what waits.
func (a *acks) Flush() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.flush()
}

func (a *acks) flush() {
	if a.timer != nil {
		a.timer.Stop()
	}
	a.send(a.waits)
	clear(a.waits)
	a.waits = a.waits[:0]
}
