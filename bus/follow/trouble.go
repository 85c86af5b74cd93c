package follow

import (
	"log/slog"
	"sync"
	"time"

	"souk/bus"
)

// Trouble is a [bus.Outage] that several goroutines may notice, and what a log says of it.
type Trouble struct {
	mu sync.Mutex
	o  bus.Outage
}

// Note notes whether a part of the process works, and returns that. The log has bad, with args, when a
// trouble begins and once a minute while it lasts, and good when all parts work again.
func (t *Trouble) Note(log *slog.Logger, part string, works bool, bad, good string, args ...any) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !works && t.o.Failed(time.Now(), part) {
		log.Warn(bad, args...)
	} else if works {
		if lasted, over := t.o.Works(time.Now(), part); over {
			log.Info(good, "after", lasted.Round(time.Millisecond))
		}
	}
	return works
}
