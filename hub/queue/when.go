package queue

import (
	"errors"
	"slices"
	"time"

	"souk/bus"
	"souk/hub/turn"
)

// Rule says when a round is held.
type Rule struct {
	// tasks that a round at posted prices holds at most; any other plans for all who wait
	MaxBatch int           `yaml:"max_batch"`
	ClosesAt int           `yaml:"closes_at"` // tasks that close a batch, or max_batch where that is fewer
	MaxWait  time.Duration `yaml:"max_wait"`  // wait of the oldest task that closes a batch
	// close at once while slots outnumber tasks: then nobody competes and waiting is pure cost
	Eager bool `yaml:"eager"`
	// The pause after a round where tasks compete: so long for each of them, max_wait at most; 0: none. A
	// round looks at all who wait, and in a crowd every end of an answer is news.
	Apart time.Duration `yaml:"apart"`
}

// Default holds rounds as the paper does (iemas C.2.1: 16 tasks or 10 ms), and at once where nothing
// contends. A round of 512 tasks for 64 slots is solved well within that window.
func Default() Rule {
	return Rule{MaxBatch: 512, ClosesAt: 16, MaxWait: 10 * time.Millisecond, Eager: true,
		Apart: 100 * time.Microsecond}
}

// MostBatch bounds MaxBatch: edges of a round, and so the bytes of its record, grow with it.
const MostBatch = 1024

// Validate judges a rule and changes nothing.
func (r Rule) Validate() error {
	return errors.Join(bus.CheckBounds("max_batch", r.MaxBatch, 1, MostBatch),
		bus.CheckBounds("closes_at", r.ClosesAt, 1, MostBatch),
		bus.CheckBounds("max_wait", r.MaxWait, 0, time.Minute),
		bus.CheckBounds("apart", r.Apart, 0, time.Minute))
}

// Set changes the rule for those who wait and those who come.
func (r *Room[T]) Set(rule Rule) { r.rule = rule }

// Due reports whether a round is held now, with so many free slots. Without a free slot none is.
func (r *Room[T]) Due(free int) bool {
	now := r.turn.Now()
	if r.due == 0 || free <= 0 || now.Before(r.next(free)) && !now.Before(r.last) {
		return false
	}
	return r.atOnce(free) || !now.Before(r.Deadline(free))
}

// atOnce reports whether a round is held without a wait: for how many there are, or as they have a slot each.
func (r *Room[T]) atOnce(free int) bool {
	return r.rule.Eager && r.due <= free || r.due >= min(r.rule.ClosesAt, r.rule.MaxBatch)
}

// next returns when the next round may be held. For as long as one takes a hub does something else, even if
// slots outnumber those who wait: these may be many, and wait for cheaper ones.
func (r *Room[T]) next(free int) time.Time {
	if r.rule.Eager && r.due <= free {
		return r.last.Add(2 * r.took)
	}
	return r.last.Add(max(2*r.took, min(r.rule.MaxWait, time.Duration(r.due)*r.rule.Apart)))
}

// Deadline returns when a round is held if so many slots are free and nothing else happens: the oldest task
// will have waited enough then, and the last round be long enough ago. Zero: none is to be looked at.
func (r *Room[T]) Deadline(free int) time.Time {
	first := slices.IndexFunc(r.all, func(t T) bool { return !t.InQueue().left })
	if first < 0 {
		return time.Time{}
	}
	at := r.all[first].InQueue().Arrived.Add(r.rule.MaxWait)
	if next := r.next(free); r.atOnce(free) || next.After(at) {
		return next
	}
	return at
}

// Took notes how long a round took. What turns without one took says nothing of that.
func (r *Room[T]) Took(d time.Duration) { r.took = min(max(0, d), time.Second) }

// News tells that a task which did not fit may fit now: all that were left are looked at again.
func (r *Room[T]) News() {
	r.Wake()
	r.turn.Changed = true
}

// Wake has the next round look at all tasks again.
func (r *Room[T]) Wake() {
	for _, t := range r.all {
		t.InQueue().left = false
	}
	r.due = len(r.all)
}

// Soon is the pause before tasks are looked at again that wait beside a free slot, or are nearly worth no
// more than they cost.
const Soon = 50 * time.Millisecond

// Beside tells that a task waits beside a free slot: all are looked at again soon.
func (r *Room[T]) Beside() {
	if !r.again.IsSet() {
		r.turn.Set(&r.again, r.turn.Now().Add(Soon))
	}
}

// Lasts notes how long a task is worth more than it costs, if nothing else changes: after that the hub is
// asked, as no round may be held without a free slot.
func (r *Room[T]) Lasts(t T, d time.Duration) {
	e := t.InQueue()
	e.spent = time.Time{}
	if d < e.Deadline.Sub(r.turn.Now()) {
		e.spent = r.turn.Now().Add(max(d+1, Soon))
		if !r.spent.IsSet() || e.spent.Before(r.spent.At()) {
			r.turn.Set(&r.spent, e.spent)
		}
	}
}

// over is called by a timer: tasks may be worth no more than they cost.
func (r *Room[T]) over() {
	var over []T
	next := time.Time{}
	for _, t := range r.all {
		switch e := t.InQueue(); {
		case e.spent.IsZero():
		case e.spent.After(r.turn.Now()):
			next = turn.Earlier(next, e.spent)
		default:
			e.spent = time.Time{}
			over = append(over, t)
		}
	}
	r.turn.Set(&r.spent, next)
	if len(over) > 0 {
		r.tasks.Spent(over)
	}
}
