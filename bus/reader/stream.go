// Package reader is the machine of whoever reads an answer. It puts the chunks in order, asks again for
// what is missing, tells silence from an outage, and has another agent continue the answer. It does no I/O
// and reads no clock; bus/client runs it for a Go program, and the door for answers that it collects.
package reader

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"souk/bus"
)

// Config says how much a Stream keeps and how long it waits.
type Config struct {
	MaxChunks int           // unread chunks; a reader that is further behind loses the answer
	MaxBytes  int           // likewise, in bytes
	AckEvery  uint64        // chunks read between two acknowledgements, which let the agent forget them
	Quiet     time.Duration // an agent that was not heard for so long is asked for a sign of life
	Silence   time.Duration // one that was not heard for so long has failed
	// a Tick that comes so late shows that the reader was asleep, and could not hear
	Doze        time.Duration
	ResumeEvery time.Duration // between two requests for missing chunks
	ResumeWait  time.Duration // longest wait for one missing chunk
	MaxOutage   time.Duration // longest loss of the bus that is waited through
	MaxAbsence  time.Duration // longest absence of the hub that is to find another agent
	MaxAnswer   time.Duration // longest answer, from acceptance to its end; 0: as long as it takes
	// chunks whose sender nobody names wait so long until the market is asked again; 0: it is asked once
	AskAgain time.Duration
}

// Stream reads one answer. Its methods are to be called one at a time. Each Step and Tick is followed by
// Ready; a Next that returns the last chunk, or none, too.
//
// Of what happens, Hear takes the chunks that come on the task's reply subject, and Step the events below.
type Stream struct {
	c           Config
	task, token string // ids
	out         Ready
	order
	waiting waiting

	verdict  verdict
	Accepted bus.Accepted // who serves it, as far as is known
	serving  string       // the agent that is heard; "" until one is named
	begun    time.Time    // when it was accepted
	Err      error        // what ended the answer without its end frame
	left     bool         // the reader has read the end, or wants no more of it

	cancelled   bool
	read, acked uint64 // chunks
	taken       int    // bytes of text since the last acknowledgement

	hearing  hearing
	failover failover
	again    again
}

// verdict is the market's answer to the task so far.
type verdict uint8

const (
	none     verdict = iota // not yet: nothing can be asked of the agent, for nobody has named it
	accepted                // an agent has it
	refused                 // nobody will say who has it
)

// Verdict is the market's answer to a task that Ready.Submit gave it: the agent that accepted it, or why none
// has. Exactly one is due for the last task given; none is due for earlier ones.
type Verdict struct {
	Answer *bus.Answer // nil: none came
	Err    error       // and why, as the bus says it
}

// Bus says since when the bus is there, or, at zero, that it is away. It is due before each Tick.
type Bus struct{ Since time.Time }

// Cancel asks for the answer's end. What was served until then is paid; the end frame still comes.
type Cancel struct{}

// Leave cancels the answer, of which the reader wants no more: it ends with Err, unless all of it has come.
type Leave struct{ Err error }

// Ready lists what a Stream wants done, in this order.
type Ready struct {
	CancelTask bool      // tell the market that the task is cancelled, so that no agent gets it now
	Controls   []Control // tell agents
	Submit     *bus.Task // give this to the market, and Step its Verdict
	Wake       time.Time // Tick then, if nothing happens before; zero: no need
}

// Control goes to an agent. If lost on the way, it is repeated, or a time limit takes its place.
type Control struct {
	Agent string
	Now   bool // an acknowledgement that its agent waits for
	bus.StreamControl
}

// New begins to read the answer to a task, which the first Ready gives to the market. The task is not
// changed.
func New(c Config, t *bus.Task, now time.Time) *Stream {
	s := &Stream{c: c, task: t.ID, token: cmp.Or(t.Token, t.ID),
		order: order{maxChunks: c.MaxChunks, maxBytes: c.MaxBytes}}
	s.kept.off, s.kept.anew = t.Failover == "off", bus.Pooling(t.Kind)
	s.failover.task, s.out.Submit = t, t
	s.hearing.heard, s.hearing.bus = now, now
	s.again = again{task: t, asked: now, first: now.Add(-time.Duration(t.AgeMS) * time.Millisecond)}
	s.plan(now)
	return s
}

// Hear takes in a chunk from the answer's reply subject. Only two senders count: the agent that the market or
// the hub has named; and the hub, which says who serves now, and how the task ended. The chunk is the
// caller's again when Hear returns; the memory that it refers to is the Stream's.
func (s *Stream) Hear(now time.Time, from string, c *bus.Chunk) {
	s.hearing.noticeSleep(now, s.c.Doze)
	s.hear(now, from, c)
	s.plan(now)
}

// Step takes an event in.
func (s *Stream) Step(now time.Time, event any) {
	s.hearing.noticeSleep(now, s.c.Doze)
	switch e := event.(type) {
	case Verdict:
		if s.failover.open() {
			s.failoverVerdict(now, e)
		} else {
			s.said(now, e)
		}
	case Bus:
		s.hearing.bus = e.Since
	case Cancel:
		s.cancel(now)
		if !s.again.retry.IsZero() && s.verdict == none && !s.over() {
			s.giveUpAsking(errors.New("it is cancelled")) // no verdict is on its way
		}
	case Leave:
		s.cancel(now)
		if !s.over() {
			s.Err, s.left = e.Err, true
			s.drop()
			s.waiting = waiting{}
			s.failover.task, s.kept = nil, kept{off: true} // nobody continues it
		}
	default:
		panic(fmt.Sprintf("reader: %T is no event", event))
	}
	s.plan(now)
}

// Tick lets time pass.
func (s *Stream) Tick(now time.Time) {
	s.hearing.noticeSleep(now, s.c.Doze)
	if !s.over() {
		s.checkSilence(now)
	}
	s.plan(now)
}

// Ready returns what is to be done now, once.
func (s *Stream) Ready() Ready {
	out := s.out
	s.out = Ready{Wake: out.Wake}
	return out
}

// Next takes the next chunk, in order and once.
func (s *Stream) Next() (c bus.Chunk, ok bool) {
	if c, ok = s.pop(); ok {
		s.read++
		if s.taken += len(c.Text); s.read-s.acked >= s.c.AckEvery || s.taken >= bus.AckBytes {
			s.ack()
		}
		return c, true
	}
	if !s.left && s.over() {
		s.left, s.out.Wake = true, time.Time{}
		if s.Err == nil {
			s.ack()
		}
		s.drop()
		s.failover.task, s.again.task, s.kept, s.waiting = nil, nil, kept{off: true}, waiting{}
	}
	return c, false
}

// Size estimates the memory of what is kept of the answer, in bytes.
func (s *Stream) Size() int {
	k := &s.kept
	return s.Unread + cap(s.queue)*chunkCost + s.waiting.bytes +
		cap(k.text) + cap(k.thought) + 4*cap(k.tokens) + callCost*cap(k.calls)
}

// What takes place beside its bytes: a chunk in the queue, and the id of a tool call.
const (
	chunkCost = 160
	callCost  = 64
)

// Waits reports whether nothing is known yet: the market has not given its first verdict.
func (s *Stream) Waits() bool { return s.verdict == none && !s.over() }

// Taken reports whether the market has said that an agent has the task.
func (s *Stream) Taken() bool { return s.verdict == accepted }

// Over reports whether all was read that ever will be. Then Err or Result says how the answer ended.
func (s *Stream) Over() bool { return s.unread() == 0 && s.over() }

// Finished reports whether no chunk is of any use any more: the end was read, or the answer has ended
// without one.
func (s *Stream) Finished() bool { return s.left || s.Err != nil }

// Result returns the task's result, once it has come.
func (s *Stream) Result() *bus.Result {
	if s.Err != nil {
		return nil
	}
	return s.end
}

// over reports whether nothing more will come.
func (s *Stream) over() bool { return s.Err != nil || s.done() }

// fail ends the answer here, and tells whoever may still serve it to stop.
func (s *Stream) fail(now time.Time, code bus.Code, format string, args ...any) {
	s.cancel(now)
	if s.Err == nil {
		s.Err = &bus.Error{Code: code, Message: fmt.Sprintf(format, args...)}
	}
}

// concerns reports whether a chunk is of this answer. One of an earlier attempt is of an agent that was
// given up.
func (s *Stream) concerns(c *bus.Chunk) bool { return c.Attempt >= s.attempt }

func (s *Stream) hear(now time.Time, from string, c *bus.Chunk) {
	if s.over() || !s.concerns(c) || from == "" {
		return
	}
	named := ""
	if from != s.serving {
		if from != s.Accepted.Hub || !c.Heartbeat && !c.Dead && c.Result == nil {
			s.waiting.keep(from, c)
			s.again.notice(now, c)
			return
		}
		if c.Dead {
			s.died(now, c)
			return
		}
		if named = s.hubSaid(c); c.Result != nil { // what was answered it does not know
			c = &bus.Chunk{Task: c.Task, Attempt: c.Attempt, Seq: c.Seq, Result: c.Result}
		}
	}
	s.hearing.heard = now
	if err := s.take(c); err != nil {
		s.cancel(now)
		s.Err = err
	}
	if s.brokeOff() {
		s.failOver(now)
	}
	s.fillGap(now)
	if named != "" {
		s.name(now, named)
	}
}

// hubSaid takes in a chunk of the hub, and returns the agent that it names, "" if that is nothing new.
func (s *Stream) hubSaid(c *bus.Chunk) (named string) {
	f, moved := &s.failover, c.Attempt > s.attempt
	if moved {
		s.serving = "" // whoever had it has it no longer
	}
	switch {
	case c.Heartbeat && c.Agent != "" && c.Agent != f.from:
		named, f.joined = c.Agent, f.joined || f.open()
		s.Accepted.Agent = named
		if s.cancelled && moved { // it went to one that had failed
			s.control(bus.StreamControl{Cancel: true})
		}
	case c.Attempt > 0 && c.Result != nil && c.Result.Agent != "":
		s.Accepted.Agent = c.Result.Agent // perhaps before the market has said so
	}
	return named
}

// name accepts an agent's chunks from now on, and first those that wait of it and of the hub.
func (s *Stream) name(now time.Time, agent string) {
	s.serving = agent
	for _, who := range []string{s.Accepted.Hub, agent} {
		for _, c := range s.waiting.take(who) {
			s.hear(now, who, &c)
		}
	}
	if s.waiting.lost && s.verdict == accepted && !s.over() {
		s.waiting.lost = false
		s.askResend(now)
	}
}

// said handles the market's first verdict.
func (s *Stream) said(now time.Time, v Verdict) {
	a, err := v.accepted(s.task)
	if err != nil && s.unanswered(now, v, err) {
		return
	}
	if err != nil {
		s.verdict = refused
		// it may be served all the same, unless it says what became of its hold
		if v.Answer != nil && v.Answer.Result != nil &&
			(!settles(v) || v.Answer.Result.Code == bus.CodeAnswerGone) {
			s.Accepted.Hub, s.Accepted.Agent = v.Answer.Result.Hub, v.Answer.Result.Agent
			s.name(now, s.Accepted.Agent)
		}
		switch {
		case s.next > 0 || s.end != nil || s.Err != nil: // the answer has begun all the same
		case v.Answer != nil && v.Answer.Result != nil:
			s.endHere(*v.Answer.Result)
		default:
			s.Err = err
		}
		return
	}
	s.verdict, s.Accepted, s.begun, s.hearing.heard = accepted, a, now, now
	if a.Attempt > s.attempt {
		s.move(a.Attempt)
	}
	if s.cancelled { // before this verdict came
		s.control(bus.StreamControl{Cancel: true})
	}
	s.name(now, a.Agent)
	s.fillGap(now)
}

// cancel tells whoever has the task, once.
func (s *Stream) cancel(now time.Time) {
	if s.cancelled || s.over() {
		return
	}
	s.cancelled = true
	switch {
	case s.end != nil: // it has ended; only chunks are missing
	case s.verdict != accepted:
		s.out.CancelTask = true
	default:
		s.out.CancelTask = s.failover.open()
		s.control(bus.StreamControl{Cancel: true})
	}
	if s.failover.state == retrying && !s.failover.ends {
		s.endFailover(now, Verdict{}, bus.Accepted{}, errors.New("it is cancelled"))
	}
}

// ack lets the agent forget what was read; with the end read, all of it.
func (s *Stream) ack() {
	if s.verdict != accepted {
		return // nobody has said yet to whom
	}
	now := s.taken >= bus.AckBytes
	s.acked, s.taken = s.read, 0
	n := s.next - uint64(s.unread())
	if s.left {
		n = s.end.Chunks + 1
	}
	s.control(bus.StreamControl{Ack: &n})
	s.out.Controls[len(s.out.Controls)-1].Now = now
}

func (s *Stream) control(c bus.StreamControl) {
	c.Token = s.token
	s.out.Controls = append(s.out.Controls, Control{Agent: s.Accepted.Agent, StreamControl: c})
}
