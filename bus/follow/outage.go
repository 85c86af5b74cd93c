package follow

import (
	"log/slog"
	"sync"
	"time"
)

// Outage logs something that is tried again and again, and fails: one line when it begins, one a minute while it
// lasts, one when it ends. The zero value with What set is ready. For many goroutines.
type Outage struct {
	Log  *slog.Logger // nil: slog.Default
	What string       // what the operator reads, "the registry is out of reach: agents are not watched"
	Key  string       // what it is about; "": nothing to name

	mu    sync.Mutex
	since time.Time // zero: it works
	said  time.Time
	tries int
}

// sayEvery is how often a failure that lasts is logged.
const sayEvery = time.Minute

// Failed says that it failed now.
func (o *Outage) Failed(now time.Time, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tries++
	if o.since.IsZero() {
		o.since = now
	} else if now.Sub(o.said) < sayEvery {
		return
	}
	o.said = now
	o.log().Warn(o.What, "err", err, "for", now.Sub(o.since).Round(time.Second), "tries", o.tries)
}

// Over says that it worked now.
func (o *Outage) Over(now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.since.IsZero() {
		return
	}
	o.log().Info("over: "+o.What, "after", now.Sub(o.since).Round(time.Second), "tries", o.tries)
	o.since, o.said, o.tries = time.Time{}, time.Time{}, 0
}

func (o *Outage) log() *slog.Logger {
	log := o.Log
	if log == nil {
		log = slog.Default()
	}
	if o.Key != "" {
		log = log.With("key", o.Key)
	}
	return log
}
