package vllmsim

import (
	"net/http"
	"sync"
)

// answering sends one answer.
type answering struct {
	s     *Server
	w     http.ResponseWriter
	r     *http.Request
	q     *sequence
	reply *reply
	fault Fault

	sent int   // events that have been
	last event // of these
	done bool  // that was the last one
}

// view is a copy of a sequence's fields that may be read outside the lock: its slices only ever grow.
type view struct {
	text   []byte // that may be seen
	tokens []uint32
	events []event
	reason string
	ended  bool
}

// look returns what there is of a sequence. It breaks the connection where the engine went away.
func (s *Server) look(q *sequence) view {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.crash {
		panic(http.ErrAbortHandler)
	}
	return view{q.text[:q.shown], q.tokens, q.events, q.reason, q.ended}
}

// next waits until a sequence has something new. It reports false when the client has gone.
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
	for {
		v := a.s.look(a.q)
		if a.struck(len(v.events)) {
			a.strike(func() { refuse(a.w, errDead) })
			return
		}
		if v.ended {
			break
		}
		if !a.next(a.q) {
			return
		}
	}
	b := buffers.Get().(*[]byte)
	defer buffers.Put(b)
	*b = a.reply.whole((*b)[:0], a.q, a.tally())
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

// strike does what the fault says; broken says that the engine is dead.
func (a *answering) strike(broken func()) {
	switch a.fault.Kind {
	case Stall:
		a.silence()
	case Reset:
		panic(http.ErrAbortHandler)
	case Broken:
		broken()
	}
}

func (a *answering) tally() tally {
	q, size := a.q, a.s.cfg.BlockSize
	cached := max(0, q.run.Cached)
	return tally{q.prompt, q.output(), cached, max(0, q.prompt/size*size-cached)}
}

var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 4096); return &b }}

// stream sends each step's tokens as they come, with one flush a step.
func (a *answering) stream() {
	a.w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	b := buffers.Get().(*[]byte)
	defer buffers.Put(b)
	for !a.done {
		if !a.next(a.q) {
			return
		}
		out, struck := a.events((*b)[:0])
		if a.done {
			out = a.reply.last(out, a.tally())
		}
		*b = out
		if _, err := a.w.Write(out); err != nil {
			return
		}
		if !a.done && http.NewResponseController(a.w).Flush() != nil { // else the handler's end flushes
			return
		}
		if struck {
			a.strike(func() {
				// With the spaces that json.dumps puts there: vLLM writes this event by another way.
				_, _ = a.w.Write([]byte("data: {\"error\": {\"message\": \"" + errDead.message +
					"\", \"type\": \"InternalServerError\", \"param\": null, \"code\": 500}}\n\ndata: [DONE]\n\n"))
			})
			return
		}
	}
}

// events appends what is new, and reports whether the fault happens now.
func (a *answering) events(b []byte) (out []byte, struck bool) {
	v := a.s.look(a.q)
	if a.reply.chat && a.sent == 0 {
		b = a.reply.role(b, v.tokens[:a.q.prompt])
	}
	for !a.done {
		e := event{a.last.tokens, int32(len(v.text))} // aborted between two tokens
		switch {
		case a.struck(a.sent):
			return b, true
		case a.sent < len(v.events):
			e = v.events[a.sent]
			a.done = v.ended && a.sent == len(v.events)-1
		case !v.ended:
			return b, false
		default:
			a.done = true
		}
		b = a.event(b, &v, e)
	}
	return b, false
}

func (a *answering) event(b []byte, v *view, e event) []byte {
	var prompt []uint32
	if a.sent == 0 {
		prompt = v.tokens[:a.q.prompt]
	}
	reason := ""
	if a.done {
		reason = v.reason
	}
	ids := v.tokens[a.q.prompt+int(a.last.tokens) : a.q.prompt+int(e.tokens)]
	b = a.reply.chunk(b, a.q, v.text[a.last.text:e.text], ids, prompt, reason)
	a.sent, a.last = a.sent+1, e
	return b
}
