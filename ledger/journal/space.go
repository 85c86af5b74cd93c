package journal

import (
	"sync"
	"time"
)

// A disk that has this much more room than is needed has enough of it a moment later, too: nobody fills so
// much in so short a time.
const (
	spare  = 64 << 20
	moment = 10 * time.Millisecond
)

// seldom asks for the free bytes of a disk at most once a moment as long as they are plenty; each asking is a
// system call, and a hub asks twice a round. Many may ask at once.
func seldom(ask func(dir string) (int64, error), plenty int64) func(dir string) (int64, error) {
	var mu sync.Mutex
	var free int64 // of the last asking, good until then
	var until time.Time
	return func(dir string) (int64, error) {
		mu.Lock()
		defer mu.Unlock()
		now := time.Now()
		if now.Before(until) {
			return free, nil
		}
		n, err := ask(dir)
		if err == nil && n >= plenty {
			free, until = n, now.Add(moment)
		}
		return n, err
	}
}
