package agentd

import (
	"context"
	"sync"
	"time"

	"souk/bus"
)

// stream is one answer on its way to its reader. Its holder takes mu around every method and the sending of what
// that returns, so that numbers, heartbeats and repeated frames go out in order.
type stream struct {
	id       streamID
	attempt  int
	hold     string
	reply    string
	era      int64 // of the bus when it began
	born     time.Time
	quit     *time.Timer             // ends it after a cancel if the engine says nothing
	cancel   context.CancelCauseFunc // guarded by the shelf's owner, as is over
	over     bool                    // cancelled, recalled or ended
	recalled bool                    // by its hub
	again    again                   // what its reader asked for once more

	mu      sync.Mutex
	run     *Run // nil once it has ended: prompts are large
	frames  frames
	last    time.Time // when something was sent
	until   time.Time // of an ended answer: kept until then
	shelved bool      // its bytes are counted by the shelf
	acked   bool      // and all of it was read
	unsaid  []byte    // the end frame of a failed answer, until its hub says whether another agent takes over
	moved   bool      // one did: there is nothing to say here
}

type streamID struct{ client, task string }

func newStream(now time.Time, d *bus.Dispatch, run *Run, keep int) *stream {
	return &stream{id: streamID{d.Task.Client, d.Task.ID}, attempt: d.Task.Attempt, hold: d.Hold, reply: d.Task.Reply,
		run: run, frames: frames{base: run.first, most: keep}, born: now, last: now}
}

// unheard reports whether it runs and nothing of it was sent. It takes mu itself.
func (s *stream) unheard() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.run != nil && s.run.seq == s.run.first
}

// quits says that the client has cancelled, and how long the engine may still take to say how long the
// prompt is: 0 ends the answer at once. It takes mu itself.
func (s *stream) quits(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run == nil || !s.run.Quit() {
		return 0
	}
	return max(0, s.born.Add(time.Duration(s.run.d.FirstMS)*time.Millisecond).Sub(now))
}

// take meters what the engine sent and returns the message for it, nil if there is none.
func (s *stream) take(now time.Time, c Chunk, maxPayload int) ([]byte, error) {
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
func (s *stream) encode(now time.Time, c *bus.Chunk, maxPayload int) ([]byte, error) {
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

// end settles the run and returns the end frame. An answer longer than the bus takes, which Run could not know,
// becomes a failed one.
func (s *stream) end(now time.Time, a Answer, why error, maxPayload int, keep time.Duration) (Ending, []byte, error) {
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
	s.run, s.until = nil, now.Add(keep)
	return e, data, err
}

// decided ends the silence of a withheld answer: its hub moved the task, or this is the last word after all, which is
// returned.
func (s *stream) decided(now time.Time, moved bool) []byte {
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

// heartbeat returns one if the reader has heard nothing for so long.
func (s *stream) heartbeat(now time.Time, quiet time.Duration) *bus.Chunk {
	if s.run == nil || s.reply == "" || now.Sub(s.last) <= quiet {
		return nil
	}
	s.last = now
	return s.run.Heartbeat()
}

// shelf holds an agent's answers: those that run, and those that have ended and are kept for readers that missed
// something, until these have them, or they are old or too many. One caller at a time; it locks the streams itself.
type shelf struct {
	byID   map[streamID]*stream
	live   map[*stream]bool
	byHold map[string]*stream // ended, and not yet told how
	ended  []*stream          // oldest first
	bytes  int                // of these
	most   int

	resends resends
}

func newShelf(most int) shelf {
	return shelf{
		byID: map[streamID]*stream{}, live: map[*stream]bool{}, byHold: map[string]*stream{}, most: most,
		resends: newResends(),
	}
}

// add takes in an answer that begins. An earlier attempt at the same task loses its name.
func (h *shelf) add(s *stream) { h.byID[s.id], h.live[s] = s, true }

// put says that an answer has ended.
func (h *shelf) put(now time.Time, s *stream) {
	delete(h.live, s)
	s.over, s.cancel = true, nil
	if s.quit != nil {
		s.quit.Stop()
	}
	s.mu.Lock()
	s.shelved = true
	h.bytes += s.frames.bytes
	s.mu.Unlock()
	h.ended = append(h.ended, s)
	h.sweep(now)
}

// sweep drops ended answers, oldest first.
func (h *shelf) sweep(now time.Time) {
	gone := 0
	for _, s := range h.ended {
		s.mu.Lock()
		drop := s.acked || now.After(s.until) || h.bytes > h.most
		bytes := s.frames.bytes
		s.mu.Unlock()
		if !drop {
			break
		}
		h.bytes -= bytes
		h.forget(s)
		delete(h.byHold, s.hold)
		gone++
	}
	clear(h.ended[:gone])
	h.ended = h.ended[gone:]
}

func (h *shelf) forget(s *stream) {
	if h.byID[s.id] == s {
		delete(h.byID, s.id)
	}
}

// acked lets go of what a reader has: everything below a number.
func (h *shelf) acked(s *stream, below uint64) {
	s.mu.Lock()
	before := s.frames.bytes
	s.frames.acked(below)
	if s.shelved {
		h.bytes -= before - s.frames.bytes
		s.acked = len(s.frames.data) == 0
	}
	done := s.acked
	s.mu.Unlock()
	if done {
		h.forget(s)
	}
}

// running lists the answers that have not ended, in no particular order.
func (h *shelf) running() []*stream {
	if len(h.live) == 0 {
		return nil
	}
	out := make([]*stream, 0, len(h.live))
	for s := range h.live {
		out = append(out, s)
	}
	return out
}
