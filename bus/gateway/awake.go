package gateway

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"souk/bus"
)

// awake notices that the process has stopped for a while: frozen, or its machine suspended. What the registry
// said meanwhile of keys comes in after what clients asked meanwhile, or with a new connection, seconds
// later. So nobody is let in until all keys have been read anew.
type awake struct {
	anew chan func() // to who follows the keys: read them, then call it
	log  *slog.Logger

	mu    sync.Mutex
	seen  time.Time     // it ran then
	naps  int           // how often it had stopped
	fresh chan struct{} // closed once the keys are read after that; nil: they are
}

const (
	// nap bounds how long the process may stop without it counting. A revocation within that time is heard as
	// late as the process goes on, and then soon.
	nap = 2 * time.Second
	// keysWithin bounds how long a request waits for keys to be read.
	keysWithin = 2 * time.Second
)

// look notes that the process runs. It returns what is closed once keys are good again; nil: they are.
func (a *awake) look(now time.Time) <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	// a machine that is suspended has a clock that stops with it, and one that goes on
	late := max(now.Sub(a.seen), now.Round(0).Sub(a.seen.Round(0)))
	if asleep := !a.seen.IsZero() && late > nap; asleep {
		a.log.Warn("the process did not run for a while: keys are read anew",
			"late", late.Round(time.Millisecond))
		a.naps++
		nap := a.naps
		if a.fresh == nil {
			a.fresh = make(chan struct{})
		}
		select {
		case <-a.anew: // a reading that may have begun before
		default:
		}
		a.anew <- func() { a.read(nap) }
	}
	a.seen = now
	return a.fresh
}

// read notes that keys were read after a nap.
func (a *awake) read(nap int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.naps == nap && a.fresh != nil {
		close(a.fresh)
		a.fresh = nil
	}
}

// run looks as often as the process may stop unseen.
func (a *awake) run(ctx context.Context) {
	t := time.Tick(lookEvery)
	for ctx.Err() == nil {
		select {
		case <-t:
			a.look(time.Now())
		case <-ctx.Done():
		}
	}
}

// await waits until it is known which keys are good.
func (a *awake) await(ctx context.Context) error {
	fresh := a.look(time.Now())
	if fresh == nil {
		return nil
	}
	late := time.After(keysWithin)
	for ; fresh != nil; fresh = a.look(time.Now()) {
		select {
		case <-fresh:
		case <-ctx.Done():
			return refuse(bus.CodeCancelled, "%v", errLeft)
		case <-late:
			return again(bus.CodeUnavailable, time.Second, "the gateway had stopped for a while, and cannot "+
				"tell yet which keys are good: try again shortly")
		}
	}
	return nil
}
