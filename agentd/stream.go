package agentd

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"souk/bus"
)

// Stream is one answer on its way to its reader: its run, and the messages sent and kept. One caller at a
// time.
//
//	state     what it means                                 what its reader gets        what comes next
//	running   the engine works on it                        chunks and heartbeats       stopped, or it ends
//	stopped   its client or its hub ends it early           what the engine still says  it ends
//	withheld  it failed before anything was sent; its hub   heartbeats, if it asks      moved, ended
//	          decides whether another agent takes over
//	moved     another agent has taken over                  nothing                     dropped when old
//	ended     its end frame went out; all of it is kept     what it missed, if it asks  read, or dropped
//	read      its reader has acknowledged all of it         nothing                     dropped at once
type Stream struct {
	ID     StreamID // zero: nobody reads it
	Hold   string
	Domain string // whose hub handed it out
	Reply  string // where its reader hears us; empty: nobody reads it

	client, task string

	// Spooled is the shell's note: the completion was written to the spool when the answer ended.
	Spooled bool

	state    streamState
	Stopped  error // it was stopped
	attempt  int
	begun    time.Time
	run      *Run // nil once it has ended: prompts are large
	frames   frames
	lastSent time.Time
	withheld []byte // the end frame, while its hub decides

	bytes  int       // counted by Streams, once it has ended
	until  time.Time // it is kept so long
	resend resend
}

// Load gives the answer its task's body, which came in pieces.
func (s *Stream) Load(body []byte) {
	r := s.run
	r.d.Task.Body = body
	if r.watch != nil {
		r.watch.lag = lagOf(body)
	}
}

type streamState uint8

const (
	running streamState = iota
	stopped
	withheld
	moved
	ended
	read
)

// StreamID names an answer: who reads it, and what that reader calls it.
type StreamID struct{ Reader, Token string }

func names(reply string) bool {
	_, _, ok := bus.ReaderOf(reply)
	return ok
}

// NewStream is the answer to a dispatch that was accepted. It keeps at most so many bytes of what is sent.
func NewStream(now time.Time, d *bus.Dispatch, run *Run, keep int) *Stream {
	s := &Stream{Hold: d.Hold, Domain: d.Domain, client: d.Task.Client, task: d.Task.ID,
		attempt: d.Task.Attempt, run: run, frames: frames{base: run.first, most: keep},
		begun: now, lastSent: now}
	if reader, token, ok := bus.ReaderOf(d.Task.Reply); ok {
		s.ID, s.Reply = StreamID{reader, token}, bus.ReplySubject(reader, token, run.agent)
	}
	return s
}

// Unread returns the bytes sent that its reader has not acknowledged, of an answer that is all there at once;
// of any other 0.
func (s *Stream) Unread() int {
	if s.run == nil || !s.run.pools {
		return 0
	}
	return s.frames.bytes
}

// Dispatch returns the dispatch being served; nil once the answer has ended.
func (s *Stream) Dispatch() *bus.Dispatch {
	if s.run == nil {
		return nil
	}
	return s.run.d
}

// Began reports whether the engine has said anything.
func (s *Stream) Began() bool { return s.run == nil || s.run.began }

// stop ends an answer early; false if it was stopped before, or has ended.
func (s *Stream) stop(why error) bool {
	if s.state != running {
		return false
	}
	s.state, s.Stopped = stopped, why
	return true
}

// Cancel notes that the client has cancelled; false if the answer was stopped before, or has ended. The
// caller ends the engine's request after wait: so long the engine may take to say how long the prompt is,
// which is due.
func (s *Stream) Cancel(now time.Time) (wait time.Duration, ok bool) {
	if !s.stop(ErrCancelled) {
		return 0, false
	}
	if s.run.Cancel() {
		wait = max(0, s.begun.Add(time.Duration(s.run.d.FirstMS)*time.Millisecond).Sub(now))
	}
	return wait, true
}

// Withdraw lets the hub take the task back; false if something of the answer was sent, and it goes on. The
// caller then ends the engine's request.
func (s *Stream) Withdraw() bool {
	return s.run != nil && s.run.seq == s.run.first && s.stop(ErrWithdrawn)
}

// Late lets the hub take the task back because its first token is late; nil if the engine has said something
// of it, and it goes on. Else it is the reason with which the caller ends the engine's request: an engine
// that was heard of nothing since the task came is held to hang.
func (s *Stream) Late(now, heard time.Time) (why error) {
	why = ErrLate
	if !heard.After(s.begun) {
		why = &EngineError{Code: bus.CodeEngineFailed, Stalled: true,
			Message: fmt.Sprintf("the engine has said nothing at all for %v",
				now.Sub(s.begun).Round(time.Millisecond))}
	}
	if s.run == nil || s.run.began || !s.stop(why) {
		return nil
	}
	return why
}

// Take meters what the engine sent and returns the message for it, nil if there is none. With an error the
// answer ends, after that message.
func (s *Stream) Take(now time.Time, c Chunk, maxPayload int) ([]byte, error) {
	if s.state == stopped && !errors.Is(s.Stopped, ErrCancelled) {
		return nil, s.Stopped // the task is another agent's
	}
	s.run.now = now
	out, why := s.run.Take(c)
	if out == nil {
		return nil, why
	}
	data, err := s.encode(now, out, maxPayload)
	if err != nil {
		s.run.undo(out)
		return nil, err
	}
	return data, why
}

// encode makes the message of a numbered chunk and keeps it.
func (s *Stream) encode(now time.Time, c *bus.Chunk, maxPayload int) ([]byte, error) {
	data, err := bus.Encode(c)
	if err != nil {
		return nil, err
	}
	if len(data) > maxPayload {
		return nil, bus.ErrTooLarge
	}
	s.frames.keep(data)
	s.lastSent = now
	return data, nil
}

// Rest returns the message for what was kept back of an answer that ends now; nil if nothing was, or if its
// end frame is to carry it.
func (s *Stream) Rest(now time.Time, maxPayload int) ([]byte, error) {
	if s.run.carries() {
		return nil, nil
	}
	out := s.run.rest()
	if out == nil {
		return nil, nil
	}
	data, err := s.encode(now, out, maxPayload)
	if err != nil {
		s.run.undo(out)
	}
	return data, err
}

// End settles the run, after Rest, and returns the end frame; nil if that is withheld until [Stream.Decided].
// An answer that is longer than the bus takes, which Run could not know, becomes a failed one.
func (s *Stream) End(now time.Time, a Answer, why error, maxPayload int) (Ending, []byte, error) {
	d, tail := s.run.d, s.run.tail()
	e := s.run.End(a, why)
	if s.run.Withheld(&e) { // whoever takes over says all of it
		s.run.count -= tail.Count
		tail, e = Chunk{}, s.run.End(a, why)
	}
	last := bus.Chunk{Task: d.Task.ID, Attempt: d.Task.Attempt, Seq: e.Result.Chunks, Text: tail.Text,
		Tokens: tail.Tokens, Count: tail.Count, Extra: tail.Extra, Finish: tail.Finish, Result: &e.Result}
	data, err := s.encode(now, &last, maxPayload)
	if err != nil {
		s.run.count -= tail.Count
		e = s.run.End(a, errUnsayable)
		e.Result.Text, e.Result.Extra = "", nil
		last = bus.Chunk{Task: last.Task, Attempt: last.Attempt, Seq: last.Seq, Result: &e.Result}
		data, err = s.encode(now, &last, maxPayload)
	}
	s.state = ended
	if s.run.Withheld(&e) && err == nil {
		s.state, s.withheld, data = withheld, data, nil
		e.Completion.Unsaid = true // so the hub knows that it decides
		s.frames = frames{base: s.run.first, most: s.frames.most}
	}
	s.run = nil
	return e, data, err
}

// Decided says whether the hub of a withheld answer has moved the task to another agent. If it has not, the
// end frame is returned, to be sent after all.
func (s *Stream) Decided(now time.Time, toAnother bool) []byte {
	data := s.withheld
	s.withheld = nil
	switch {
	case s.state != withheld:
		return nil
	case toAnother:
		s.state = moved
		return nil
	}
	s.state = ended
	s.frames.keep(data)
	s.lastSent = now
	return data
}

// Heartbeat returns one if the reader has heard nothing for longer than quiet.
func (s *Stream) Heartbeat(now time.Time, quiet time.Duration) *bus.Chunk {
	if s.run == nil || s.Reply == "" || now.Sub(s.lastSent) <= quiet {
		return nil
	}
	s.lastSent = now
	return s.run.Heartbeat()
}

// next returns the messages to send again next, as they went out first, or one notice instead of them. Its
// first call for a request fixes where that request ends.
func (s *Stream) next(agent string) (messages [][]byte, notice *bus.Chunk) {
	r := &s.resend
	first := r.to == 0
	if first {
		r.to = s.frames.base + uint64(len(s.frames.data))
	} else { // what has gone meanwhile was read, or is asked for once more
		r.from = max(r.from, s.frames.base)
	}
	r.active = false
	kept, ok := s.frames.from(r.from)
	switch {
	case s.Reply == "", s.state == moved: // nobody reads it, or another agent speaks
		return nil, nil
	case s.state == withheld: // alive, and soon decided
		return nil, &bus.Chunk{Task: s.task, Attempt: s.attempt, Seq: s.frames.base, Heartbeat: true}
	case !ok:
		why := fmt.Sprintf("what was read of it before, up to chunk %d, is kept no more", s.frames.base)
		return nil, gone(agent, s.client, s.task, r.from, bus.CodeAnswerGone, why)
	case len(kept) == 0 && s.run != nil && first: // it missed nothing
		return nil, s.run.Heartbeat()
	}
	n, bytes := 0, 0
	for n < len(kept) && r.from < r.to && (n == 0 || bytes+len(kept[n]) <= resendPiece) {
		bytes += len(kept[n])
		n, r.from = n+1, r.from+1
	}
	r.active = n < len(kept) && r.from < r.to
	return slices.Clone(kept[:n]), nil // acknowledgements clear what they drop
}

// Unknown tells a reader that no such answer is kept here, so that it waits no longer. Of the task nothing is
// known but what its reader calls it.
func Unknown(agent string, id StreamID, from uint64) *bus.Chunk {
	return gone(agent, id.Reader, id.Token, from, bus.CodeUnknown, "no such answer is kept here")
}

// gone ends a reader's wait for what cannot be sent again.
func gone(agent, client, task string, from uint64, code bus.Code, why string) *bus.Chunk {
	r := &bus.Result{Client: client, Task: task, Agent: agent, Code: code, Message: why}
	return &bus.Chunk{Task: task, Seq: from, Result: r}
}
