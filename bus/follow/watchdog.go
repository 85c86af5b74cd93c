package follow

import (
	"context"
	"sync/atomic"
	"time"
)

// Watchdog notices a runtime policy that does not come back. Nobody can end it but with its process, so the
// process ends; the file that names the policy has the next life begin without it. The zero Watchdog watches.
type Watchdog struct {
	name  atomic.Pointer[string] // of the policy that runs; nil: none
	since atomic.Int64           // Unix nanoseconds
	last  *string                // of Enters alone: the name that was called last
}

// Hangs bounds how long a call of a policy may take. It has some microseconds.
const Hangs = 5 * time.Second

// Enters is told which policy is called, and "" when it is back, by one goroutine at a time.
func (w *Watchdog) Enters(policy string) {
	if policy == "" {
		w.name.Store(nil)
		return
	}
	if w.last == nil || *w.last != policy {
		w.last = new(policy)
	}
	w.since.Store(time.Now().UnixNano())
	w.name.Store(w.last)
}

// Run watches until ctx ends, and says which policy hangs, once. It has seen that call before: a process that
// was stopped, and goes on, may find one that is as old and has not had its time.
func (w *Watchdog) Run(ctx context.Context, hangs func(policy string)) {
	for seen := int64(0); Pause(ctx, Hangs/5); {
		name, since := w.name.Load(), w.since.Load()
		if name != nil && since == seen && time.Duration(time.Now().UnixNano()-since) > Hangs {
			hangs(*name)
			return
		}
		seen = since
	}
}
