// Package fair keeps the slots of a hub shared where there are too few: a client that wants more than the
// others leave has its tasks wait, so that a flood of one does not make the others' wait. It is a runtime
// policy that says of a task that it is to stay out of a round, by what became of tasks before, and reads no
// bid.
//
// What each client wants of the slots at a time, now or at the most of late, is known from events. Up to its
// share, the level at which all that is wanted just fills the slots (max-min fairness), a client has what it
// wants. So nobody is held while the slots are enough for all: below that knee the policy does nothing. Slots
// that others used a moment ago are kept for them, as a task that comes when all are taken waits for one to
// end; that is what the others' first tokens are worth here, and what a flood is slowed down by.
package fair

import (
	"slices"
	"time"

	"souk/bus/bounded"
	"souk/bus/exact"
	"souk/bus/policy"
)

// Fair is the policy.
type Fair struct {
	policy.Silent
	clients *bounded.Cache[policy.ID, policy.ID, client]
	running int32     // tasks of all
	wants   []float64 // of those that want slots, or wanted some of late
	level   float64   // at which wants fill slots; see share
	of      int       // for how many slots that is
	when    int64     // nanoseconds: when that was found out
	since   int       // events since
}

// client tracks one client.
type client struct {
	running, waiting int32   // its tasks
	most             float32 // that it had of both, which fades
	at               int64   // nanoseconds: when these were last looked at
}

const (
	// clients that are remembered
	mostClients = 1 << 14
	// what a client had at the most is half of that so much later: pauses of people and of tools are shorter
	fades = 20 * time.Second
	// below that a client is not reckoned with
	least = 0.5
)

// New knows nobody.
func New() *Fair {
	f := &Fair{clients: bounded.New[policy.ID, policy.ID, client](mostClients, 0)}
	f.clients.Gone = func(_ policy.ID, c *client) { f.running -= c.running }
	return f
}

// Observe implements policy.Policy.
func (f *Fair) Observe(e policy.Event) {
	var running, waiting int32
	switch e.Kind {
	case policy.Arrived, policy.Again:
		waiting = 1
	case policy.Placed:
		running, waiting = 1, -1
	case policy.Served:
		running = -1
	case policy.Failed:
		if running = -1; e.Agent == 0 { // no agent ever had it
			running, waiting = 0, -1
		}
	case policy.Ended, policy.Next, policy.Loaded:
		return
	}
	f.since++
	c, made := f.clients.Add(e.Client, e.Client)
	now := e.At.UnixNano()
	if made {
		c.at = now
	}
	f.look(c, now)
	before := c.running
	c.running, c.waiting = max(0, c.running+running), max(0, c.waiting+waiting)
	f.running += c.running - before
	c.most = max(c.most, float32(c.running+c.waiting))
}

// look brings what fades up to now.
func (f *Fair) look(c *client, now int64) {
	passed := time.Duration(max(0, now-c.at)).Seconds()
	c.at = max(c.at, now)
	if passed == 0 {
		return
	}
	c.most = max(float32(c.running+c.waiting), c.most*half(passed, fades))
}

// mostBy returns a client's highest demand of late, as faded by now.
func (c *client) mostBy(now int64) float32 {
	passed := time.Duration(now - c.at)
	if passed < moment {
		return c.most
	}
	return max(float32(c.running+c.waiting), c.most*half(passed.Seconds(), fades))
}

// half returns the share left after so many seconds, of a value that halves in each such time.
func half(passed float64, after time.Duration) float32 {
	return float32(exact.Exp(-min(600, 0.6931471805599453*passed/after.Seconds())))
}

// moment is how long a faded value counts as unchanged.
const moment = time.Second

// share returns how many of the slots each client may have: the level up to which all can have what they
// want. It rises by time alone, as the highest demands fade.
func (f *Fair) share(now int64, slots int) float64 {
	// Where clients are many, the level of a moment ago will do.
	if many := len(f.wants) / 16; f.of > 0 && f.since <= many && (f.of == slots || many > 64) &&
		now-f.when < int64(moment) {
		return f.level
	}
	f.since, f.of, f.when = 0, slots, max(f.when, now)
	f.wants = f.wants[:0]
	for id, c := range f.clients.All() {
		if most := c.mostBy(now); most >= least {
			f.wants = append(f.wants, float64(most))
		} else { // nothing is left of it
			f.clients.Drop(id)
		}
	}
	slices.Sort(f.wants)
	left := float64(slots)
	for i, w := range f.wants {
		each := left / float64(len(f.wants)-i)
		if w > each {
			f.level = max(1, each) // more clients than slots: one each, by turns
			return f.level
		}
		left -= w
	}
	f.level = float64(slots) // enough for all
	return f.level
}

// Score implements policy.Policy: of a pair of a task whose client has its share, or will have with those of
// its tasks that came before this, it says that the task stays out of the round.
func (f *Fair) Score(now time.Time, i policy.Item) float64 {
	c := f.clients.Peek(i.Client)
	if c == nil || i.Kind != policy.Pair {
		return 0
	}
	if float64(int(c.running)+i.Before+1) > f.share(now.UnixNano(), int(f.running)+i.Free) {
		return policy.Hold
	}
	return 0
}
