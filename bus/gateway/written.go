package gateway

import (
	"time"

	"souk/bus"
	"souk/bus/openai"
)

// writer writes an answer as events.
type writer interface {
	Begin(dst []byte) []byte
	Chunk(dst []byte, c *bus.Chunk) ([]byte, error)
	Finish(dst []byte, r *bus.Result) []byte
}

// relay writes what comes of a task as events.
func (a *answer) relay(e writer) func(*bus.Chunk, *bus.Result) error {
	first := true
	return func(c *bus.Chunk, r *bus.Result) error {
		if c != nil && c.Text == "" && len(c.Extra) == 0 && len(c.Tokens) == 0 {
			return nil
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.refused != nil {
			return nil
		}
		room, err := a.out.put(a.taken, func(dst []byte) ([]byte, error) {
			if first {
				dst, first = e.Begin(dst), false
			}
			if c != nil {
				return e.Chunk(dst, c)
			}
			before := len(dst)
			dst = e.Finish(dst, r)
			if a.form != nil { // it may say all of the answer again
				a.out.most += len(dst) - before
			}
			return dst, nil
		})
		if err == nil && !room && (a.reader != 0 || !a.kept) {
			err = refuse(bus.CodeSlowReader, "more than %d bytes of the answer were not read: read it as "+
				"it comes", a.out.most)
		}
		a.account()
		a.tell()
		return err
	}
}

// collect keeps what comes of a task, for an answer that is given whole.
func (a *answer) collect(i int) func(*bus.Chunk, *bus.Result) error {
	w := openai.NewWhole(a.asked.Kind)
	a.wholes[i] = w
	return func(c *bus.Chunk, _ *bus.Result) error {
		switch {
		case c == nil && a.cut.Load():
			return nil
		case c == nil:
			return w.Sound(a.asked.Tasks[i].Body)
		case a.cut.Load():
			*w = openai.Whole{}
			a.gather(i, 0)
			return nil
		}
		defer func() { a.gather(i, w.Size()) }()
		return w.Chunk(c)
	}
}

// gather counts what has come of a task for an answer that is given whole: twice, as it becomes one object.
func (a *answer) gather(i, size int) {
	g := &a.gathered[i]
	before := g.held
	if g.of = &a.s.memory; size > 0 {
		g.reach(2 * size)
	} else {
		g.set(0)
	}
	a.unread.Add(int64(g.held - before))
}

// form writes an answer otherwise than OpenAI's chats: as events, and in the end as one object.
type form interface {
	writer
	Size() int // of what is kept of it, in bytes
	Object() []byte
	Fail(dst []byte, why openai.Refusal) []byte
	Forget()
}

// shaped says how the answer to a request is written where that is not a chat's, and what tags the request
// has which no chat is told.
type shaped struct {
	form func(s openai.Shape, whole bool) form
	tags []bus.Tag
}

// write takes in the one task of a request whose answer has a form of its own.
func (a *answer) write(shape openai.Shape) func(*bus.Chunk, *bus.Result) error {
	e := a.form(shape, !a.asked.Stream)
	a.mu.Lock()
	a.said = e
	a.mu.Unlock()
	if a.asked.Stream {
		return a.relay(e)
	}
	var events []byte // of a whole answer, which has none
	return func(c *bus.Chunk, r *bus.Result) (err error) {
		events = events[:0]
		switch {
		case a.cut.Load():
			e.Forget()
			a.gather(0, 0)
		case c != nil:
			events, err = e.Chunk(events, c)
			a.gather(0, e.Size())
		default:
			events = e.Finish(events, r)
		}
		return err
	}
}

// response is an answer to a request for one. What is answered can be named in later requests before its
// client reads of its end.
type response struct {
	*openai.Response
	keep func(id string, item []byte) // nil: nothing
}

func (r response) Finish(dst []byte, last *bus.Result) []byte {
	r.Completed = time.Now().Unix()
	if r.keep != nil {
		r.Items(r.keep)
	}
	return r.Response.Finish(dst, last)
}

// errorEvent is the event of an answer that ends without its end. The lock is held.
func (a *answer) errorEvent(dst []byte, why *refusal) []byte {
	if a.form == nil {
		return why.shown().Event(dst)
	}
	if a.said == nil {
		a.said = a.form(a.shape, !a.asked.Stream)
	}
	said := why.shown()
	said.Request = a.of.id
	return a.said.Fail(dst, said)
}
