package admission

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"souk/bus"
	"souk/bus/bounded"
	"souk/hub/turn"
)

// Known is a task of the hub with the request that this room keeps.
type Known interface {
	comparable
	Asked() *Request
}

const (
	// KeepIDs is how long after their deadlines the ids of ended tasks are remembered.
	KeepIDs = 10 * time.Minute
	// MostKnown bounds them, of 1.2 KB each.
	MostKnown = 1 << 16
	// replayFor is how long after an answer's end its agent has it still.
	replayFor = 30 * time.Second
)

// Deadlines configures how long tasks may wait, from their arrival.
type Deadlines struct {
	Deadline    time.Duration `yaml:"deadline"`     // how long a task that says none waits for a slot
	MaxDeadline time.Duration `yaml:"max_deadline"` // the furthest that is taken
}

// Tally counts requests since a hub's start.
type Tally struct {
	Arrived int64              // tasks looked at, repeats aside
	Looks   int64              // whose door was to ask first whether another hub has the task
	Tasks   map[bus.Code]int64 // last words by code; "" = served
}

// Room knows the tasks that were asked for, and answers what needs no more than that.
type Room[T Known] struct {
	turn   *turn.Turn
	limits Deadlines
	most   int // ended tasks that are remembered

	served func(T) Served
	known  map[Key]T // open, and ended ones as long as they are remembered
	behind map[Key]T // one that has ended, behind the rest of its answer; zero: it is not remembered any more
	ended  []T       // remembered, in the order of their end
	open   int
	waited *bounded.Cache[string, content, time.Duration] // of tasks that may come again
	owners *bounded.Cache[string, Key, []doorLookup]      // of tasks that are not known
	counts Tally
}

// content identifies a task that comes again, whose time in the queue then counts on.
type content struct {
	Key
	digest [16]byte
}

// mostWaited bounds the tasks of which it is kept.
const mostWaited = 4096

// NewRoom returns the room of a hub without tasks. served tells how agents have served one.
func NewRoom[T Known](t *turn.Turn, l Deadlines, most int, served func(T) Served) *Room[T] {
	r := &Room[T]{turn: t, limits: l, most: most, served: served, known: map[Key]T{}, behind: map[Key]T{},
		waited: bounded.New[string, content, time.Duration](mostWaited, 0),
		owners: bounded.New[string, Key, []doorLookup](maxLookups, 0)}
	r.Recount()
	return r
}

// Recount begins to count anew.
func (r *Room[T]) Recount() { r.counts = Tally{Tasks: map[bus.Code]int64{}} }

// Tally returns a copy of the counts.
func (r *Room[T]) Tally() Tally {
	c := r.counts
	c.Tasks = maps.Clone(c.Tasks)
	return c
}

// Count counts one more result by its code. Unknown codes, which agents may make up, count together.
func Count(by map[bus.Code]int64, c bus.Code) {
	if c != "" && !c.Known() {
		c = bus.CodeAgentFailed
	}
	by[c]++
}

// Open counts the open tasks, Known all known ones, with those that have ended.
func (r *Room[T]) Open() int        { return r.open }
func (r *Room[T]) Known() map[Key]T { return maps.Clone(r.known) }

// Find returns a task that is known: where the rest of its answer is open, that.
func (r *Room[T]) Find(client, id string) T { return r.known[Key{client, id}] }

// Refuse answers a request that is not admitted, and Answer with a result.
func (r *Room[T]) Refuse(m *bus.Task, code bus.Code, retry time.Duration, format string, args ...any) {
	r.Answer(m, r.turn.Refusal(m, code, retry, format, args...))
}

func (r *Room[T]) Answer(m *bus.Task, x *bus.Result) {
	Count(r.counts.Tasks, x.Code)
	r.turn.Send(m.Inbox, &bus.Answer{Result: x})
}

// What is the kind of a request.
type What uint8

const (
	Answered What = iota // nothing more is to be done
	Comes                // for a task that is not known
	Repeats              // for one that is: see [Room.Again]
	TakesUp              // the task of a hold of which the journal alone has told comes again
	Asks                 // its reader wants another agent to go on, and its agent has not ended it
	GoesOn               // the rest of its answer is a new task
)

// Come takes a request in, and answers it if that takes neither agents nor money. last is the hub's last
// status; stale: the status that the door names is too old.
func (r *Room[T]) Come(m *bus.Task, last *bus.LastStatus, stale bool) (t T, what What, err error) {
	if !bus.ValidID(m.Client) || !bus.ValidID(m.ID) {
		r.Refuse(m, bus.CodeBadRequest, 0, "a task needs the ids of its client and of itself, not %q and %q",
			m.Client, m.ID)
		return t, Answered, fmt.Errorf("task %q of client %q: not ids", m.ID, m.Client)
	}
	m.Reply = cmp.Or(m.Reply, bus.ReplyTo(m.Client, m.ID))
	t, known := r.known[Key{m.Client, m.ID}]
	var q *Request
	if known {
		// a door that sends it again is no other
		if q = t.Asked(); isLookup(m) || !slices.Contains(q.doors, m.Door) {
			q.shared = true
		}
	}
	switch {
	case isLookup(m):
		r.lookUp(q, m, last)
	case !known && m.Resume != nil:
		r.Refuse(m, bus.CodeUnknown, 0, "hub %s knows of no task %s of %s that could go on", r.turn.Domain, m.ID,
			m.Client)
	case !known && stale:
		r.lookFirst(m, last, "the door was out of step when it sent the task, and another hub may have it")
	case !known && r.disputed(m):
		r.lookFirst(m, last, "another door asks for the task, and may have given it to another hub")
	case !known:
		if r.counts.Arrived++; m.Prompt.Tokens > 0 {
			return t, Comes, nil
		}
		r.Refuse(m, bus.CodeEmptyPrompt, 0, "the prompt is empty")
	case q.Open && q.Digest == m.Content() && m.Stream && m.Reply != q.reply:
		r.Refuse(m, bus.CodeDuplicate, time.Second, "task %s is in hand for another reader", m.ID)
	default:
		q.sent(m.Door)
		return t, Repeats, nil
	}
	return t, Answered, nil
}

// Asked says why a client's question what a task would be given is not answered.
func (r *Room[T]) Asked(m *bus.Task) *bus.Result {
	err := m.Validate()
	switch {
	case !r.turn.Leading:
		return r.turn.Refusal(m, bus.CodeUnavailable, time.Second, "hub %s does not lead its domain", r.turn.Domain)
	case err != nil:
		return r.turn.Refusal(m, CodeOf(err), 0, "%s", bus.MessageOf(err))
	case !bus.ValidID(m.Client):
		return r.turn.Refusal(m, bus.CodeBadRequest, 0, "a quote needs the id of its client, not %q", m.Client)
	case m.Resume != nil:
		return r.turn.Refusal(m, bus.CodeBadRequest, 0, "resume: a quote is for a task as it begins")
	case m.Prompt.Tokens <= 0:
		return r.turn.Refusal(m, bus.CodeEmptyPrompt, 0, "the prompt is empty")
	}
	return nil
}

// CodeOf is the code of an error in a request.
func CodeOf(err error) bus.Code {
	if c := bus.CodeOf(err); c != bus.CodeInternal && c != "" {
		return c
	}
	return bus.CodeBadRequest
}

// Deadline returns until when a task may wait, and why it is not admitted if that is out of bounds. A task
// whose first token is expected after its deadline gets no slot. An answer that has begun is not cut off
// there, or a client could have it for nothing by a well chosen deadline; it can cancel.
func (r *Room[T]) Deadline(now time.Time, m *bus.Task) (at time.Time, no *bus.Result) {
	if at = now.Add(r.limits.Deadline); m.DeadlineMS != 0 {
		at = time.UnixMilli(m.DeadlineMS)
	}
	switch {
	case !at.After(now):
		no = r.turn.Refusal(m, bus.CodePastDeadline, 0, "the deadline passed %v ago",
			now.Sub(at).Round(time.Millisecond))
	case at.After(now.Add(r.limits.MaxDeadline)):
		no = r.turn.Refusal(m, bus.CodeBadTerms, 0, "deadline_ms: more than %v ahead, the furthest this hub takes",
			r.limits.MaxDeadline)
	}
	return at, no
}

// Load says how busy a hub is when a task comes.
type Load struct {
	Closed  string        // why the hub takes no task, whoever sends it; "": it does
	Again   time.Duration // then: when it may be worth asking again
	Waiting int           // tasks
	Full    bool          // the queue has no room, and nobody would have to leave it
	Has     int           // tasks of the same client that wait, for its money or a slot
	TooMany bool          // these are as many as may wait, and the task would wait, too
}

// Judge says why the hub has no room for a task. Many tasks of one client that come at once to as many free
// slots do not fill it.
func (r *Room[T]) Judge(m *bus.Task, l Load) *bus.Result {
	switch {
	case r.turn.Draining:
		return r.turn.Refusal(m, bus.CodeDraining, l.Again, "%s; try again", l.Closed)
	case l.Closed != "":
		return r.turn.Refusal(m, bus.CodeUnavailable, l.Again, "%s", l.Closed)
	case l.Full:
		return r.turn.Refusal(m, bus.CodeNoRoom, time.Second,
			"%d tasks wait and %d are open: the queue is full", l.Waiting, r.open)
	case l.TooMany:
		return r.turn.Refusal(m, bus.CodeTooManyTasks, time.Second, "%d tasks of client %s wait for its money "+
			"or a slot, the most that may wait here (max_waiting_per_client)", l.Has, m.Client)
	}
	return nil
}

// Waited returns how long a task of the same content has waited before under its key, without a slot.
func (r *Room[T]) Waited(q *Request) time.Duration {
	if so := r.waited.Peek(content{q.Key, q.Digest}); so != nil {
		return *so
	}
	return 0
}

// Take counts in a task that is admitted. What it is the rest of stays known: it may be asked for again.
func (r *Room[T]) Take(t T) {
	q := t.Asked()
	r.waited.Drop(content{q.Key, q.Digest})
	if q.Msg != nil && q.Msg.Resume != nil {
		r.behind[q.Key] = r.known[q.Key]
	}
	r.known[q.Key], q.Open = t, true
	r.open++
}

// Tell tells everyone who asked for the answer. It reports whether anybody had.
func (r *Room[T]) Tell(q *Request, a *bus.Answer) bool {
	asked := len(q.inboxes) > 0
	for _, to := range q.inboxes {
		r.turn.Send(to, a)
	}
	q.inboxes = nil
	return asked
}

// Last tells the last word on an open task to everyone who asked for it, and reports whether anybody had. own
// says that the hub sent it itself, and alone that no other hub can have it as far as this one heard: another
// door that is asked for what was sent here asks all hubs before it places it, and nobody asked.
func (r *Room[T]) Last(q *Request, x *bus.Result, own, alone bool) bool {
	if r.open--; !own {
		Count(r.counts.Tasks, x.Code)
	}
	return r.Tell(q, &bus.Answer{Result: x, SoleOwner: alone && !q.shared})
}

// Forget lets go of a task that never held money, so that its client may try the same id again. Who comes
// again goes on where it left off among those whose seconds cost the same, as if no time had passed between:
// who sends tasks early and cancels them is no further ahead. What it is the rest of stays known.
func (r *Room[T]) Forget(t T, waited time.Duration, x *bus.Result) {
	var none T
	q := t.Asked()
	q.Open, q.Msg = false, nil
	old, isRest := r.behind[q.Key]
	if old != none {
		r.known[q.Key] = old
		old.Asked().refused(x)
	} else {
		delete(r.known, q.Key)
	}
	if delete(r.behind, q.Key); !isRest && waited > 0 {
		r.waited.Put(q.Key.Client, content{q.Key, q.Digest}, waited, 1)
	}
}

// Remember keeps an ended task, as long as its id may be sent again.
func (r *Room[T]) Remember(t T, x *bus.Result, deadline time.Time) {
	q, now := t.Asked(), r.turn.Now()
	q.attempt = q.Attempt()
	q.Open, q.Final, q.ended, q.doors, q.Msg = false, x, now, nil, nil
	q.until = turn.Later(deadline, now).Add(KeepIDs)
	delete(r.behind, q.Key)
	r.ended = append(r.ended, t)
	r.ForgetEnded()
}

// ForgetEnded drops what need not be remembered any more, in the order of the ends: a task with a late
// deadline keeps those that ended after it, too.
func (r *Room[T]) ForgetEnded() {
	var none T
	due := func(t T) bool { return len(r.ended) > r.most || !r.turn.Now().Before(t.Asked().until) }
	for len(r.ended) > 0 && due(r.ended[0]) {
		t := r.ended[0]
		r.ended[0] = none // what append moves to a new array is the rest alone
		r.ended = r.ended[1:]
		switch key := t.Asked().Key; t {
		case r.known[key]:
			delete(r.known, key)
		case r.behind[key]:
			r.behind[key] = none
		}
	}
}
