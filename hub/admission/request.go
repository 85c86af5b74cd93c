package admission

import (
	"slices"
	"time"

	"souk/bus"
	"souk/market"
)

// Key is the name that a client gave a task.
type Key struct{ Client, ID string }

// MoreInboxes bounds how many requests for one task wait for its answer.
const MoreInboxes = 8

// Request tracks one request: its content, who sent it, its terms, and its final result.
type Request struct {
	Key
	Bid
	Msg    *bus.Task // nil once it has ended, and where the journal alone tells of it
	Domain string    // in which its answer, which was paid, is judged; "": in none

	Name    market.TaskID // the key, as rounds have it
	Digest  [16]byte      // of its content
	rest    bool          // it is the rest of an answer that broke off, or that was served
	attempt int           // the last, without a message
	reply   string        // where its answer goes
	doors   []string      // who sent it here
	inboxes []string      // who waits for the answer
	shared  bool          // somebody else asked for it since it came
	Open    bool          // it was admitted and has not ended

	Final  *bus.Result // once it has ended, if it held money then
	noRest *bus.Result // why its rest is not served
	ended  time.Time
	until  time.Time // to be forgotten
	judged bool      // its client has said how good that was
}

// New returns the request for a task with such content, for whose answer nobody waits yet. attempt counts for
// a task that only the journal knows: it is that of its hold.
func New(client, id string, digest [16]byte, attempt int) Request {
	return Request{Key: Key{client, id}, Name: market.TaskID(client + "/" + id), Digest: digest,
		attempt: attempt, rest: attempt > 0}
}

// Asked is the request itself: see [Known].
func (q *Request) Asked() *Request { return q }

// Attempt returns the number of the task's current or last attempt; the first is 0.
func (q *Request) Attempt() int {
	if q.Msg != nil {
		return q.Msg.Attempt
	}
	return q.attempt
}

// refused notes that the rest of its answer was refused. If the reader will not ask again, whoever asks later
// hears the same: the reader has asked by another door, too, and an answer sent there would reach nobody.
func (q *Request) refused(r *bus.Result) {
	if !r.Code.Unsaid() && !r.NotNow() { // else its reader asks again
		q.noRest = r
	}
}

// From takes over a message: where the answer goes, and the door that has sent it.
func (q *Request) From(m *bus.Task) {
	q.Msg, q.rest = m, q.rest || m.Resume != nil
	q.To(m.Reply)
	q.sent(m.Door)
}

// To has its answer go to a subject.
func (q *Request) To(reply string) { q.reply = reply }

// sent notes a door that has sent it, up to a few.
func (q *Request) sent(door string) {
	if !slices.Contains(q.doors, door) && len(q.doors) < MoreInboxes {
		q.doors = append(q.doors, door)
	}
}

// Wait has an inbox hear of its answer.
func (q *Request) Wait(inbox string) { q.inboxes = append(q.inboxes, inbox) }

// Of reports whether sender may act for it: its client, its reader, or a door that has sent it.
func (q *Request) Of(sender string) bool {
	reader, _, _ := bus.ReaderOf(q.reply)
	return sender == q.Key.Client || sender == reader || slices.Contains(q.doors, sender)
}

// lastWord returns its final result as an answer.
func (q *Request) lastWord() *bus.Answer {
	r := *q.Final
	if r.Code == "" {
		r.Code, r.Message = bus.CodeAnswerGone, "served and paid once; the text is not kept here"
	}
	return &bus.Answer{Result: &r}
}

// elsewhere reports whether it ended here unpaid for a reason of the hub or its agents: its door may have
// given it to another hub since. Whoever asks for it is to hear from that one. A hub that was started again
// knows of the last agent's reason alone.
func (q *Request) elsewhere() bool {
	if q.Open || q.Final == nil || q.Final.Receipt == nil {
		return false
	}
	switch c := q.Final.Code; c {
	case "", bus.CodeCancelled, bus.CodeTimeout, bus.CodeLateFirst, bus.CodeBadRequest,
		bus.CodeUnsupportedField, bus.CodeTooLarge, bus.CodeEmptyPrompt, bus.CodeEngineRefused:
		return false
	default:
		return !c.Broken()
	}
}
