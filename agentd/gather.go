package agentd

import (
	"time"

	"souk/bus"
)

// What is gathered of an answer at most, in bytes, and for how long: an agent that dies takes it along.
const (
	gatherMost = 4 << 10
	gatherFor  = 200 * time.Millisecond
)

// gathered holds chunks until they are sent, where the reader wants the whole answer at once. Such a reader
// gains nothing by a message for each token, and each message costs the agent, the bus and the reader.
type gathered struct {
	since time.Time // when the first of it came; zero: nothing waits
	chunk Chunk
	bytes int // of it
}

// takes reports whether a chunk can join what waits. One with token ids and one without do not: a reader that
// has another agent go on has to know whether it has them all.
func (g *gathered) takes(now time.Time, c *Chunk) bool {
	return g.since.IsZero() || now.Sub(g.since) < gatherFor && g.bytes+c.bytes() <= gatherMost &&
		(len(g.chunk.Tokens) > 0) == (len(c.Tokens) > 0)
}

// bytes estimates the size of a chunk in a message.
func (c *Chunk) bytes() int {
	n := len(c.Text)
	for i := range c.Extra {
		n += len(c.Extra[i].Choice) + 16
	}
	return n
}

// gathers reports whether the next chunk is to wait. The first chunk goes out at once: from then on failover
// is up to the reader, no longer to the hub. Where the end frame can carry text the first waits too, and a
// short answer is one message.
func (r *Run) gathers() bool {
	t := &r.d.Task
	return t.Whole && (t.Tail || r.seq > r.first)
}

// carries reports whether the end frame is to carry what waits.
func (r *Run) carries() bool {
	t := &r.d.Task
	return t.Whole && t.Tail && r.gathered.bytes <= gatherMost
}

// tail takes what the end frame is to carry; an empty chunk if that is nothing.
func (r *Run) tail() (c Chunk) {
	if r.carries() {
		c, r.gathered = r.gathered.chunk, gathered{}
	}
	return c
}

// gather has a chunk wait, and returns what waited before if that is to go out now.
func (r *Run) gather(c *Chunk) (out *bus.Chunk) {
	g := &r.gathered
	if !g.takes(r.now, c) {
		out = r.rest()
	}
	if g.since.IsZero() {
		g.since = r.now
	}
	join(&g.chunk, c)
	g.bytes += c.bytes()
	return out
}

// rest takes what waits; nil if nothing does.
func (r *Run) rest() *bus.Chunk {
	g := r.gathered
	if g.since.IsZero() {
		return nil
	}
	r.gathered = gathered{}
	return r.number(&g.chunk)
}
