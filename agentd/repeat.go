package agentd

import (
	"slices"
	"time"
)

// A reader that missed something asks for it again, in a message of fifty bytes, and an answer has up to a
// million. So repeats are bounded, for each answer and for the agent, and go out in pieces between which
// everything else has its turn: what was never heard comes first.
const (
	repeatEvery = 900 * time.Millisecond // between two repeats of one answer: readers ask once a second
	repeatPace  = 512 << 10              // bytes a second of one answer's repeats, beyond the first
	// bytes a second of all an agent's repeats; a second's may go at once
	repeatRate  = 4 << 20
	repeatPiece = 64 << 10 // bytes of one answer, before it is another's turn
	// bytes that any repeat counts as: the message is not all of the work
	repeatLeast = 256
	strangers   = 256 // a second, who ask for what is not kept and are told so
)

// again is what a reader asked for once more of an answer.
type again struct {
	asked bool // from want on, and that has not begun
	want  uint64

	sending bool // and this is what is left of it
	left    Piece
	begun   time.Time
	bytes   int

	least  time.Time // no repeat before
	inLine bool
}

// resends are the answers of an agent that readers asked for again, each once, in turn. One caller at a time.
type resends[S any] struct {
	line   []*Kept[S]
	budget bucket // bytes
	told   bucket // strangers
}

func newResends[S any]() resends[S] {
	return resends[S]{
		budget: bucket{each: time.Second / repeatRate, slack: time.Second},
		told:   bucket{each: time.Second / strangers, slack: time.Second},
	}
}

// Stranger reports whether somebody who asks for what is not kept here is told so, which is bounded.
func (r *resends[S]) Stranger(now time.Time) bool {
	if r.told.wait(now) > 0 {
		return false
	}
	r.told.take(now, 1)
	return true
}

// Again notes that a reader wants everything from a number on. Whoever asks again before that is sent is
// answered once, from the lowest number on.
func (r *resends[S]) Again(k *Kept[S], from uint64) {
	g := &k.again
	if g.asked {
		from = min(from, g.want)
	}
	g.asked, g.want = true, from
	if !g.inLine {
		g.inLine = true
		r.line = append(r.line, k)
	}
}

// Next returns the answer of which a piece is to be sent now, out of the line, to be followed by Sent; or
// nil, and when to look again: the zero time if there is nothing to do.
func (r *resends[S]) Next(now time.Time) (k *Kept[S], p Piece, wake time.Time) {
	if len(r.line) == 0 {
		return nil, p, time.Time{}
	}
	if wait := r.budget.wait(now); wait > 0 {
		return nil, p, now.Add(wait)
	}
	for i, k := range r.line {
		g := &k.again
		if !g.sending && g.least.After(now) {
			if wake.IsZero() || g.least.Before(wake) {
				wake = g.least
			}
			continue
		}
		r.line = slices.Delete(r.line, i, i+1)
		g.inLine = false
		if !g.sending {
			g.asked, g.sending, g.left, g.begun, g.bytes = false, true, Piece{from: g.want}, now, 0
		}
		return k, g.left, time.Time{}
	}
	return nil, p, wake
}

// Sent notes what a piece came to, and what is left; the answer is put at the end of the line if there is
// more.
func (r *resends[S]) Sent(now time.Time, k *Kept[S], left Piece, bytes int) {
	g := &k.again
	r.budget.take(now, max(bytes, repeatLeast))
	g.bytes += bytes
	g.sending, g.left = left.more, left
	if !g.sending {
		g.least = g.begun.Add(max(repeatEvery, time.Duration(g.bytes)*time.Second/repeatPace))
	}
	if (g.sending || g.asked) && !g.inLine {
		g.inLine = true
		r.line = append(r.line, k)
	}
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
