package reader

import (
	"fmt"

	"souk/bus"
)

// order puts the chunks of one answer in order: each number once, without gaps, the end frame last. It
// keeps a bounded amount. A chunk that it has no room for it drops and counts as missing, to be asked for
// again.
type order struct {
	maxChunks, maxBytes int

	kept    kept
	attempt int
	next    uint64               // number of the next chunk to come out
	queue   []bus.Chunk          // in order; those from first on are not read yet
	first   int                  // index in queue
	Unread  int                  // of what is not read, and of ahead
	ahead   map[uint64]bus.Chunk // beyond a gap
	known   uint64               // chunks below this number exist, by the last that was heard
	end     *bus.Result
	tail    bus.Chunk // what the end frame has beside that, until all before it has come; no task: nothing
	tailed  bool      // it was delivered last, as the chunk after those that the end counts
}

func (o *order) unread() int { return len(o.queue) - o.first }

// errSlow says that the reader let too much pile up.
func (o *order) errSlow() error {
	return &bus.Error{Code: bus.CodeSlowReader, Message: fmt.Sprintf(
		"%d chunks (%d bytes) wait unread; read the stream faster", o.unread(), o.Unread)}
}

// take puts a chunk in its place. The error is errSlow.
func (o *order) take(c *bus.Chunk) error {
	switch {
	case c.Attempt < o.attempt:
		return nil // from an agent that was given up
	case c.Attempt > o.attempt: // another agent goes on
		o.move(c.Attempt)
	}
	switch {
	case c.Result != nil && o.end == nil && c.Result.Chunks < o.next: // a hub says it, and has counted none
		o.endHere(*c.Result)
		return nil
	case c.Result != nil:
		if o.end == nil {
			return o.takeEnd(c)
		}
		return nil
	case c.Heartbeat: // the agent says how many there are, so chunks beyond that are none of its
		o.known = max(o.next, c.Seq)
		for n, d := range o.ahead {
			if n >= o.known {
				o.Unread -= size(&d)
				delete(o.ahead, n)
			}
		}
		return nil
	case c.Seq < o.next, o.end != nil && c.Seq >= o.end.Chunks:
		return nil
	}
	o.known = max(o.known, c.Seq+1)
	if c.Seq > o.next {
		o.keepAhead(c)
		return nil
	}
	if !o.room(c) {
		return o.errSlow()
	}
	o.Unread += size(c)
	o.deliver(c)
	for len(o.ahead) > 0 && (o.end == nil || o.next < o.end.Chunks) {
		d, ok := o.ahead[o.next]
		if !ok {
			break
		}
		delete(o.ahead, o.next)
		o.deliver(&d)
	}
	o.deliverTail()
	return nil
}

// takeEnd takes in the end frame. The error is errSlow.
func (o *order) takeEnd(c *bus.Chunk) error {
	if c.Text != "" || len(c.Tokens) > 0 || len(c.Extra) > 0 || c.Finish {
		if !o.room(c) {
			return o.errSlow()
		}
		o.tail = *c
		o.tail.Seq, o.tail.Result = c.Result.Chunks, nil
		o.Unread += size(c)
	}
	o.end, o.tailed = c.Result, false
	o.known = max(o.known, c.Result.Chunks)
	o.deliverTail()
	return nil
}

// deliverTail delivers what the end frame has, once all before it has come.
func (o *order) deliverTail() {
	if o.tail.Task != "" && o.next == o.end.Chunks {
		o.deliver(&o.tail)
		o.tail, o.tailed = bus.Chunk{}, true
	}
}

// dropTail forgets what the end frame has, if that was not delivered.
func (o *order) dropTail() {
	if o.tail.Task != "" {
		o.Unread -= size(&o.tail)
		o.tail = bus.Chunk{}
	}
}

// keepAhead keeps a chunk from beyond a gap. Half of the room stays free for what fills the gap.
func (o *order) keepAhead(c *bus.Chunk) {
	_, twice := o.ahead[c.Seq]
	if twice || !o.room(c) || len(o.ahead) >= o.maxChunks/2 || o.Unread+size(c) > o.maxBytes/2 {
		return
	}
	if o.ahead == nil {
		o.ahead = map[uint64]bus.Chunk{}
	}
	o.ahead[c.Seq] = *c
	o.Unread += size(c)
}

func (o *order) deliver(c *bus.Chunk) {
	o.queue = append(o.queue, *c)
	o.kept.add(c)
	o.next++
	o.tailed = false
}

// move turns to a later attempt. That continues from the first gap, so what came from beyond it is dropped.
func (o *order) move(attempt int) {
	o.dropTail()
	o.attempt, o.known, o.end = attempt, o.next, nil
	for n, d := range o.ahead {
		o.Unread -= size(&d)
		delete(o.ahead, n)
	}
}

func (o *order) room(c *bus.Chunk) bool {
	return o.unread()+len(o.ahead) < o.maxChunks && o.Unread+size(c) <= o.maxBytes
}

// pop takes the next chunk out of the queue.
func (o *order) pop() (c bus.Chunk, ok bool) {
	if o.unread() == 0 {
		return c, false
	}
	c = o.queue[o.first]
	o.queue[o.first] = bus.Chunk{}
	o.Unread -= size(&c)
	switch o.first++; {
	case o.unread() == 0:
		o.queue, o.first = o.queue[:0], 0
	// a reader that is always a little behind: use the room again
	case o.first >= 64 && o.first >= len(o.queue)/2:
		n := copy(o.queue, o.queue[o.first:])
		clear(o.queue[n:])
		o.queue, o.first = o.queue[:n], 0
	}
	return c, true
}

// drop lets everything go that nobody will read.
func (o *order) drop() {
	o.queue, o.first, o.ahead, o.Unread, o.tail = nil, 0, nil, 0, bus.Chunk{}
}

// gap reports whether chunks are missing that were sent.
func (o *order) gap() bool { return o.next < o.known }

// endHere makes r the end of the answer after the chunks that have come. Whoever says r does not know how
// many those are: its agent has lost its count, the hub has none, or later ones are lost.
func (o *order) endHere(r bus.Result) {
	o.dropTail()
	if r.Chunks = o.next; o.tailed {
		r.Chunks--
	}
	o.end = &r
}

// done reports whether everything has come, read or not.
func (o *order) done() bool { return o.end != nil && o.next >= o.end.Chunks && o.tail.Task == "" }

func size(c *bus.Chunk) int {
	n := 64 + len(c.Text) + 4*len(c.Tokens)
	for i := range c.Extra {
		n += 16 + len(c.Extra[i].Choice)
	}
	return n
}
