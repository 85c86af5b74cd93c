package agentd

import "time"

// Streams holds an agent's answers: those that run, and those that have ended and are kept for readers that
// missed something, until these have them, or they are old or too many. One caller at a time.
type Streams struct {
	byID   map[StreamID]*Stream
	byHold map[string]*Stream // withheld
	ended  []*Stream          // oldest first
	bytes  int                // of these
	most   int

	// Running holds the streams that have not ended; also an earlier attempt, which its id no longer finds.
	Running map[*Stream]bool

	resends
}

// NewStreams keeps so many bytes of ended answers at most.
func NewStreams(most int) Streams {
	return Streams{byID: map[StreamID]*Stream{}, byHold: map[string]*Stream{}, most: most,
		Running: map[*Stream]bool{}}
}

// Add takes in an answer that begins. An earlier attempt at the same task is no longer found by its id.
func (h *Streams) Add(s *Stream) {
	if h.Running[s] = true; s.Reply != "" {
		h.byID[s.ID] = s
	}
}

// Find returns an answer by its id, nil if none is kept.
func (h *Streams) Find(id StreamID) *Stream { return h.byID[id] }

// OfHold returns an answer that runs for a domain's hub, nil if there is none.
func (h *Streams) OfHold(domain, hold string) *Stream {
	for s := range h.Running {
		if s.Hold == hold && s.Domain == domain {
			return s
		}
	}
	return nil
}

// Ended keeps an answer that has ended for so long.
func (h *Streams) Ended(now time.Time, s *Stream, keep time.Duration) {
	delete(h.Running, s)
	s.bytes, s.until = s.frames.bytes, now.Add(keep)
	if s.state == withheld {
		h.byHold[s.Hold] = s
	}
	h.bytes += s.bytes
	h.ended = append(h.ended, s)
	h.Sweep(now)
}

// Withheld returns the answer of a hold whose hub has decided, once.
func (h *Streams) Withheld(hold string) *Stream {
	s := h.byHold[hold]
	delete(h.byHold, hold)
	return s
}

// Sweep drops ended answers, oldest first.
func (h *Streams) Sweep(now time.Time) {
	n := 0
	for _, s := range h.ended {
		if s.state != read && !now.After(s.until) && h.bytes <= h.most {
			break
		}
		h.bytes -= s.bytes
		h.forget(s)
		delete(h.byHold, s.Hold)
		n++
	}
	clear(h.ended[:n])
	h.ended = h.ended[n:]
}

func (h *Streams) forget(s *Stream) {
	if h.byID[s.ID] == s {
		delete(h.byID, s.ID)
	}
}

// Acked says that the reader has everything below a number. It reports whether that was the rest of an
// answer that has ended, which is forgotten then.
func (h *Streams) Acked(s *Stream, below uint64) (done bool) {
	s.frames.acked(below)
	if h.Running[s] || s.state != ended {
		return false
	}
	h.bytes += s.frames.bytes - s.bytes
	if s.bytes = s.frames.bytes; s.bytes > 0 {
		return false
	}
	s.state = read
	h.forget(s)
	return true
}

// Size returns the number of ended answers that are kept, and their bytes.
func (h *Streams) Size() (ended, bytes int) { return len(h.ended), h.bytes }
