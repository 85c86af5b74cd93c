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

// HasRoom reports whether the disk has room for new holds. A hub asks before it clears a round: an Append
// that is refused with ledger.ErrDiskFull is refused whole.
func (j *Journal) HasRoom() bool {
	free, needed := j.Room()
	return free >= needed
}

// Room says how many bytes of the disk are free, and how many have to be for new holds. Where nobody knows,
// or nobody minds, none are needed.
func (j *Journal) Room() (free, needed int64) {
	if j.cfg.MinFree < 0 {
		return 0, 0
	}
	free, err := j.free(j.dir)
	if err != nil {
		return 0, 0
	}
	return free, j.cfg.MinFree
}
