package agentd

import (
	"slices"
	"time"

	"souk/bus"
)

// A reader that missed something asks for it again, in a message of fifty bytes, and an answer has up to a
// million. So resending is bounded, for each answer and for the agent. It goes out in pieces, and between two
// of them everything else has its turn: what was never heard comes first.
const (
	resendEvery = 900 * time.Millisecond // between two resends of one answer: readers ask once a second
	resendPace  = 512 << 10              // bytes a second of one answer, beyond its first resend
	resendRate  = 4 << 20                // bytes a second of the whole agent; a second's may go at once
	resendPiece = 64 << 10               // bytes of one answer, before it is another's turn
	resendLeast = 256                    // bytes that any piece counts as: the message is not all of the work
	strangers   = 256                    // a second, who ask for what is not kept and are told so
)

// resendAll bounds the bytes that the whole agent sends again.
var resendAll = bus.Rate{Each: resendRate, Burst: resendRate}

// resend tracks a reader's request for messages of one answer to be sent again.
type resend struct {
	asked  bool // for everything from number want on, and that has not begun
	want   uint64
	queued bool
	least  time.Time // it does not begin before

	active   bool   // it has begun, and messages from one number up to another are left
	from, to uint64 // to 0: up to the newest, when it begins
	begun    time.Time
	bytes    int // sent since
}

// resends are the answers of an agent whose readers missed something, each once, in turn.
type resends struct {
	queue  []*Stream
	budget bus.Bucket // bytes
	told   bus.Bucket // strangers
}

// Stranger reports whether somebody who asks for what is not kept here is told so, which is bounded.
func (r *resends) Stranger(now time.Time) bool {
	_, ok := r.told.Take(now, bus.Rate{Each: strangers, Burst: strangers}, 1, 0)
	return ok
}

// Resend notes that a reader wants everything from a number on. A reader that asks again before that is sent
// is answered once, from the lowest number on.
func (r *resends) Resend(s *Stream, from uint64) {
	g := &s.resend
	if g.asked {
		from = min(from, g.want)
	}
	g.asked, g.want = true, from
	r.enqueue(s)
}

func (r *resends) enqueue(s *Stream) {
	if !s.resend.queued {
		s.resend.queued = true
		r.queue = append(r.queue, s)
	}
}

// Piece holds the messages of one answer to send again now.
type Piece struct {
	Stream   *Stream
	Messages [][]byte   // as they went out first
	Notice   *bus.Chunk // or this instead
}

// Next returns the piece that is due; if none is, a nil Stream and when to look again: the zero time if there
// is nothing to do.
func (r *resends) Next(now time.Time, agent string) (p Piece, wake time.Time) {
	if len(r.queue) == 0 {
		return p, time.Time{}
	}
	if wait, _ := r.budget.Take(now, resendAll, 0, 0); wait > 0 {
		return p, now.Add(wait)
	}
	for i, s := range r.queue {
		g := &s.resend
		if !g.active && g.least.After(now) {
			wake = bus.Sooner(wake, g.least)
			continue
		}
		r.queue = slices.Delete(r.queue, i, i+1)
		g.queued = false
		return r.piece(now, s, agent), time.Time{}
	}
	return p, wake
}

// piece takes the next piece of an answer and counts it. The answer goes to the end of the queue if more of
// it is left.
func (r *resends) piece(now time.Time, s *Stream, agent string) Piece {
	g, p, bytes := &s.resend, Piece{Stream: s}, 0
	if !g.active {
		g.asked, g.from, g.to, g.begun, g.bytes = false, g.want, 0, now, 0
	}
	p.Messages, p.Notice = s.next(agent)
	for _, m := range p.Messages {
		bytes += len(m)
	}
	r.budget.Take(now, resendAll, float64(max(bytes, resendLeast)), bus.Forever)
	g.bytes += bytes
	if !g.active {
		g.least = g.begun.Add(max(resendEvery, time.Duration(g.bytes)*time.Second/resendPace))
	}
	if g.active || g.asked {
		r.enqueue(s)
	}
	return p
}
