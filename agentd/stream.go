package agentd

import (
	"fmt"
	"time"

	"souk/bus"
)

// Stream is one answer on its way to its reader: its run, and what of it was sent and is kept. One caller at
// a time, who also sends what a method returns before the next is called, so that numbers, heartbeats and
// repeated frames go out in order.
type Stream struct {
	ID    StreamID
	Hold  string
	Reply string // subject of its reader; empty: nobody reads it

	attempt int
	secret  uint64 // of its dispatch
	born    time.Time
	run     *Run // nil once it has ended: prompts are large
	frames  frames
	last    time.Time // when something was sent
	unsaid  []byte    // the end frame of a failed answer, until its hub says whether another agent takes over
	moved   bool      // one did: there is nothing to say here
}

// StreamID names an answer to those who read it.
type StreamID struct{ Client, Task string }

// NewStream is the answer to a dispatch that was accepted; of what is sent, so many bytes are kept at most.
func NewStream(now time.Time, d *bus.Dispatch, run *Run, keep int) Stream {
	return Stream{ID: StreamID{d.Task.Client, d.Task.ID}, Hold: d.Hold, Reply: d.Task.Reply,
		attempt: d.Task.Attempt, secret: d.Secret, run: run, frames: frames{base: run.first, most: keep}, born: now, last: now}
}

// Dispatch is what is being served; nil once the answer has ended.
func (s *Stream) Dispatch() *bus.Dispatch {
	if s.run == nil {
		return nil
	}
	return s.run.Dispatch()
}

// Bytes is the size of what is kept.
func (s *Stream) Bytes() int { return s.frames.bytes }

// Unheard reports whether it runs and nothing of it was sent.
func (s *Stream) Unheard() bool { return s.run != nil && s.run.seq == s.run.first }

// Recalled reports whether c is its hub's word that takes it back: nothing of it was sent, and c names the hold
// and the secret of the dispatch. A hub of an earlier version gives none.
func (s *Stream) Recalled(c *bus.StreamControl) bool {
	return c.Recall != "" && c.Recall == s.Hold && c.Secret == s.secret && s.Unheard()
}

// Unsaid reports whether its end waits for what the hub decides.
func (s *Stream) Unsaid() bool { return s.unsaid != nil }

// Quit says that the client has cancelled, and how long the engine may still take to say how long the prompt
// is: 0 ends the answer at once.
func (s *Stream) Quit(now time.Time) time.Duration {
	if s.run == nil || !s.run.Quit() {
		return 0
	}
	return max(0, s.born.Add(time.Duration(s.run.d.FirstMS)*time.Millisecond).Sub(now))
}

// Take meters what the engine sent and returns the message for it, nil if there is none.
func (s *Stream) Take(now time.Time, c Chunk, maxPayload int) ([]byte, error) {
	out, err := s.run.Take(c)
	if err != nil || out == nil {
		return nil, err
	}
	data, err := s.encode(now, out, maxPayload)
	if err != nil {
		s.run.undo(out)
	}
	return data, err
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
	s.last = now
	return data, nil
}

// End settles the run and returns the end frame, nil if that is withheld until [Stream.Decided]. An answer
// longer than the bus takes, which Run could not know, becomes a failed one.
func (s *Stream) End(now time.Time, a Answer, why error, maxPayload int) (Ending, []byte, error) {
	d := s.run.Dispatch()
	e := s.run.End(a, why)
	last := bus.Chunk{Task: d.Task.ID, Attempt: d.Task.Attempt, Seq: e.Result.Chunks, Result: &e.Result}
	data, err := s.encode(now, &last, maxPayload)
	if err != nil {
		e = s.run.End(a, errUnsayable)
		e.Result.Text, e.Result.Extra = "", nil
		data, err = s.encode(now, &last, maxPayload)
	}
	if s.run.Withheld(&e) && err == nil {
		s.unsaid, data = data, nil
		e.Completion.Unsaid = true
		s.frames = frames{base: s.run.first, most: s.frames.most}
	}
	s.run = nil
	return e, data, err
}

// Decided ends the silence of a withheld answer: its hub moved the task, or this is the last word after all,
// which is returned.
func (s *Stream) Decided(now time.Time, moved bool) []byte {
	data := s.unsaid
	if data == nil {
		return nil
	}
	s.unsaid, s.moved = nil, moved
	if moved {
		return nil
	}
	s.frames.keep(data)
	s.last = now
	return data
}

// Heartbeat returns one if the reader has heard nothing for so long.
func (s *Stream) Heartbeat(now time.Time, quiet time.Duration) *bus.Chunk {
	if s.run == nil || s.Reply == "" || now.Sub(s.last) <= quiet {
		return nil
	}
	s.last = now
	return s.run.Heartbeat()
}

// Acked lets go of what its reader has, everything below a number, and returns the size of what is still
// kept.
func (s *Stream) Acked(below uint64) (bytes int) {
	s.frames.acked(below)
	return s.frames.bytes
}

// Piece is a part of a repeat that is yet to be sent: messages from one number up to another.
type Piece struct {
	from, to uint64 // to 0: what there is when it begins
	more     bool   // of a piece that was sent: another follows it
}

// Piece is what is to be sent next of a repeat: messages as they went out first, or one word instead of them;
// and what is left of it.
func (s *Stream) Piece(agent string, p Piece) (frames [][]byte, word *bus.Chunk, left Piece) {
	first := p.to == 0
	left = Piece{from: p.from, to: p.to}
	if first {
		left.to = s.frames.base + uint64(len(s.frames.data))
	}
	from := p.from
	if !first { // what has gone meanwhile was read, or is asked for once more
		from = max(from, s.frames.base)
	}
	kept, ok := s.frames.from(from)
	switch {
	case s.Reply == "" || s.moved: // nobody reads it, or another agent speaks
		return nil, nil, left
	case s.unsaid != nil: // alive, and soon decided
		word := &bus.Chunk{Task: s.ID.Task, Attempt: s.attempt, Seq: s.frames.base, Heartbeat: true}
		return nil, word, left
	case !ok:
		why := fmt.Sprintf("chunks before %d are no longer kept", s.frames.base)
		return nil, gone(agent, s.ID, from, bus.CodeAnswerGone, why), left
	case len(kept) == 0 && s.run != nil: // nothing missed
		if !first {
			return nil, nil, left
		}
		return nil, s.run.Heartbeat(), left
	}
	n, bytes := 0, 0
	for n < len(kept) && from < left.to && (n == 0 || bytes+len(kept[n]) <= repeatPiece) {
		bytes += len(kept[n])
		n, from = n+1, from+1
	}
	left.from, left.more = from, n < len(kept) && from < left.to
	return kept[:n], nil, left
}

// Unknown tells a reader that no such answer is kept here, so that it waits no longer.
func Unknown(agent string, id StreamID, from uint64) *bus.Chunk {
	return gone(agent, id, from, bus.CodeUnknown, "no such answer is kept here")
}

// gone ends a reader's wait for what cannot be sent again.
func gone(agent string, id StreamID, from uint64, code bus.Code, why string) *bus.Chunk {
	r := &bus.Result{Client: id.Client, Task: id.Task, Agent: agent, Code: code, Message: why}
	return &bus.Chunk{Task: id.Task, Seq: from, Result: r}
}
