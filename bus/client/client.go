// Package client is what a Go program imports to buy answers on the market: it submits tasks, reads their
// streams without gaps, resumes and cancels them.
//
//	c, err := client.New(client.Config{ID: "dev"}, b)
//	stream, err := c.Submit(ctx, bus.Task{Body: body})
//	for {
//		chunk, err := stream.Next(ctx)
//		if err != nil { ... } // io.EOF after the last chunk; then stream.Result() says what was paid
//		fmt.Print(chunk.Text)
//	}
//
// Errors that the market gives are *bus.Error: decide by bus.CodeOf.
package client

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"souk/bus"
	"souk/market"
)

// Client submits tasks under one id. All methods may be called from many goroutines.
type Client struct {
	c   Config
	bus bus.Bus
	sub bus.Subscription

	came bus.Chunk // of hear, one after another: for each message anew it would be the largest thing allocated

	life context.Context // until Close
	end  context.CancelFunc

	mu      sync.Mutex
	streams map[string]*Stream // by task
	closed  bool
}

// New subscribes to the client's answers.
func New(c Config, b bus.Bus) (*Client, error) {
	c, err := c.filled()
	if err != nil {
		return nil, err
	}
	cl := &Client{c: c, bus: b, streams: map[string]*Stream{}}
	cl.life, cl.end = context.WithCancel(context.Background())
	cl.sub, err = b.Subscribe(bus.ReplySubject(c.ID, "*"), "", cl.hear)
	if err != nil {
		cl.end()
		return nil, fmt.Errorf("client %s: subscribe: %w", c.ID, err)
	}
	return cl, nil
}

// Close ends every stream with bus.ErrClosed and cancels its task.
func (cl *Client) Close() error {
	cl.mu.Lock()
	if cl.closed {
		cl.mu.Unlock()
		return nil
	}
	cl.closed = true
	var open []*Stream
	for _, s := range cl.streams {
		open = append(open, s)
	}
	cl.mu.Unlock()
	for _, s := range open {
		s.fail(bus.ErrClosed)
		s.Cancel()
	}
	cl.end()
	return cl.sub.Stop()
}

// hear is the one handler of all streams. It never waits for a reader.
func (cl *Client) hear(m bus.Msg) {
	cl.mu.Lock()
	s := cl.streams[bus.LastToken(m.Subject)]
	cl.mu.Unlock()
	if s == nil {
		return // of another program under this id, or of a stream that has ended
	}
	c := &cl.came
	*c = bus.Chunk{}
	if bus.Decode(m.Data, c) == nil && c.Task == s.id {
		s.hear(*c, time.Now())
	}
	*c = bus.Chunk{} // what it held is the reader's
}

func (cl *Client) open(id string) (*Stream, error) {
	if err := bus.CheckID("task", id); err != nil {
		return nil, &bus.Error{Code: bus.CodeBadRequest, Message: err.Error()}
	}
	s := &Stream{
		cl: cl, id: id, news: make(chan struct{}, 1), heard: time.Now(),
		order: order{maxChunks: cl.c.Buffer, maxBytes: cl.c.BufferBytes},
	}
	cl.mu.Lock()
	defer cl.mu.Unlock()
	switch {
	case cl.closed:
		return nil, bus.ErrClosed
	case cl.streams[id] != nil:
		return nil, &bus.Error{Code: bus.CodeDuplicate, Message: fmt.Sprintf("task %s is in hand in this program", id)}
	case len(cl.streams) >= cl.c.MaxStreams:
		return nil, &bus.Error{Code: bus.CodeTooManyTasks, Message: fmt.Sprintf("%d streams are open, the limit of this client; read or cancel some", len(cl.streams))}
	}
	cl.streams[id] = s
	return s, nil
}

func (cl *Client) forget(s *Stream) {
	cl.mu.Lock()
	if cl.streams[s.id] == s {
		delete(cl.streams, s.id)
	}
	cl.mu.Unlock()
}

// Submit sends a task whose answer comes as a stream, to be read to its end or closed. It returns once an agent has accepted it, which
// the first chunk of the answer may show before the market says so, or with the reason why none did. A task without an id
// gets a random one. When ctx ends, the task is cancelled, also after Submit has returned.
func (cl *Client) Submit(ctx context.Context, t bus.Task) (*Stream, error) {
	t.Client, t.Stream = cl.c.ID, true
	if t.ID == "" {
		t.ID = rand.Text()
	}
	s, err := cl.open(t.ID)
	if err != nil {
		return nil, err
	}
	s.task = t
	s.order.kept.off = t.Failover == "off"
	said := make(chan error, 1)
	go func() {
		a, err := cl.request(ctx, &t, 0)
		if err == nil && a.Accepted == nil {
			err = refusal(a.Result)
		}
		if err == nil {
			s.accept(a.Accepted, time.Now())
		} else {
			s.refuse()
		}
		said <- err
	}()
	for waits := true; waits; {
		select {
		case err := <-said:
			if err != nil && !s.begun() {
				cl.forget(s)
				return nil, err
			}
			waits = false
		case <-s.news:
			waits = !s.begun()
		}
	}
	unwatch := context.AfterFunc(ctx, func() {
		s.fail(&bus.Error{Code: bus.CodeCancelled, Message: context.Cause(ctx).Error()})
		s.Cancel()
	})
	s.mu.Lock()
	s.unwatch = unwatch
	s.mu.Unlock()
	return s, nil
}

// Ask sends a task and returns its whole answer. A Result may come beside an error: what was served and paid
// before it. When ctx ends, the task is cancelled.
func (cl *Client) Ask(ctx context.Context, t bus.Task) (bus.Result, error) {
	t.Client, t.Stream = cl.c.ID, false
	if t.ID == "" {
		t.ID = rand.Text()
	}
	a, err := cl.request(ctx, &t, 0)
	if err != nil {
		return bus.Result{Client: cl.c.ID, Task: t.ID}, err
	}
	if a.Result == nil {
		return bus.Result{Client: cl.c.ID, Task: t.ID}, &bus.Error{Code: bus.CodeInternal, Message: "the door accepted a stream where a whole answer was asked for"}
	}
	return *a.Result, refusal(a.Result)
}

// request sends a task to the door and waits for its one word. If ctx ends first, the task is cancelled wherever
// it is: at the door or its hub, or, if it is accepted at this very moment, at its agent. A bus that goes away is waited for
// for so long, and the task is sent again.
func (cl *Client) request(ctx context.Context, t *bus.Task, outage time.Duration) (*bus.Answer, error) {
	if err := ctx.Err(); err != nil {
		return nil, &bus.Error{Code: bus.CodeCancelled, Message: err.Error()}
	}
	data, err := bus.Encode(t)
	if err != nil {
		return nil, err
	}
	msg := bus.Msg{Subject: bus.TaskSubject(cl.c.ID), Header: t.Trace.Header(nil), Data: data}
	type word struct {
		a   *bus.Answer
		err error
	}
	said := make(chan word, 1)
	own, stop := context.WithTimeout(cl.life, cl.c.MaxWait)
	go func() {
		m, err := cl.bus.Request(own, msg)
		for errors.Is(err, bus.ErrDisconnected) && cl.back(own, outage) {
			m, err = cl.bus.Request(own, msg)
		}
		if err != nil {
			said <- word{err: wordless(err, t.ID)}
			return
		}
		a := new(bus.Answer)
		if err := bus.Decode(m.Data, a); err != nil {
			said <- word{err: fmt.Errorf("answer of the door: %w", err)}
			return
		}
		said <- word{a: a}
	}()
	select {
	case w := <-said:
		stop()
		return w.a, w.err
	case <-ctx.Done():
	}
	cl.publish(bus.DoorCancelSubject(cl.c.ID), &bus.Cancel{Client: cl.c.ID, Task: t.ID})
	go func() {
		defer stop()
		late := time.NewTimer(cl.c.Grace)
		defer late.Stop()
		select {
		case w := <-said:
			if w.a != nil && w.a.Accepted != nil {
				cl.control(w.a.Accepted.Agent, bus.StreamControl{Task: t.ID, Cancel: true})
			}
		case <-late.C:
		case <-cl.life.Done():
		}
	}()
	return nil, &bus.Error{Code: bus.CodeCancelled, Message: context.Cause(ctx).Error()}
}

// back waits, at most so long, until the bus is there again.
func (cl *Client) back(ctx context.Context, outage time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, outage)
	defer cancel()
	for pause(ctx, lookEvery) {
		if !cl.bus.Connected().IsZero() {
			return true
		}
	}
	return false
}

const lookEvery = 100 * time.Millisecond

func (cl *Client) control(agent string, c bus.StreamControl) {
	c.Client = cl.c.ID
	cl.publish(bus.StreamSubject(agent, cl.c.ID), &c)
}

// publish sends what may be lost: cancels, acknowledgements and resumes are repeated or have a time limit behind them.
func (cl *Client) publish(subject string, m bus.Message) {
	if data, err := bus.Encode(m); err == nil {
		cl.bus.Publish(bus.Msg{Subject: subject, Data: data})
	}
}

// Feedback tells a hub how good an answer was, 0 to 1.
func (cl *Client) Feedback(hub, task string, quality float64) error {
	f := &bus.Feedback{Client: cl.c.ID, Task: task, Quality: quality}
	if err := f.Validate(); err != nil {
		return err
	}
	data, err := bus.Encode(f)
	if err != nil {
		return err
	}
	return cl.bus.Publish(bus.Msg{Subject: bus.FeedbackSubject(hub, cl.c.ID), Data: data})
}

// Deposit pays money in for a client. The same id again changes nothing and gives the first answer.
func (cl *Client) Deposit(ctx context.Context, client string, amount market.Credits, id string) (bus.FundsReply, error) {
	return cl.funds(ctx, bus.OpDeposit, bus.FundsRequest{ID: id, Client: client, Amount: amount})
}

// Balance says what a client has with the treasury and with hubs.
func (cl *Client) Balance(ctx context.Context, client string) (bus.FundsReply, error) {
	return cl.funds(ctx, bus.OpBalance, bus.FundsRequest{ID: rand.Text(), Client: client})
}

func (cl *Client) funds(ctx context.Context, op string, q bus.FundsRequest) (r bus.FundsReply, err error) {
	data, err := bus.Encode(&q)
	if err != nil {
		return r, err
	}
	m, err := cl.bus.Request(ctx, bus.Msg{Subject: bus.LedgerSubject(op), Data: data})
	switch {
	case errors.Is(err, bus.ErrNoResponders):
		return r, &bus.Error{Code: bus.CodeUnavailable, Message: "no treasury listens on this bus; start one, or try again shortly"}
	case errors.Is(err, bus.ErrNotSent):
		return r, &bus.Error{Code: bus.CodeUnavailable, Message: op + ": the bus is out of reach, and nothing was sent; try again shortly"}
	case err != nil:
		return r, &bus.Error{Code: bus.CodeUnknown, Message: fmt.Sprintf("%s: the treasury gave no answer (%v); repeat it under the same id %s", op, err, q.ID)}
	}
	if err := bus.Decode(m.Data, &r); err != nil {
		return r, fmt.Errorf("%s: answer of the treasury: %w", op, err)
	}
	if r.Code != "" {
		return r, &bus.Error{Code: r.Code, Message: r.Message}
	}
	return r, nil
}

// Stream is the answer to one task. One goroutine reads it; Cancel may be called from any.
type Stream struct {
	cl      *Client
	id      string
	news    chan struct{} // cap 1: something happened
	unwatch func() bool

	mu       sync.Mutex
	timer    *time.Timer // wakes Next; set again only when it is over, or too late
	alarm    time.Time   // when it goes off
	awake    time.Time   // since when nobody has slept through it
	accepted bus.Accepted
	task     bus.Task    // as sent, until nobody will need it again
	goingOn  bool        // the market is asked to go on with the answer elsewhere
	wentOn   bool        // it was: once a task
	failed   *bus.Result // with which the first agent broke off
	order    order
	ready    bool      // Accepted has come
	refused  bool      // or the market's word that it will not
	heard    time.Time // when the agent last said anything
	missing  time.Time // since when chunks are missing; zero: none are
	asked    time.Time // when they, or a sign of life, were last asked for
	read     uint64    // chunks read
	acked    uint64
	err      error // what ended the stream before its end frame was read
	ended    bool  // the end frame has been read
	cancelIt bool
}

// ID is the task's id.
func (s *Stream) ID() string { return s.id }

// Accepted says which hub and agent serve the task: the first, until another goes on with the answer. It is empty until the
// market has said so, which the first chunks may overtake.
func (s *Stream) Accepted() bus.Accepted {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.accepted
}

// Result is the last word on the task. It is there once Next has returned an error that came from the
// agent: io.EOF, or the *bus.Error that the Result carries.
func (s *Stream) Result() (bus.Result, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.order.end == nil {
		return bus.Result{}, false
	}
	return *s.order.end, true
}

func (s *Stream) accept(a *bus.Accepted, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accepted, s.ready, s.heard = *a, true, now
	switch { // before this was said
	case s.ended:
		s.ack()
	case s.cancelIt && s.order.end == nil:
		s.cl.control(a.Agent, bus.StreamControl{Task: s.id, Cancel: true})
	}
	if s.broke() {
		s.goOn(now)
	}
	s.resume(now)
	s.wake()
}

// refuse says that nobody will say who serves the task.
func (s *Stream) refuse() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = true
	s.wake()
}

// awaited reports whether the market has not said its word on the task, which it does within MaxWait: until then nothing can be
// asked of the agent. The lock is held.
func (s *Stream) awaited() bool { return !s.ready && !s.refused }

// begun reports whether something of the answer can be read.
func (s *Stream) begun() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.order.line) > 0
}

func (s *Stream) hear(c bus.Chunk, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil || s.ended {
		return
	}
	if c.Attempt < s.order.attempt {
		return // of an agent that was given up
	}
	s.heard = now
	if c.Attempt > 0 && c.Result != nil && c.Result.Agent != "" {
		s.accepted.Agent = c.Result.Agent // perhaps before the door has said so
	}
	if c.Agent != "" {
		s.accepted.Agent = c.Agent
		if s.cancelIt && c.Attempt > s.order.attempt { // it went to one that had failed
			s.cl.control(c.Agent, bus.StreamControl{Task: s.id, Cancel: true})
		}
	}
	if err := s.order.take(c); err != nil {
		s.err = err
		s.stop()
		s.cl.forget(s)
	}
	if s.broke() {
		s.goOn(now)
	}
	s.resume(now)
	s.wake()
}

// resume asks for missing chunks, at most once in ResumeEvery. The lock is held.
func (s *Stream) resume(now time.Time) {
	if !s.order.gap() || s.err != nil {
		s.missing = time.Time{}
		return
	}
	if s.missing.IsZero() {
		s.missing = now
	}
	if s.ready && now.Sub(s.asked) >= s.cl.c.ResumeEvery {
		s.ask(now)
	}
}

// broke reports whether the answer has ended so that another agent may mend it: its agent failed, or is another life of
// itself that knows nothing of it. The lock is held.
func (s *Stream) broke() bool {
	if !s.order.done() {
		return false
	}
	end := s.order.end
	return end.Code.Broken() || end.Code == bus.CodeUnknown && end.Receipt == nil
}

// goOn asks the market to go on elsewhere with an answer that broke off, once. It returns false, and has the
// reason told with the answer's end, if that cannot be. The lock is held.
func (s *Stream) goOn(now time.Time) bool {
	if !s.ready || s.wentOn || s.goingOn || s.cancelIt || s.err != nil || s.ended {
		return s.goingOn
	}
	s.wentOn = true
	from, err := s.order.kept.resume(&s.task, s.accepted.Agent, s.order.next)
	if err != nil {
		if s.order.end != nil {
			end := *s.order.end
			if s.task.Failover != "off" {
				end = bus.CannotContinue(end, err)
			}
			end.Chunks = s.order.next // who does not know the answer does not know this either
			s.order.end = &end
		}
		return false
	}
	t := s.task
	t.Resume, t.Hub, t.Attempt = from, s.accepted.Hub, s.order.attempt+1
	s.task, s.failed, s.goingOn = bus.Task{}, s.order.end, true
	s.order.move(t.Attempt)
	s.missing = time.Time{}
	go func() {
		ctx, cancel := context.WithTimeout(s.cl.life, s.cl.c.MaxWait)
		defer cancel()
		begun := time.Now()
		a, err := s.cl.request(ctx, &t, s.cl.c.MaxOutage)
		for absent(a, err) && time.Since(begun) < s.cl.c.MaxAbsence && pause(ctx, time.Second) { // its hub may be on its way back
			a, err = s.cl.request(ctx, &t, s.cl.c.MaxOutage)
		}
		s.wentTo(a, err, time.Now())
	}()
	return true
}

// absent reports whether nobody has judged a task because a door or a hub is not there just now.
func absent(a *bus.Answer, err error) bool {
	if err == nil && a.Accepted == nil {
		err = refusal(a.Result)
	}
	return bus.CodeOf(err) == bus.CodeUnavailable
}

// pause waits, unless ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// wentTo is the market's word on that.
func (s *Stream) wentTo(a *bus.Answer, err error, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.goingOn, s.heard = false, now
	if err == nil && a.Accepted == nil {
		err = refusal(a.Result)
	}
	switch {
	case err == nil:
		s.accepted = *a.Accepted
		if s.cancelIt || s.err != nil {
			s.cl.control(s.accepted.Agent, bus.StreamControl{Task: s.id, Cancel: true})
		}
	case s.order.end != nil || s.err != nil: // another word came meanwhile
	case s.cancelIt && a != nil && a.Result != nil:
		s.order.end = a.Result
	case s.failed != nil:
		end := bus.CannotContinue(*s.failed, err)
		end.Chunks = s.order.next
		if code := bus.CodeOf(err); end.Code == bus.CodeUnknown { // the agent knew nothing of it, but its hub does
			switch {
			case code.Broken():
				end.Code = code
			case code == bus.CodeAnswerGone && a != nil:
				end.Code, end.Message = code, a.Result.Message
			}
		}
		s.order.end = &end
	default:
		code := bus.CodeUnknown
		if c := bus.CodeOf(err); c.Broken() { // its hub knows that it is gone, and that nothing is paid
			code = c
		}
		s.err = &bus.Error{Code: code, Message: fmt.Sprintf("agent %s fell silent, and the answer does not go on elsewhere: %v", s.accepted.Agent, err)}
		s.stop()
		s.cl.forget(s)
	}
	s.wake()
}

func (s *Stream) ask(now time.Time) {
	s.asked = now
	next := s.order.next
	s.cl.control(s.accepted.Agent, bus.StreamControl{Task: s.id, Resume: &next})
}

func (s *Stream) wake() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// Next returns the next chunk, in order and once. After the last it returns io.EOF, or the *bus.Error
// with which the answer ended; a lost agent of which its hub says nothing is CodeUnknown, chunks that nobody has any more are
// CodeAnswerGone, a reader too far behind is CodeSlowReader. If this ctx ends, the stream goes on and Next may be called again.
func (s *Stream) Next(ctx context.Context) (bus.Chunk, error) {
	for {
		c, wait, err := s.step()
		if err != nil || !wait {
			return c, err
		}
		select {
		case <-s.news:
		case <-ctx.Done():
			return bus.Chunk{}, context.Cause(ctx)
		}
	}
}

// step returns a chunk, or the stream's end, or that there will be news.
func (s *Stream) step() (c bus.Chunk, wait bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c, ok := s.order.pop(); ok && s.err == nil {
		s.read++
		if s.read-s.acked >= s.cl.c.AckEvery {
			s.ack()
		}
		return c, false, nil
	}
	if s.err != nil {
		s.finish()
		return c, false, s.err
	}
	if s.order.done() && !(s.awaited() && s.broke() && !s.cancelIt) {
		if !s.ended {
			s.ended = true
			s.ack()
			s.finish()
		}
		if err := refusal(s.order.end); err != nil {
			return c, false, err
		}
		return c, false, io.EOF
	}
	now := time.Now()
	if err := s.lost(now); err != nil {
		return c, false, err
	}
	s.wakeIn(s.patience(now), now)
	return c, true, nil
}

// wakeIn has Next look again after so long at the latest. A stream that moves puts this off with every chunk, so an
// alarm that is set goes off when it may and finds nothing, which costs less. The lock is held.
func (s *Stream) wakeIn(d time.Duration, now time.Time) {
	due := now.Add(d)
	switch {
	case s.timer == nil:
		s.timer = time.AfterFunc(d, s.wake)
	case s.alarm.After(now) && !s.alarm.After(due):
		return
	default:
		s.timer.Reset(d)
	}
	s.alarm = due
}

// lost judges what stays away. Who could not hear calls nobody silent: time counts from the bus's return, or from when a reader looks again
// that was away. The lock is held.
func (s *Stream) lost(now time.Time) error {
	if s.goingOn || s.awaited() {
		return nil // whoever is asked says so or does not within MaxWait
	}
	unheard := now.Sub(s.heard)
	back := s.cl.bus.Connected()
	if back.IsZero() {
		if unheard > s.cl.c.MaxOutage {
			s.err = &bus.Error{Code: bus.CodeUnknown, Message: fmt.Sprintf("the bus is out of reach, and nothing was heard for %v; what agent %s served of task %s may still be settled",
				unheard.Round(time.Millisecond), cmp.Or(s.accepted.Agent, "(not named yet)"), s.id)}
			s.stop()
			s.finish()
		}
		return s.err
	}
	s.resume(now)
	if !s.missing.IsZero() && s.missing.Before(back) {
		s.missing = back
	}
	if late := now.Sub(s.alarm); !s.alarm.IsZero() && late > s.cl.c.Heartbeat {
		s.awake = now // the reader was elsewhere, or the machine asleep: what came meanwhile may not have been heard yet
	}
	silent := min(unheard, now.Sub(back), now.Sub(s.awake))
	switch {
	case silent > 3*s.cl.c.Heartbeat && s.goOn(now):
	case !s.missing.IsZero() && now.Sub(s.missing) >= s.cl.c.ResumeWait && unheard <= s.cl.c.Heartbeat*3/2:
		s.err = &bus.Error{Code: bus.CodeAnswerGone, Message: fmt.Sprintf("chunk %d of task %s is lost, and agent %s has not sent it again", s.order.next, s.id, s.accepted.Agent)}
	case silent > 3*s.cl.c.Heartbeat:
		s.err = &bus.Error{Code: bus.CodeUnknown, Message: fmt.Sprintf("agent %s has been silent for %v; what it served of task %s may still be settled", cmp.Or(s.accepted.Agent, "(not named yet)"), silent.Round(time.Millisecond), s.id)}
	case s.ready && unheard >= s.cl.c.Heartbeat*3/2 && now.Sub(s.asked) >= s.cl.c.ResumeEvery:
		s.ask(now) // an answer that has ended sends no heartbeats: its end frame may be what was lost
	}
	if s.err != nil {
		s.stop()
		s.finish()
	}
	return s.err
}

// patience is how long it takes until lost may judge differently. The lock is held.
func (s *Stream) patience(now time.Time) time.Duration {
	if s.goingOn || s.awaited() {
		return s.cl.c.MaxWait
	}
	due := s.heard.Add(s.cl.c.Heartbeat * 3 / 2)
	if !due.After(now) {
		back := s.cl.bus.Connected()
		if back.IsZero() {
			return lookEvery
		}
		for _, t := range []time.Time{s.heard, s.awake} {
			if back.Before(t) {
				back = t
			}
		}
		due = back.Add(3*s.cl.c.Heartbeat + 1)
		if again := s.asked.Add(s.cl.c.ResumeEvery); again.After(now) && again.Before(due) {
			due = again
		}
	}
	if !s.missing.IsZero() {
		if again := s.asked.Add(s.cl.c.ResumeEvery); again.Before(due) {
			due = again
		}
		if gone := s.missing.Add(s.cl.c.ResumeWait); gone.After(now) && gone.Before(due) {
			due = gone
		}
	}
	return max(due.Sub(now), time.Millisecond)
}

// ack lets the agent forget what was read; with the end frame read, all of it. The lock is held.
func (s *Stream) ack() {
	if !s.ready {
		return // nobody has said yet to whom
	}
	s.acked = s.read
	n := s.order.next - uint64(len(s.order.line))
	if s.ended {
		n = s.order.end.Chunks + 1
	}
	s.cl.control(s.accepted.Agent, bus.StreamControl{Task: s.id, Ack: &n})
}

// finish lets go of everything that holds the stream. It may be called again.
func (s *Stream) finish() {
	s.cl.forget(s)
	s.task, s.order.kept = bus.Task{}, kept{off: true}
	if s.timer != nil {
		s.timer.Stop()
	}
	if s.unwatch != nil {
		s.unwatch()
	}
}

// fail ends the stream with err unless it has ended.
func (s *Stream) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil && !s.ended && !s.order.done() {
		s.err = err
		s.cl.forget(s)
	}
	s.wake()
}

// Cancel asks the agent to end the answer. What was served until then is paid; the stream goes on to its end frame, whose
// Result has CodeCancelled. Cancel may be called again, to no effect.
func (s *Stream) Cancel() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop()
}

// stop sends one cancel to whoever has the task. The lock is held.
func (s *Stream) stop() {
	if s.cancelIt || s.ended || s.order.end != nil {
		return
	}
	s.cancelIt = true
	if s.goingOn { // whoever has the task now
		s.cl.publish(bus.DoorCancelSubject(s.cl.c.ID), &bus.Cancel{Client: s.cl.c.ID, Task: s.id})
	}
	if s.ready {
		s.cl.control(s.accepted.Agent, bus.StreamControl{Task: s.id, Cancel: true})
		return
	}
	s.cl.publish(bus.DoorCancelSubject(s.cl.c.ID), &bus.Cancel{Client: s.cl.c.ID, Task: s.id})
}

// Close gives the stream up: a task that has not ended is cancelled.
func (s *Stream) Close() {
	s.fail(bus.ErrClosed)
	s.Cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finish()
}
