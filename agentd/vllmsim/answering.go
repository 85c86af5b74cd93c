package vllmsim

import (
	"net/http"
	"sync"
)

// answering sends one answer.
type answering struct {
	s       *Server
	w       http.ResponseWriter
	r       *http.Request
	choices []*sequence
	reply   *reply
	cursors []cursor
	views   []view
	fault   Fault
}

// cursor counts the events of a choice that have been sent.
type cursor struct {
	events int
	last   event // of these
	done   bool
}

// view is a copy of a sequence's fields that may be read outside the lock: its slices only ever grow.
type view struct {
	text   []byte // that may be seen
	tokens []uint32
	events []event
	reason string
	ended  bool
	crash  bool
}

func (s *sequence) view() view {
	return view{s.text[:s.shown], s.tokens, s.events, s.reason, s.ended, s.crash}
}

func (s *Server) look(q *sequence) view {
	s.mu.Lock()
	defer s.mu.Unlock()
	return q.view()
}

// lookAll looks at choices that run in step, all at one time.
func (s *Server) lookAll(out []view, choices []*sequence) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, q := range choices {
		out[i] = q.view()
	}
}

// next waits until a choice has something new. It reports false when the client has gone.
func (a *answering) next(q *sequence) bool {
	select {
	case <-q.ready:
		return true
	case <-a.r.Context().Done():
		return false
	case <-a.s.quit:
		panic(http.ErrAbortHandler) // breaks the connection
	}
}

// silence waits until the client leaves.
func (a *answering) silence() {
	select {
	case <-a.r.Context().Done():
	case <-a.s.quit:
	}
	panic(http.ErrAbortHandler)
}

func (a *answering) collect() {
	for _, q := range a.choices {
		for {
			v := a.s.look(q)
			if v.crash {
				panic(http.ErrAbortHandler)
			}
			if v.ended || a.struck(len(v.events)) {
				break
			}
			if !a.next(q) {
				return
			}
		}
	}
	if a.struck(a.most()) {
		switch a.fault.Kind {
		case Stall:
			a.silence()
		case Reset:
			panic(http.ErrAbortHandler)
		case Broken:
			refuse(a.w, errDead)
			return
		}
	}
	b := buffers.Get().(*[]byte)
	defer buffers.Put(b)
	*b = a.reply.whole((*b)[:0], a.choices, a.tally())
	send(a.w, 200, *b)
}

// struck reports whether the fault happens once n tokens have been given.
func (a *answering) struck(n int) bool {
	switch a.fault.Kind {
	case Stall, Reset, Broken:
		return n >= a.fault.After
	}
	return false
}

// most is the length of the longest choice.
func (a *answering) most() (n int) {
	for _, q := range a.choices {
		n = max(n, len(a.s.look(q).events))
	}
	return n
}

func (a *answering) tally() (u tally) {
	size := a.s.cfg.BlockSize
	n := a.choices[0].limits.n
	for _, q := range a.choices {
		if q.index%n == 0 {
			u.prompt += q.prompt
		}
		u.output += q.output()
	}
	last := a.choices[len(a.choices)-n]
	u.cached = max(0, last.run.Cached)
	u.created = max(0, last.prompt/size*size-u.cached)
	return u
}

var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 4096); return &b }}

// stream sends each step's tokens as they come, with one flush a step.
func (a *answering) stream() {
	a.w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	b := buffers.Get().(*[]byte)
	defer buffers.Put(b)
	a.cursors, a.views = make([]cursor, len(a.choices)), make([]view, len(a.choices))
	for left := len(a.choices); left > 0; {
		if !a.next(a.slowest()) {
			return
		}
		a.s.lookAll(a.views, a.choices)
		out, ended, struck := a.events((*b)[:0])
		left -= ended
		if left == 0 && !struck {
			out = a.reply.last(out, a.tally())
		}
		*b = out
		if _, err := a.w.Write(out); err != nil {
			return
		}
		if left > 0 || struck { // the server flushes when the handler ends
			if http.NewResponseController(a.w).Flush() != nil {
				return
			}
		}
		if struck {
			a.strike()
			return
		}
	}
}

// slowest is the first choice that has not ended. Choices run in step, so whatever else is new is sent along.
func (a *answering) slowest() *sequence {
	for i, q := range a.choices {
		if !a.cursors[i].done {
			return q
		}
	}
	panic("vllmsim: all choices have ended")
}

// strike does to a stream what the fault says.
func (a *answering) strike() {
	switch a.fault.Kind {
	case Stall:
		a.silence()
	case Reset:
		panic(http.ErrAbortHandler)
	case Broken:
		// With the spaces that json.dumps puts there: vLLM writes this event by another way.
		_, _ = a.w.Write([]byte("data: {\"error\": {\"message\": \"" + errDead.message +
			"\", \"type\": \"InternalServerError\", \"param\": null, \"code\": 500}}\n\ndata: [DONE]\n\n"))
	}
}

// events appends what is new, a token of each choice in turn, and returns how many choices ended, and whether
// the fault happens now.
func (a *answering) events(b []byte) (out []byte, ended int, struck bool) {
	roles := a.reply.chat
	for i := range a.cursors {
		roles = roles && a.cursors[i].events == 0
	}
	if roles {
		for i, q := range a.choices {
			b = a.reply.role(b, q, a.views[i].tokens[:q.prompt])
		}
	}
	for more := true; more; {
		more = false
		for i := range a.choices {
			c, v := &a.cursors[i], &a.views[i]
			if v.crash {
				panic(http.ErrAbortHandler)
			}
			if c.done {
				continue
			}
			switch {
			case a.struck(c.events):
				struck = true
			case c.events < len(v.events):
				more = true
				c.done = v.ended && c.events == len(v.events)-1
				b = a.event(b, i, v.events[c.events])
			case v.ended: // aborted between two tokens
				c.done = true
				b = a.event(b, i, event{c.last.tokens, int32(len(v.text))})
			}
			if c.done {
				ended++
			}
		}
	}
	return b, ended, struck
}

func (a *answering) event(b []byte, i int, e event) []byte {
	q, c, v := a.choices[i], &a.cursors[i], &a.views[i]
	var prompt []uint32
	if c.events == 0 {
		prompt = v.tokens[:q.prompt]
	}
	reason := ""
	if c.done {
		reason = v.reason
	}
	ids := v.tokens[q.prompt+int(c.last.tokens) : q.prompt+int(e.tokens)]
	b = a.reply.chunk(b, q, v.text[c.last.text:e.text], ids, prompt, reason,
		tally{prompt: q.prompt, output: int(e.tokens)})
	c.events, c.last = c.events+1, e
	return b
}
