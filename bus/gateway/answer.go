package gateway

import (
	"cmp"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"souk/bus"
	"souk/bus/client"
	"souk/bus/openai"
)

// answer is the answer to one request, by one task or by several. It runs whether or not anybody reads it,
// until its last task has ended or it is given up.
type answer struct {
	s     *Server
	of    *request // that asked for it first
	key   admitted
	keyID string
	asked *openai.Asked
	shape openai.Shape // its ID names the answer

	form func(s openai.Shape, whole bool) form // not nil: it is written in that, as a response or a message

	again bool     // it came with an Idempotency-Key: who asks again gets this one
	named bool     // its tasks' ids are of its client's making: they may come again, elsewhere too
	kept  bool     // it can be read again
	print [32]byte // where again is set: what was asked for

	payer *payer

	over chan struct{} // closed: nothing is added any more

	mu       sync.Mutex
	waiting  int    // tasks of whose answer nothing has come
	running  int    // tasks
	bought   int    // tasks that an agent has accepted: they may have to be paid
	unheard  bool   // of one of them it is not known what it costs
	streams  []held // of the tasks that run
	stopped  bool   // those are given up
	back     back   // those that are held back
	accepted bus.Accepted
	began    bool     // its status is out: a refusal is an event
	refused  *refusal // why there is no answer, or no more of it
	results  []*bus.Result
	wholes   []*openai.Whole
	said     form // where form is not nil, once its task is taken
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

	first atomic.Int64 // when the first of it came, in nanoseconds since it was asked for; 0: nothing has

	asking   int          // bytes that it takes until its last task has ended
	held     atomic.Int64 // and what is counted of them, and of what has come; written with the lock
	unread   atomic.Int64 // bytes of what has come that nobody has taken
	gathered []share      // of whole answers, by task, each of who serves that
	cut      atomic.Bool  // to make room
}

// errLeft is the reason to cancel a task whose client has gone.
var errLeft = errors.New("its client has left, or has closed its side of the connection")

// came notes that something of it has come.
func (a *answer) came() {
	if a.first.Load() == 0 {
		a.first.CompareAndSwap(0, int64(time.Since(a.of.line.Begin)))
	}
}

// prepare makes an answer ready for readers.
func (s *Server) prepare(a *answer) {
	n := len(a.asked.Tasks)
	a.s = s
	a.over = make(chan struct{})
	a.waiting, a.running, a.back.going = n, n, n
	a.results, a.streams = make([]*bus.Result, n), make([]held, n)
	a.out.most, a.out.numbered = s.c.MaxUnread, a.kept
	if !a.asked.Stream {
		a.wholes = make([]*openai.Whole, n)
		a.gathered = make([]share, n)
	}
}

// alone reports whether it has one task.
func (a *answer) alone() bool { return len(a.results) == 1 }

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

// release notes that a task has ended: its body may be freed.
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
	a.stopBack()
}

// giveUp cancels a task, wherever it is, so that its last word, what it costs, still comes: also where nobody
// knows yet whether an agent has it, for one may have taken it this moment. It does not wait.
func (h *held) giveUp() {
	go h.stream.Cancel()
	h.late = time.AfterFunc(lastWord, h.stream.Close)
}

// lastWord bounds the wait for the cost of a cancelled task.
const lastWord = 2 * time.Second

// cost notes the payment for a task that has failed.
func (a *answer) cost(i int, err error) {
	if said, ok := errors.AsType[*client.Refusal](err); ok {
		a.ended(i, &said.Result)
	}
}

// heardEnd reports whether the last word on a task has come.
func (a *answer) heardEnd(i int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.results[i] != nil
}

// costUnknown notes that nothing more is heard of a task that may have to be paid.
func (a *answer) costUnknown() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.unheard = true
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
	f := openai.FaultOf(why.code, why.retryMS)
	if a.began || a.bought == 0 && why.paid == 0 || !f.Again && f.Status < 500 { // some repeat any 5xx
		return why
	}
	message := strings.TrimSuffix(why.message, ": "+servedIsPaid)
	r := refuse(bus.CodeCancelled, "%s: %s; what was served of the answer until then is paid", why.code, message)
	r.task, r.paid = why.task, why.paid
	return r
}

// begun notes that the answer of a task comes, and says how its part is written. awaited says that its
// beginning was waited for.
func (a *answer) begun(by bus.Accepted, awaited bool) openai.Shape {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.accepted.Agent == "" {
		a.accepted = by
	}
	if awaited {
		a.waiting--
	}
	shape := a.shape
	switch {
	case by.Model != "":
		shape.Model = by.Model
	case shape.Model == "":
		shape.Model = openai.Auto
	}
	a.shape.Model = cmp.Or(a.shape.Model, shape.Model)
	return shape
}

func (a *answer) ended(i int, r *bus.Result) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.results[i] = r
}
