package treasury

import (
	"time"

	"souk/bus"
	"souk/market"
)

// Bounds of returns that wait for one before them. A hub has its next requests under way together, so a few
// overtake one another; what is beyond is refused, and told again when those before it have come.
const (
	maxEarly    = 1 << 10 // of one hub: four times what a hub says at once
	maxEarlyAll = 1 << 14 // of all hubs together, 3 MB
	// earlyFor is how long one is kept: whoever said it gave up waiting for an answer long before, and says
	// it again.
	earlyFor = 5 * time.Second
)

// early are the returns that came before one of a lower number.
type early struct {
	hubs  map[string]map[uint64]earlyReturn
	count int
	next  time.Time // when some may have been kept for too long
}

// earlyReturn is a return that waits for the ones before it.
type earlyReturn struct {
	to     any
	client string
	amount market.Credits
	at     time.Time
}

func newEarly() early { return early{hubs: map[string]map[uint64]earlyReturn{}} }

// keep keeps return n of a hub, which is so far ahead, or reports that there is no room for it.
func (e *early) keep(now time.Time, req *bus.FundsRequest, n, ahead uint64, to any) bool {
	list := e.hubs[req.Hub]
	_, again := list[n]
	if ahead > maxEarly || e.count >= maxEarlyAll && !again {
		return false
	}
	if list == nil {
		list = map[uint64]earlyReturn{}
		e.hubs[req.Hub] = list
	}
	if !again {
		e.count++
	}
	list[n] = earlyReturn{to, req.Client, req.Amount, now}
	if e.next.IsZero() {
		e.next = now.Add(earlyFor)
	}
	return true
}

// take removes and returns return n of a hub.
func (e *early) take(hub string, n uint64) (earlyReturn, bool) {
	r, ok := e.hubs[hub][n]
	if ok {
		e.remove(hub, n)
	}
	return r, ok
}

func (e *early) remove(hub string, n uint64) {
	delete(e.hubs[hub], n)
	e.count--
	if len(e.hubs[hub]) == 0 {
		delete(e.hubs, hub)
	}
}

// drop forgets what was kept for too long.
func (e *early) drop(now time.Time) {
	if e.next.IsZero() || now.Before(e.next) {
		return
	}
	e.next = time.Time{}
	for hub, list := range e.hubs {
		for n, r := range list {
			if end := r.at.Add(earlyFor); !now.Before(end) {
				e.remove(hub, n)
			} else if e.next.IsZero() || end.Before(e.next) {
				e.next = end
			}
		}
	}
}
