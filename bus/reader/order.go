package reader

import (
	"fmt"

	"souk/bus"
)

// order puts the chunks of one answer back in line: each number once, without gaps, the end frame last. It
// holds a bounded amount; what it cannot hold it lets go and counts as missing, to be asked for again.
type order struct {
	maxChunks, maxBytes int

	kept    kept
	attempt int
	next    uint64               // number of the next chunk to come out
	line    []bus.Chunk          // in order; those from first on are not read yet
	first   int                  // index in line
	bytes   int                  // of what is not read, and of ahead
	ahead   map[uint64]bus.Chunk // beyond a gap
	known   uint64               // chunks below this number exist, by the last that was heard
	end     *bus.Result
}

// unread is how many chunks wait in line.
func (o *order) unread() int { return len(o.line) - o.first }

// errSlow says that the reader let too much pile up.
func (o *order) errSlow() error {
	return &bus.Error{Code: bus.CodeSlowReader, Message: fmt.Sprintf(
		"%d chunks (%d bytes) wait unread; read the stream faster, or raise Buffer", o.unread(), o.bytes)}
}

// take puts a chunk in its place. The error is errSlow.
func (o *order) take(c *bus.Chunk) error {
	switch {
	case c.Attempt < o.attempt:
		return nil // from a server that was given up
	case c.Attempt > o.attempt: // another agent goes on
		o.move(c.Attempt)
	}
	switch {
	case c.Result != nil:
		if o.end == nil {
			o.end = c.Result
			o.known = max(o.known, c.Result.Chunks)
		}
		return nil
	case c.Heartbeat: // its agent's own count: a number that was said before and cannot be is forgotten
		o.known = max(o.next, c.Seq)
		for n, d := range o.ahead {
			if n >= o.known {
				o.bytes -= size(&d)
				delete(o.ahead, n)
			}
		}
		return nil
	case c.Seq < o.next, o.end != nil && c.Seq >= o.end.Chunks:
		return nil
	}
	o.known = max(o.known, c.Seq+1)
	if c.Seq > o.next {
		o.hold(c)
		return nil
	}
	if !o.room(c) {
		return o.errSlow()
	}
	o.bytes += size(c)
	o.deliver(c)
	for len(o.ahead) > 0 && (o.end == nil || o.next < o.end.Chunks) {
		d, ok := o.ahead[o.next]
		if !ok {
			break
		}
		delete(o.ahead, o.next)
		o.deliver(&d)
	}
	return nil
}

// hold keeps a chunk from beyond a gap, as long as the other half of the room is left for what fills the gap.
func (o *order) hold(c *bus.Chunk) {
	_, twice := o.ahead[c.Seq]
	if twice || !o.room(c) || len(o.ahead) >= o.maxChunks/2 || o.bytes+size(c) > o.maxBytes/2 {
		return
	}
	if o.ahead == nil {
		o.ahead = map[uint64]bus.Chunk{}
	}
	o.ahead[c.Seq] = *c
	o.bytes += size(c)
}

func (o *order) deliver(c *bus.Chunk) {
	o.line = append(o.line, *c)
	o.kept.add(c)
	o.next++
}

// move turns to a later attempt. It goes on where this one has come to without a gap: what came ahead of a
// gap is said again.
func (o *order) move(attempt int) {
	o.attempt, o.known, o.end = attempt, o.next, nil
	for n, d := range o.ahead {
		o.bytes -= size(&d)
		delete(o.ahead, n)
	}
}

func (o *order) room(c *bus.Chunk) bool {
	return o.unread()+len(o.ahead) < o.maxChunks && o.bytes+size(c) <= o.maxBytes
}

// pop takes the next chunk out of the line.
func (o *order) pop() (c bus.Chunk, ok bool) {
	if o.unread() == 0 {
		return c, false
	}
	c = o.line[o.first]
	o.line[o.first] = bus.Chunk{}
	o.bytes -= size(&c)
	switch o.first++; {
	case o.unread() == 0:
		o.line, o.first = o.line[:0], 0
	// of a reader that is never quite done: the room is used again
	case o.first >= 64 && o.first >= len(o.line)/2:
		n := copy(o.line, o.line[o.first:])
		clear(o.line[n:])
		o.line, o.first = o.line[:n], 0
	}
	return c, true
}

// drop lets everything go that nobody will read.
func (o *order) drop() {
	o.line, o.first, o.ahead, o.bytes = nil, 0, nil, 0
}

// gap reports whether chunks are missing that were sent.
func (o *order) gap() bool { return o.next < o.known }

// done reports whether everything has come, read or not.
func (o *order) done() bool { return o.end != nil && o.next >= o.end.Chunks }

func size(c *bus.Chunk) int {
	n := 64 + len(c.Text) + 4*len(c.Tokens)
	for i := range c.Extra {
		n += 16 + len(c.Extra[i].Choice)
	}
	return n
}
