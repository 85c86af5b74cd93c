package agentd

import (
	"time"

	"souk/bus"
)

// full limits the slots offered of an engine that has refused a task for want of room, which is no fault of
// it: to as many as it had tasks then, after a pause that doubles with each such refusal one more, and again
// one more each time that it takes a task for it. What it refuses one client alone, while it takes tasks of
// others, as where a proxy before it counts by clients, limits nothing.
type full struct {
	limited bool
	most    int           // tasks that it took
	gap     time.Duration // the last pause; 0: it has taken one more since
	pauses  bool
	until   time.Time // zero: the pause begins with the next look
	client  string    // who was refused last
	others  time.Time // when it last took a task of another since
}

// The pause is at least and at most so long, unless the engine asks for a longer one, of up to a minute.
const fullLeast, fullMost, fullAsked = 500 * time.Millisecond, 10 * time.Second, time.Minute

// refuses notes that the engine refused a client's task for want of room, with so many in it, and says when
// it may be asked again.
func (f *full) refuses(now time.Time, client string, running int, again time.Duration) {
	own := client == f.client && now.Sub(f.others) < fullMost
	if client != f.client {
		f.client, f.others = client, time.Time{}
	}
	switch gap := min(max(fullLeast, 2*f.gap), fullMost); {
	case own:
	case f.limited && f.pauses: // one of those that came together
		f.most = min(f.most, running)
	default:
		*f = full{limited: true, most: running, gap: gap, pauses: true, client: f.client, others: f.others}
		if again = min(again, fullAsked); again > gap {
			f.until = now.Add(again)
		}
	}
}

// takes notes that the engine has begun one of so many tasks, of such slots.
func (f *full) takes(now time.Time, client string, running, slots int) {
	if client != f.client {
		f.others = now
	}
	if f.limited && !f.pauses && running > f.most {
		*f = full{limited: running < slots, most: running, client: f.client, others: f.others}
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

// queues reports whether an agent takes a task beyond its slots, which waits in its engine's own queue: not
// once that has refused one, nor while it is full.
func (a *Agent) queues() bool { return !a.noQueue && !a.full.limited }

// offers fills in what a summary says of slots: without any, the agent takes no tasks for a while.
func (a *Agent) offers(s *bus.Summary) {
	s.Queue = a.queues()
	if s.Slots = max(1, a.slots()); a.slots() == 0 && s.State == bus.StateReady {
		s.State = bus.StateUnhealthy
	}
}
