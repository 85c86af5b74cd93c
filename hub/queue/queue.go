// Package queue keeps the tasks that wait for a slot: since when each does, until when, when it is looked at
// again, and how many each client has. It says when a round of them is held.
//
// A [Room] is a machine without I/O or clock: it runs on the hub's [turn.Turn]. Of a task it knows an
// [Entry]. What becomes of that it tells the hub's [Tasks].
package queue

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"time"

	"souk/hub/turn"
	"souk/market"
)

// Entry is a task's state in a queue. [New] makes it; whoever adds it may say more of when it waits before.
type Entry struct {
	Arrived  time.Time // first, which it keeps if an agent refuses it
	Deadline time.Time
	Before   time.Duration // waited earlier under the same id, without a slot
	Broke    time.Time     // when its reader wanted the rest of an answer that had begun; zero: none had
	Waits    bool          // it is in the queue, which alone sets that

	// found by rounds
	Barred  bool           // by a policy, from an agent in its last round
	Short   bool           // by an agent's slot its first token would have come too late
	Planned string         // the last agent at which it had a seat to come; "": it never had
	Worth   market.Credits // what it was to have of the first such seat; less than 0: it began once
	Rounds  int            // that gave it no slot
	// since when a slot has cost more than the task would have of it; zero: that is not so
	Outpriced time.Time

	client string
	met    bool
	late   bool      // when it came no slot was free, or others before it wanted one
	left   bool      // by the last round that looked at it: it waits for news
	spent  time.Time // when it will be worth no more than it costs; zero: not before its deadline
	timer  turn.Timer
}

// New returns the entry of a task of a client that came then and may wait until its deadline.
func New(client string, arrived, deadline time.Time) Entry {
	return Entry{client: client, Arrived: arrived, Deadline: deadline}
}

// InQueue is the entry itself: see [Waiter].
func (e *Entry) InQueue() *Entry { return e }

// Waited returns how long it has waited for its first token, or for the rest of its answer.
func (e *Entry) Waited(now time.Time) time.Duration {
	if e.Broke.IsZero() {
		return now.Sub(e.Arrived)
	}
	return now.Sub(e.Broke)
}

// InLine returns how long it has waited in all, with earlier times under the same id.
func (e *Entry) InLine(now time.Time) time.Duration { return now.Sub(e.Arrived) + e.Before }

// Due reports whether the next round looks at it.
func (e *Entry) Due() bool { return e.Waits && !e.left }

// AtOnce reports whether a slot was free, and would do, when the task came.
func (e *Entry) AtOnce() bool { return !e.late && !e.Short && e.Rounds == 0 }

// Waiter is a task that may wait.
type Waiter interface {
	comparable
	InQueue() *Entry
}

// Tasks is the hub whose tasks wait. It is called by timers.
type Tasks[T any] interface {
	// Overdue tells that a task's deadline has passed. The hub ends the task.
	Overdue(t T)
	// Beat tells that a heartbeat is due for the reader of a task that waits: see [Room.Add].
	Beat(t T)
	// Spent tells that tasks may be worth no more than they cost by now. The hub ends those, and sets how
	// long the others last.
	Spent(all []T)
}

// Room holds the tasks that wait, by arrival. The caller bounds their number, by [Room.Spare].
type Room[T Waiter] struct {
	turn  *turn.Turn
	tasks Tasks[T]
	rule  Rule
	most  int // that may wait beside those that have a slot

	all  []T
	due  int           // of these: the next round looks at them
	last time.Time     // when a round was last held
	took time.Duration // duration of a recent round

	again turn.Timer     // all are looked at again
	spent turn.Timer     // the first of them is worth no more than it costs
	of    map[string]int // by client
}

// NewRoom returns an empty queue, in which so many may wait beside those that have a slot.
func NewRoom[T Waiter](t *turn.Turn, rule Rule, most int, tasks Tasks[T]) *Room[T] {
	r := &Room[T]{turn: t, tasks: tasks, rule: rule, most: most, of: map[string]int{}}
	r.again.Due, r.spent.Due = r.News, r.over
	return r
}

// Waiting returns the number of tasks that wait.
func (r *Room[T]) Waiting() int { return len(r.all) }

// Next counts the tasks that the next round looks at.
func (r *Room[T]) Next() int { return r.due }

// All calls show with all tasks that wait, by arrival. One that goes meanwhile may be shown.
func (r *Room[T]) All(show func(T) bool) {
	for _, t := range slices.Clone(r.all) {
		if !show(t) {
			return
		}
	}
}

// Add lets a task wait for the next round, behind all that came before it. One that comes back from an agent
// brings its first arrival. free: there is a free slot that no task before it wants. beat is how often its
// reader is told that it waits; 0: never.
func (r *Room[T]) Add(t T, free bool, beat time.Duration) {
	e, n := t.InQueue(), len(r.all)
	if n > 0 && r.all[n-1].InQueue().Arrived.After(e.Arrived) {
		n = sort.Search(n, func(i int) bool { return r.all[i].InQueue().Arrived.After(e.Arrived) })
	}
	r.all = slices.Insert(r.all, n, t)
	e.Waits, e.left, e.late = true, false, e.late || !free
	r.due++
	r.of[e.client]++
	beat = cmp.Or(beat, e.Deadline.Sub(r.turn.Now()))
	wake := func() { r.turn.Set(&e.timer, turn.Earlier(e.Deadline, r.turn.Now().Add(beat))) }
	e.timer.Due = func() {
		if !r.turn.Now().Before(e.Deadline) {
			r.tasks.Overdue(t)
			return
		}
		r.tasks.Beat(t)
		wake()
	}
	wake()
	r.turn.Changed = true
}

// Remove takes a task out that has a slot, or ends.
func (r *Room[T]) Remove(t T) {
	e := t.InQueue()
	if !e.Waits {
		return
	}
	i := slices.Index(r.all, t)
	r.all = slices.Delete(r.all, i, i+1)
	if !e.left {
		r.due--
	}
	e.Waits, e.spent, e.Outpriced = false, time.Time{}, time.Time{}
	if r.of[e.client]--; r.of[e.client] == 0 {
		delete(r.of, e.client)
	}
	r.turn.Set(&e.timer, time.Time{})
}

// Take appends to dst the tasks that the next round looks at, by arrival. They wait for news then, unless the
// round removes them or has them looked at again.
func (r *Room[T]) Take(dst []T) []T {
	r.last = r.turn.Now()
	for _, t := range r.all {
		if e := t.InQueue(); e.Due() {
			e.left, e.met, e.Barred = true, true, false
			dst = append(dst, t)
		}
	}
	r.due = 0
	return dst
}

// Again has the next round look at a task that waits, though there is no news.
func (r *Room[T]) Again(t T) {
	if e := t.InQueue(); e.Waits && e.left {
		e.left = false
		r.due++
	}
}

// Left reports whether any task of a client waits for news.
func (r *Room[T]) Left(client string) bool {
	return r.of[client] > 0 && slices.ContainsFunc(r.all, func(t T) bool {
		e := t.InQueue()
		return e.left && e.client == client
	})
}

// Of counts the waiting tasks of a client.
func (r *Room[T]) Of(client string) int { return r.of[client] }

// Busiest returns the most tasks that one client has waiting.
func (r *Room[T]) Busiest() (most int) {
	for _, n := range r.of {
		most = max(most, n)
	}
	return most
}

// Squeezes reports whether a client that has so many tasks waiting would still find room for another, at the
// cost of a client that has more. Room is shared by counting tasks: no bid is read.
func (r *Room[T]) Squeezes(has int) bool { return has+1 < r.Busiest() }

// Spare returns how many more tasks the hub takes, given its slots and open tasks: the room left to wait, and
// the free slots.
func (r *Room[T]) Spare(slots, open int) int { return r.most + max(-len(r.all), slots-open) }

// Excess returns the task that has to leave if more tasks wait than there is room for, and what its client is
// told. It is the last to come of the client that has most in the queue, or of all clients that have as many.
func (r *Room[T]) Excess(slots, open int) (last T, why string) {
	if r.Spare(slots, open) >= 0 {
		return last, ""
	}
	most := r.Busiest()
	i := len(r.all) - 1
	for r.of[r.all[i].InQueue().client] < most {
		i--
	}
	return r.all[i], fmt.Sprintf("%d tasks wait, all that may, and no client has more among them than %s, with "+
		"%d: its last to come has to leave", len(r.all)-1, r.all[i].InQueue().client, most)
}

// Missed says why a task whose deadline has passed got no slot. refusals counts the agents that refused it;
// free reports whether an agent that may serve it has a free slot, and open whether one takes tasks.
func (r *Room[T]) Missed(t T, refusals int, free, open func() bool) string {
	switch e := t.InQueue(); {
	case refusals > 0 && e.Rounds == 0:
		return "agents refused it " + market.Some(refusals, "time") +
			", and in no other round before the deadline was a slot free that could serve it in time"
	case e.Rounds > 0:
		return "in " + market.Some(e.Rounds, "round") + " before the deadline the slots that would do, or the time " +
			"to compute in them, went to others: tasks that are worth more, lose more by waiting or came " +
			"first"
	case !e.met && free():
		return fmt.Sprintf("no round was held between its arrival and its deadline: where tasks compete one "+
			"is held within %v (max_wait)", r.rule.MaxWait)
	case !open():
		return "no agent that could serve it takes tasks now: each is stopping, silent, or without an engine " +
			"that answers"
	case e.Short:
		return "its first token was expected after the deadline, with every slot that was free: give it more time"
	}
	return "in no round before the deadline was a slot free that could serve it in time"
}
