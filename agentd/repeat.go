package agentd

import (
	"fmt"
	"slices"
	"time"

	"souk/bus"
)

// A reader that missed something asks for it again, in a message of fifty bytes, and an answer has up to a
// million. So repeats are bounded, for each answer and for the agent, and go out in pieces between which
// everything else has its turn: what was never heard comes first.
const (
	repeatEvery = 900 * time.Millisecond // between two repeats of one answer: readers ask once a second
	repeatPace  = 512 << 10              // bytes a second of one answer's repeats, beyond the first
	repeatRate  = 4 << 20                // bytes a second of all an agent's repeats; a second's may go at once
	repeatPiece = 64 << 10               // bytes of one answer, before it is another's turn
	repeatLeast = 256                    // bytes that any repeat counts as: the message is not all of the work
	strangers   = 256                    // a second, who ask for what is not kept and are told so
)

// again is what a reader asked for once more of an answer.
type again struct {
	asked bool // from want on, and that has not begun
	want  uint64

	sending  bool // from next on, up to what there was when it began
	next, to uint64
	begun    time.Time
	bytes    int

	least  time.Time // no repeat before
	inLine bool
}

// resends are the answers of an agent that readers asked for again, each once, in turn. One caller at a time.
type resends struct {
	line   []*stream
	budget bucket // bytes
	told   bucket // strangers
}

func newResends() resends {
	return resends{
		budget: bucket{each: time.Second / repeatRate, slack: time.Second},
		told:   bucket{each: time.Second / strangers, slack: time.Second},
	}
}

// ask notes that a reader wants everything from a number on. Whoever asks again before that is sent is
// answered once, from the lowest number on.
func (r *resends) ask(s *stream, from uint64) {
	g := &s.again
	if g.asked {
		from = min(from, g.want)
	}
	g.asked, g.want = true, from
	if !g.inLine {
		g.inLine = true
		r.line = append(r.line, s)
	}
}

// next returns the stream of which a piece is to be sent now, out of the line; or nil, and when to look
// again: the zero time if there is nothing to do.
func (r *resends) next(now time.Time) (s *stream, wake time.Time) {
	if len(r.line) == 0 {
		return nil, time.Time{}
	}
	if wait := r.budget.wait(now); wait > 0 {
		return nil, now.Add(wait)
	}
	for i, s := range r.line {
		g := &s.again
		if !g.sending && g.least.After(now) {
			if wake.IsZero() || g.least.Before(wake) {
				wake = g.least
			}
			continue
		}
		r.line = slices.Delete(r.line, i, i+1)
		g.inLine = false
		return s, time.Time{}
	}
	return nil, wake
}

// sent notes what a piece came to, and puts the stream at the end of the line if there is more.
func (r *resends) sent(now time.Time, s *stream, bytes int) {
	g := &s.again
	r.budget.take(now, max(bytes, repeatLeast))
	g.bytes += bytes
	if !g.sending {
		g.least = g.begun.Add(max(repeatEvery, time.Duration(g.bytes)*time.Second/repeatPace))
	}
	if (g.sending || g.asked) && !g.inLine {
		g.inLine = true
		r.line = append(r.line, s)
	}
}

// begin turns what was asked for into a repeat. The stream's owner calls it, before piece.
func (g *again) begin(now time.Time) {
	if !g.sending {
		g.asked, g.sending, g.next, g.to, g.begun, g.bytes = false, true, g.want, 0, now, 0
	}
}

// piece is what is to be sent next of a repeat: messages as they went out first, or one word instead of them.
// Its holder has mu, and is the one who repeats.
func (s *stream) piece(agent string) (frames [][]byte, word *bus.Chunk) {
	g := &s.again
	first := g.to == 0
	if first {
		g.to = s.frames.base + uint64(len(s.frames.data))
	}
	from := g.next
	if !first { // what has gone meanwhile was read, or is asked for once more
		from = max(from, s.frames.base)
	}
	kept, ok := s.frames.from(from)
	g.sending = false
	switch {
	case s.reply == "" || s.moved: // nobody reads it, or another agent speaks
		return nil, nil
	case s.unsaid != nil: // alive, and soon decided
		return nil, &bus.Chunk{Task: s.id.task, Attempt: s.attempt, Seq: s.frames.base, Heartbeat: true}
	case !ok:
		why := fmt.Sprintf("chunks before %d are no longer kept", s.frames.base)
		return nil, gone(agent, s.id, from, bus.CodeAnswerGone, why)
	case len(kept) == 0 && s.run != nil: // nothing missed
		if !first {
			return nil, nil
		}
		return nil, s.run.Heartbeat()
	}
	n, bytes := 0, 0
	for n < len(kept) && from < g.to && (n == 0 || bytes+len(kept[n]) <= repeatPiece) {
		bytes += len(kept[n])
		n, from = n+1, from+1
	}
	g.next, g.sending = from, n < len(kept) && from < g.to
	return kept[:n], nil
}

// gone ends a reader's wait for what cannot be sent again.
func gone(agent string, id streamID, from uint64, code bus.Code, why string) *bus.Chunk {
	r := &bus.Result{Client: id.client, Task: id.task, Agent: agent, Code: code, Message: why}
	return &bus.Chunk{Task: id.task, Seq: from, Result: r}
}

// bucket lets through one every so often, and as many at once as slack makes up for. What is taken beyond
// what there was is waited for afterwards.
type bucket struct {
	each, slack time.Duration
	full        time.Time // when all that was taken is made up for
}

// wait is how long until something may be taken.
func (b *bucket) wait(now time.Time) time.Duration { return max(0, b.left(now)-b.slack) }

func (b *bucket) take(now time.Time, n int) {
	b.full = now.Add(b.left(now) + time.Duration(n)*b.each)
}

// left is how long until all that was taken is made up for.
func (b *bucket) left(now time.Time) time.Duration {
	if !b.full.After(now) {
		return 0
	}
	return b.full.Sub(now)
}
