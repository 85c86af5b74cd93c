package gateway

import (
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"souk/bus"
	"souk/bus/client"
	"souk/bus/openai"
)

// answer is what one request is given: by one task, or by several. It runs whether or not anybody reads it,
// until its last task has ended or it is given up.
type answer struct {
	s     *Server
	key   admitted
	keyID string
	asked *openai.Asked
	shape openai.Shape // its ID names the answer

	response *openai.Responses // not nil: it is written as a response

	again bool     // it came with an Idempotency-Key: who asks again gets this one
	kept  bool     // it can be read again
	print [32]byte // where again is set: what was asked for

	payer  *payer
	inline bool // whoever asked serves it: nobody else ever reads it

	over chan struct{} // closed: nothing is added any more

	mu       sync.Mutex
	waiting  int    // tasks of whose answer nothing has come
	running  int    // tasks
	bought   int    // tasks that an agent has accepted: they may have to be paid
	streams  []held // of the tasks that run
	stopped  bool   // those are given up
	accepted bus.Accepted
	began    bool     // its status is out: a refusal is an event
	refused  *refusal // why there is no answer, or no more of it
	results  []*bus.Result
	wholes   []*openai.Whole
	said     *openai.Response // where response is not nil, once its task is taken
	out      outbox
	taken    int           // offset up to which the client has the stream
	reader   int           // number of who reads it now; 0 nobody
	readers  int           // that there ever were
	there    int           // of them, that have not left
	news     chan struct{} // of who reads it now, cap 1
	listed   bool          // among those that have ended and are kept
	size     int           // what it takes there
	object   []byte        // a whole answer
	leave    *time.Timer   // gives it up, where its client does not come back
	forget   *time.Timer

	asking   int          // bytes that it takes until its last task has ended
	held     atomic.Int64 // and what is counted of them, and of what has come; written with the lock
	unread   atomic.Int64 // bytes of what has come that nobody has taken
	gathered []share      // of whole answers, by task, each of who serves that
	cut      atomic.Bool  // to make room
}

// errLeft is why a task is cancelled whose client has gone.
var errLeft = errors.New("its client has left, or has closed its side of the connection")

// prepare makes an answer ready for readers.
func (s *Server) prepare(a *answer) {
	n := len(a.asked.Tasks)
	a.s = s
	a.over = make(chan struct{})
	a.waiting, a.running = n, n
	a.results, a.streams = make([]*bus.Result, n), make([]held, n)
	a.out.most, a.out.numbered = s.c.MaxUnread, a.kept
	if !a.asked.Stream {
		a.wholes = make([]*openai.Whole, n)
		a.gathered = make([]share, n)
	}
}

// held is a task that runs, and what ends it when it was given up.
type held struct {
	stream *client.Stream
	late   *time.Timer
}

// hold notes that a task runs, so that it can be given up.
func (a *answer) hold(i int, stream *client.Stream) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.streams[i].stream = stream; a.stopped {
		a.streams[i].giveUp()
	}
}

// release notes that it has ended: nothing may keep what it was asked any longer.
func (a *answer) release(i int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if late := a.streams[i].late; late != nil {
		late.Stop()
	}
	a.streams[i] = held{}
}

func (a *answer) givenUp() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stopped
}

// stop gives up the tasks that run. The lock is held.
func (a *answer) stop() {
	if a.stopped {
		return
	}
	a.stopped = true
	for i := range a.streams {
		if a.streams[i].stream != nil {
			a.streams[i].giveUp()
		}
	}
}

// giveUp withdraws a task until an agent has taken it; after that it is cancelled, so that its last word,
// what it costs, still comes. It does not wait.
func (h *held) giveUp() {
	go h.stream.Withdraw(&bus.Error{Code: bus.CodeCancelled, Message: errLeft.Error()})
	h.late = time.AfterFunc(lastWord, h.stream.Close)
}

// lastWord is how long it is waited for what a task costs that was cancelled.
const lastWord = 2 * time.Second

// cost notes what is paid for a task that has failed.
func (a *answer) cost(i int, err error) {
	var said *client.Refusal
	if errors.As(err, &said) {
		a.ended(i, &said.Result)
	}
}

func (a *answer) buy(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.bought += n; a.refused != nil {
		a.refused = a.paidInPart(a.refused)
	}
}

// paidInPart is a refusal as it stands where some of the answer may have to be paid: then its status tells
// nobody to ask again. The lock is held.
func (a *answer) paidInPart(why *refusal) *refusal {
	if a.began || a.bought == 0 && why.paid == 0 || !openai.FaultOf(why.code).Again {
		return why
	}
	r := refuse(bus.CodeCancelled, "%s: %s; what was served of the answer until then is paid", why.code,
		why.message)
	r.task, r.paid = why.task, why.paid
	return r
}

// begun notes that the answer of a task comes, and says how its part is written.
func (a *answer) begun(by bus.Accepted) openai.Shape {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.accepted.Agent == "" {
		a.accepted = by
	}
	a.waiting--
	shape := a.shape
	switch {
	case by.Model != "":
		shape.Model = by.Model
	case shape.Model == "":
		shape.Model = openai.Auto
	}
	if a.shape.Model == "" {
		a.shape.Model = shape.Model
	}
	return shape
}

func (a *answer) ended(i int, r *bus.Result) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.results[i] = r
}

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
			if a.response != nil { // it says all of the answer again
				a.out.most += len(dst) - before
			}
			return dst, nil
		})
		if err == nil && !room && (a.reader != 0 || !a.kept) {
			err = refuse(bus.CodeSlowReader, "more than %d bytes of the answer were not taken", a.out.most)
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
		case c == nil:
			return nil
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

// respond takes in the one task of a request for a response. What is answered can be named in later requests
// before its client reads of its end.
func (a *answer) respond(shape openai.Shape) func(*bus.Chunk, *bus.Result) error {
	e := openai.NewResponse(shape, a.response)
	a.mu.Lock()
	a.said = e
	a.mu.Unlock()
	var events []byte // of a whole answer, which has none
	take := func(c *bus.Chunk, r *bus.Result) (err error) {
		if events = events[:0]; c != nil {
			events, err = e.Chunk(events, c)
			a.gather(0, e.Size())
			return err
		}
		events = e.Finish(events, r)
		return nil
	}
	if a.asked.Stream {
		take = a.relay(e)
	}
	return func(c *bus.Chunk, r *bus.Result) error {
		if r != nil && a.response.Store {
			e.Items(func(id string, item []byte) { a.s.items.put(time.Now(), a.keyID, id, item) })
		}
		return take(c, r)
	}
}

// errorEvent is the event of an answer that ends without its end. The lock is held.
func (a *answer) errorEvent(dst []byte, code bus.Code, message, task string, retryMS int64) []byte {
	if a.response == nil {
		return openai.ErrorEvent(dst, code, message, task, retryMS)
	}
	if a.said == nil {
		a.said = openai.NewResponse(a.shape, a.response)
	}
	return a.said.Fail(dst, code, message, task, retryMS)
}

// settled reports whether the answers of all tasks come, or there is none.
func (a *answer) settled() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.waiting == 0 || a.refused != nil
}

// readBy reports whether it is still this reader that reads the stream.
func (a *answer) readBy(reader int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.reader == reader
}

// poke is tell for who has not the lock.
func (a *answer) poke() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tell()
}

// tell wakes who reads, if anybody does. The lock is held.
func (a *answer) tell() {
	select {
	case a.news <- struct{}{}:
	default:
	}
}

// fail ends the answer without its end. The first reason counts. Of several tasks the others are cancelled.
func (a *answer) fail(why *refusal) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.refused != nil || a.running == 0 {
		return
	}
	copied := *why
	if copied.task == "" {
		copied.task = a.shape.ID
	}
	if copied.code == bus.CodeUnknown && a.again {
		copied.again = true // it is served once, however often it is asked for
	}
	a.refused = a.paidInPart(&copied)
	a.stop()
	if a.asked.Stream && a.began {
		a.writeError()
	}
	a.tell()
}

// writeError ends a stream that has begun. The lock is held.
func (a *answer) writeError() {
	r := a.refused
	a.out.put(a.taken, func(dst []byte) ([]byte, error) {
		return a.errorEvent(dst, r.code, r.message, r.task, r.retryMS), nil
	})
}

// finish is called once, when the last task has ended.
func (a *answer) finish() {
	a.mu.Lock()
	switch {
	case a.refused != nil: // what all of its tasks are paid is known only now
		whole := *a.refused
		whole.paid = 0
		for _, r := range a.results {
			if r != nil {
				whole.paid, _ = whole.paid.Add(r.Paid())
			}
		}
		a.refused = &whole
	case a.response != nil && !a.asked.Stream:
		a.object = a.said.Object()
	case a.response != nil: // its last event is that of its task
	case a.asked.Stream:
		a.out.put(a.taken, func(dst []byte) ([]byte, error) {
			if a.asked.Usage {
				dst = openai.Usage(dst, a.shape, a.results)
			}
			return append(dst, openai.Done...), nil
		})
	default:
		a.object = openai.Object(a.shape, a.wholes, a.results)
	}
	a.running, a.wholes, a.streams = 0, nil, nil
	a.asked.Tasks = nil // up to 4 MB of bodies
	a.out.event = nil
	if a.said != nil {
		a.said.Forget()
	}
	for i := range a.gathered {
		if a.gathered[i].held > 0 {
			a.gathered[i].set(0)
		}
	}
	a.unread.Store(0)
	a.account()
	if a.leave != nil {
		a.leave.Stop()
	}
	refused := a.refused
	close(a.over)
	a.tell()
	a.mu.Unlock()
	a.s.finished(a, refused)
}

// finished counts an answer that has ended, and keeps it for a while if it can be read again.
func (s *Server) finished(a *answer, refused *refusal) {
	s.keys.end(a.key.key)
	a.payer.leave()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, a)
	switch {
	case refused != nil:
		s.stats.Cut[refused.code]++
	case a.asked.Stream:
		s.stats.Streams++
	default:
		s.stats.Wholes++
	}
	if s.draining && len(s.open) == 0 {
		close(s.idle)
	}
	if !a.kept {
		return
	}
	if refused != nil && !refused.last && !a.hasBegun() { // nothing was given: who asks again is to be served
		s.unkeep(a)
		return
	}
	s.ended = append(s.ended, a)
	s.size += a.list(true)
	for s.size > s.c.MaxKept && len(s.ended) > 0 {
		s.unkeep(s.ended[0])
	}
	a.forget = time.AfterFunc(s.c.KeepFor, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.unkeep(a)
	})
}

// unkeep forgets an answer. The server's lock is held.
func (s *Server) unkeep(a *answer) {
	id := keptKey{a.keyID, a.shape.ID}
	if s.kept[id] != a {
		return
	}
	delete(s.kept, id)
	for i := range s.ended {
		if s.ended[i] == a {
			s.ended = append(s.ended[:i:i], s.ended[i+1:]...)
			s.size -= a.list(false)
			break
		}
	}
	if a.forget != nil {
		a.forget.Stop()
	}
}

func (a *answer) hasBegun() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.began
}

// list notes whether it is kept, once it has ended, and returns what it takes.
func (a *answer) list(kept bool) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.listed = kept; kept {
		a.size = a.bytes()
	}
	a.account()
	return a.size
}

func (a *answer) stopTimers() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, t := range []*time.Timer{a.leave, a.forget} {
		if t != nil {
			t.Stop()
		}
	}
}

// attach makes the caller the one who reads the answer, from an event on; -1 is from its beginning. Whoever
// read it before reads no more. A stream says on news whatever its reader may want to know.
func (a *answer) attach(last int) (reader int, news chan struct{}, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asked.Stream {
		from, ok := a.out.first, last < 0 && a.out.lost == 0
		if last >= 0 {
			from, ok = a.out.after(last)
		}
		if !ok {
			return 0, nil, refuse(bus.CodeAnswerGone, "what follows event %d of this answer is kept no more", last)
		}
		a.taken = from
	}
	a.readers, a.there = a.readers+1, a.there+1
	a.reader = a.readers
	if a.leave != nil {
		a.leave.Stop()
	}
	a.account()
	if a.asked.Stream {
		a.tell()
		a.news = make(chan struct{}, 1)
	}
	return a.reader, a.news, nil
}

// left says that who read the answer reads no more. Unless it can be read again that is its end.
func (a *answer) left(reader int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.there--
	a.account()
	if a.asked.Stream && a.reader != reader || !a.asked.Stream && a.there > 0 { // all wait for a whole answer
		return
	}
	a.reader = 0
	a.tell()
	if a.running == 0 {
		return
	}
	a.s.count(func(s *Stats) { s.Left++ })
	if !a.kept {
		a.giveUp()
		return
	}
	a.leave = time.AfterFunc(a.s.c.ResumeWithin, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.reader == 0 {
			a.giveUp()
		}
	})
}

// giveUp cancels what still runs. The lock is held.
func (a *answer) giveUp() {
	if a.refused == nil && a.running > 0 {
		a.refused = refuse(bus.CodeCancelled, "%v", errLeft)
		a.refused.task = a.shape.ID
		a.stop()
		if a.asked.Stream && a.began { // for whoever comes too late
			a.writeError()
		}
	}
}

// next returns what follows what the reader has, and whether that is all. mine is false where another reads
// now.
func (a *answer) next(reader int) (data []byte, all, mine bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.reader != reader {
		return nil, false, false
	}
	data, ok := a.out.take(a.taken)
	if !ok { // what it has not taken yet is kept no more
		return a.errorEvent(nil, bus.CodeSlowReader, "too much of the answer was not taken", a.shape.ID, 0),
			true, true
	}
	a.taken += len(data)
	a.account()
	return data, a.running == 0, true
}

// leaves is what a reader is told that has closed its side of the connection: it may still read.
func (a *answer) leaves() *refusal {
	if !a.kept {
		return refuse(bus.CodeCancelled, "%v", errLeft)
	}
	r := again(bus.CodeUnknown, time.Second, "the connection was closed on its client's side: for %v the answer "+
		"waits for whoever comes back to it", a.s.c.ResumeWithin)
	r.again = true
	return r
}

// lastEvent is the one with which its reader is left.
func (a *answer) lastEvent(why *refusal) []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.errorEvent(nil, why.code, why.message, a.shape.ID, why.retryMS)
}

// begin says that the answer's status goes out now. It returns the refusal that is the answer instead.
func (a *answer) begin() (bus.Accepted, *refusal) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.refused != nil && !a.began {
		return a.accepted, a.refused
	}
	a.began = true
	return a.accepted, nil
}

func appendInt(dst []byte, n int) []byte { return strconv.AppendInt(dst, int64(n), 10) }
