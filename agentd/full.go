package agentd

import (
	"time"

	"souk/bus"
)

// full limits the slots offered of an engine that has refused a task for want of room, which is no fault of
// it: to as many as it had tasks then, after a pause that doubles with each such refusal one more, and again
// one more each time that it takes a task for it.
type full struct {
	limited bool
	most    int           // tasks that it took
	gap     time.Duration // the last pause; 0: it has taken one more since
	pauses  bool
	until   time.Time // zero: the pause begins with the next look
}

const fullLeast, fullMost = 500 * time.Millisecond, 10 * time.Second

// refuses notes that the engine refused a task for want of room, with so many in it.
func (f *full) refuses(running int) {
	if f.limited && f.pauses { // one of those that came together
		f.most = min(f.most, running)
		return
	}
	*f = full{limited: true, most: running, gap: min(max(fullLeast, 2*f.gap), fullMost), pauses: true}
}

// takes notes that the engine has begun one of so many tasks, of such slots.
func (f *full) takes(running, slots int) {
	if f.limited && !f.pauses && running > f.most {
		*f = full{limited: running < slots, most: running}
	}
}

// passes lets time pass: it reports whether the pause is over just now, and else when it will be.
func (f *full) passes(now time.Time) (over bool, due time.Time) {
	switch {
	case !f.limited || !f.pauses:
		return false, due
	case f.until.IsZero():
		f.until = now.Add(f.gap)
	}
	f.pauses = now.Before(f.until)
	return !f.pauses, f.until
}

// slots returns how many of an agent's slots it offers.
func (a *Agent) slots() int {
	n := a.full.most
	switch {
	case !a.full.limited:
		return a.cfg.Slots
	case !a.full.pauses:
		n++
	}
	return min(n, a.cfg.Slots)
}

// offers fills in what a summary says of slots: without any, the agent takes no tasks for a while.
func (a *Agent) offers(s *bus.Summary) {
	if s.Slots = max(1, a.slots()); a.slots() == 0 && s.State == bus.StateReady {
		s.State = bus.StateUnhealthy
	}
}
