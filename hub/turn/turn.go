// Package turn has what all rooms of a hub share: the clock of a turn, timers, the journal that is written,
// whether anything may be, and the effects and messages once the turn is over. It decides nothing.
//
// A hub has one [Turn]. Its Node moves the clock on, says what has become of the hub, and takes what is to be
// done. A room has a pointer to it: it reads the clock and the state, sets timers, commits and speaks. That
// is all by which one room may have an effect on another.
package turn

import (
	"fmt"
	"math/rand/v2"
	"time"

	"souk/bus"
	"souk/bus/bounded"
	"souk/bus/policy"
	"souk/ledger"
)

// Turn is the clock, the journal and the voice of one hub. For one goroutine.
type Turn struct {
	Journal string       // name of the hub's journal
	Domain  string       // which the hub clears
	Book    *ledger.Book // to be read: Commit alone writes it
	State

	// Along, if not nil, adds records to those of each frame, and Wrote is told of each.
	Along func([]ledger.Record) []ledger.Record
	Wrote func(*ledger.Frame)
	// Passed, if not nil, is told of each moment in nanoseconds, as Nano has it.
	Passed func(nano int64)

	Out     Ready // what is to be done, so far
	Faults  int64 // what should never happen, and did
	Changed bool  // what others are told of the hub has changed: a status is due

	salts *rand.ChaCha8

	now  time.Time
	nano int64
	past bool // now was read from the journal, and not yet from a clock

	timers bounded.Heap[*Timer] // that are set
	order  uint64
}

// Settling is how long it takes until things have settled: an agent that counts more tasks than the hub for
// so long runs more; one that was restarted has said by then what it had served; and who was cut off is back.
const Settling = 2 * time.Second

// State says whether the hub may record anything. The Node sets it, but for Doubt.
type State struct {
	Epoch    int64  // of the leadership, the last there was
	Leading  bool   // it leads its domain
	Draining bool   // it takes no more tasks
	Full     bool   // the journal takes no new holds
	Doubt    string // why the journal may not be the newest, so that nothing is taken in; "": no doubt
	// Back is until when others may be on their way back from an outage of the bus that is over.
	Back time.Time
}

// New returns the turn of a hub that has a book. seed makes the salts of its records; it must be secret and
// new for every start, but for simulations.
func New(journal, domain string, book *ledger.Book, seed [32]byte) Turn {
	return Turn{Journal: journal, Domain: domain, Book: book, salts: rand.NewChaCha8(seed)}
}

// Now is the time of the turn. It never goes back.
func (t *Turn) Now() time.Time { return t.now }

// Nano is Now in nanoseconds since 1970, by the monotonic clock: setting the wall clock does not move it.
func (t *Turn) Nano() int64 { return t.nano }

// In is Nano so much later.
func (t *Turn) In(d time.Duration) int64 { return t.nano + d.Nanoseconds() }

// Advance sets the clock, unless it went back.
func (t *Turn) Advance(now time.Time) {
	switch {
	case t.past || t.now.IsZero():
		t.now, t.nano, t.past = now, now.UnixNano(), false
	case now.After(t.now):
		t.nano += now.Sub(t.now).Nanoseconds()
		t.now = now
	}
	t.passed()
}

func (t *Turn) passed() {
	if t.Passed != nil {
		t.Passed(t.nano)
	}
}

// Replay sets the clock to a moment that the journal names. The first Advance after it is always taken, even
// if it is before that moment: otherwise nothing would be due until the clock has caught up.
func (t *Turn) Replay(nano int64) {
	t.now, t.nano, t.past = time.Unix(0, nano), nano, true
	t.passed()
}

// Commit makes one frame of records and puts it first among what is to be done, or changes nothing.
func (t *Turn) Commit(records ...ledger.Record) error {
	seq, epoch, last := t.Book.Last()
	if t.Along != nil {
		records = t.Along(records)
	}
	f := ledger.Frame{
		Version: ledger.FrameVersion, Epoch: max(t.Epoch, epoch), Seq: seq + 1,
		Time: max(t.now.UnixNano(), last), Records: records,
	}
	if err := t.Book.ApplyFrame(f); err != nil {
		return err
	}
	t.Out.Frames = append(t.Out.Frames, f)
	if t.Wrote != nil {
		t.Wrote(&t.Out.Frames[len(t.Out.Frames)-1])
	}
	return nil
}

// Closed reports whether the journal is closed: nothing can follow.
func (t *Turn) Closed() bool { return t.Book.Closed(t.Journal) }

// Salt is new for each record.
func (t *Turn) Salt() (s [16]byte) {
	t.salts.Read(s[:])
	return s
}

// Send says something to a subject; to none it says nothing.
func (t *Turn) Send(subject string, m bus.Message) {
	if subject != "" {
		t.Out.Messages = append(t.Out.Messages, Message{subject, m})
	}
}

// Refusal is a Result that says why there is no answer to a task.
func (t *Turn) Refusal(m *bus.Task, code bus.Code, retry time.Duration, format string,
	args ...any) *bus.Result {
	return &bus.Result{Client: m.Client, Task: m.ID, Session: m.Session, Hub: t.Domain, Code: code,
		Message: bus.Clip(fmt.Sprintf(format, args...), bus.MaxText), RetryMS: retry.Milliseconds()}
}

// Fault reports something that should never happen.
func (t *Turn) Fault(err error) {
	t.Faults++
	t.Out.Faults = append(t.Out.Faults, err)
}

// Take returns what is to be done since it was last taken.
func (t *Turn) Take() Ready {
	out := t.Out
	t.Out = Ready{}
	return out
}

// Ready lists what a hub wants done, in this order. Nothing leaves before every frame of this Ready, and of
// those before it, is durable.
type Ready struct {
	Frames     []ledger.Frame // make durable first: an award nobody recorded never happened
	Dispatches []bus.Dispatch // then hand the tasks to their agents; each is answered by a DispatchReply
	// and say what follows from what is durable now: answers, acknowledgements, cancels
	Messages []Message
	Funds    []Funds        // ask the treasury; each is answered by a FundsReply with the same id
	Settle   ledger.Settled // and remember, if it is not AsItWas
	Status   *bus.Status    // nil if there is no news
	Faults   []error        // what should never happen, and did: log it loudly
	Wake     time.Time      // Tick then, if nothing arrives before; zero: no need
	Probes   []string       // suspect agents: ask whether anybody listens there, and Step an Absent if not
	Placed   []Placed       // beside Dispatches: whom each is for, and what there is to measure of it
	Rounds   int            // how many were cleared for this
	// what policies want engines to do: no agent can be told that, so a hub's process passes them by; the lab
	// has simulated engines do them, to see what they are worth
	Wishes []policy.Effect
}

// Message is a message for a subject.
type Message struct {
	Subject string
	Body    bus.Message
}

// Funds is a request to the treasury.
type Funds struct {
	Op      string
	Request bus.FundsRequest
}

// Placed says which agent a dispatch is for and when its task arrived. Free means that the task had to wait
// for nothing (there was a free slot, the money was there, and no task was ahead), so that all the time since
// was spent by the hub itself.
type Placed struct {
	Agent   string
	Arrived time.Time
	Free    bool
}

// Urgent reports whether this turn must be done at once. One that has frames, and beside them nothing but
// acknowledgements and status, can wait a little to share its sync with the next.
// A turn without frames needs no sync, so it never waits.
func (r *Ready) Urgent() bool {
	if len(r.Frames) == 0 || len(r.Dispatches) > 0 || len(r.Funds) > 0 || len(r.Probes) > 0 {
		return true
	}
	for _, l := range r.Messages {
		if _, ack := l.Body.(*bus.CompletionAck); !ack {
			return true
		}
	}
	return false
}

// Empty reports whether there is nothing to do but wait.
func (r *Ready) Empty() bool {
	return len(r.Frames) == 0 && len(r.Dispatches) == 0 && len(r.Messages) == 0 && len(r.Funds) == 0 &&
		len(r.Probes)+len(r.Wishes) == 0 && r.Status == nil && len(r.Faults) == 0 &&
		r.Settle == ledger.AsItWas
}
