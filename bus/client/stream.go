package client

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"souk/bus"
	"souk/bus/follow"
	"souk/bus/reader"
)

// Stream is the answer to one task. One goroutine reads it; Cancel may be called from any.
type Stream struct {
	cl    *Client
	id    string
	token string        // what its reader calls it
	news  chan struct{} // cap 1: something happened
	told  func()        // hears of it instead, if not nil

	mu      sync.Mutex
	m       *reader.Stream  // decides
	timer   *time.Timer     // ticks it; set again only when it is over, or too late
	alarm   time.Time       // when it goes off
	cut     func(why error) // ends the wait for the market's verdict
	patient *time.Timer     // ends it when that is late
	asked   int             // how often the market was
	until   time.Time       // its first verdict is awaited no longer
	unwatch func() bool     // the context of Submit
	ended   bool            // nothing holds it any more
	large   *bus.Large      // its body, where that is kept
	sent    int             // bytes of the message to the market, while that is asked
	counted int             // bytes that Config.Grown was told of
}

// step is the unit in which a stream counts what it keeps.
const step = 4 << 10

// count tells Config.Grown what the stream keeps. The lock is held.
func (s *Stream) count() {
	if s.cl.c.Grown == nil {
		return
	}
	n := s.sent
	if !s.ended {
		n += s.m.Size()
	}
	if n = (n + step - 1) / step * step; n != s.counted {
		s.cl.c.Grown(n - s.counted)
		s.counted = n
	}
}

// ID is the task's id.
func (s *Stream) ID() string { return s.id }

// Accepted says which hub and agent serve the task: the first, until another goes on with the answer.
func (s *Stream) Accepted() bus.Accepted {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m.Accepted
}

// Result returns the task's result. It is there once Next has returned an error that came from the agent:
// io.EOF, or the *bus.Error that the Result carries.
func (s *Stream) Result() (bus.Result, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.m.Result(); r != nil {
		return *r, true
	}
	return bus.Result{}, false
}

// Next returns the next chunk, in order and once. After the last it returns io.EOF, or the *bus.Error with
// which the answer ended; a lost agent of which its hub says nothing is CodeUnknown, chunks that nobody
// has any more are CodeAnswerGone, a reader too far behind is CodeSlowReader. If this ctx ends, the stream
// goes on and Next may be called again.
func (s *Stream) Next(ctx context.Context) (bus.Chunk, error) {
	for {
		if c, err := s.take(); c.Task != "" || err != nil {
			return c, err
		}
		select {
		case <-s.news:
		case <-ctx.Done():
			return bus.Chunk{}, context.Cause(ctx)
		}
	}
}

// Poll is like Next, but does not wait: ok is false, without an error, while there may be more. It is for
// callers that Begin's told wakes.
func (s *Stream) Poll() (c bus.Chunk, ok bool, err error) {
	c, err = s.take()
	return c, c.Task != "", err
}

// take returns a chunk, or the stream's end, or neither if more may come.
func (s *Stream) take() (bus.Chunk, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.m.Next()
	s.send(s.m.Ready())
	s.count()
	if ok || !s.m.Over() {
		return c, nil
	}
	s.finish()
	return c, s.end()
}

// end returns the error with which the answer ended. The lock is held.
func (s *Stream) end() error {
	if err := s.m.Err; err != nil {
		return err
	}
	if err := refusal(s.m.Result()); err != nil {
		return err
	}
	return io.EOF
}

// Await returns once an agent has accepted the task, or with the reason why none did.
func (s *Stream) Await() error {
	for {
		if known, err := s.Verdict(); known {
			return err
		}
		<-s.news
	}
}

// Verdict reports whether the market's verdict is known, and then what Await returns.
func (s *Stream) Verdict() (known bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m.Waits() {
		return false, nil
	}
	if s.m.Over() && !s.m.Taken() {
		if err := s.end(); err != io.EOF {
			s.finish()
			return true, err
		}
	}
	return true, nil
}

// Cancel asks whoever has the task to end the answer. The part served until then is paid; the stream goes on
// to its end frame, whose Result has CodeCancelled. Cancel may be called again, to no effect.
func (s *Stream) Cancel() { s.step(reader.Cancel{}) }

// Close gives the stream up: a task that has not ended is cancelled.
func (s *Stream) Close() {
	s.step(reader.Leave{Err: bus.ErrClosed})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finish()
}

func (s *Stream) step(event any) {
	now := time.Now()
	s.mu.Lock()
	s.m.Step(now, event)
	s.do(now)
	s.mu.Unlock()
	s.tell()
}

func (s *Stream) hear(sender string, c *bus.Chunk) {
	now := time.Now()
	s.mu.Lock()
	s.m.Hear(now, sender, c)
	s.do(now)
	s.mu.Unlock()
	s.tell()
}

func (s *Stream) tick() {
	now := time.Now()
	s.mu.Lock()
	s.m.Step(now, reader.Bus{Since: s.cl.bus.Connected()})
	s.m.Tick(now)
	s.do(now)
	s.mu.Unlock()
	s.tell()
}

// tell says that there is news. The lock is free: who is told may ask.
func (s *Stream) tell() {
	if s.told != nil {
		s.told()
		return
	}
	follow.Nudge(s.news)
}

// do carries out the machine's effects. The lock is held.
func (s *Stream) do(now time.Time) {
	r := s.m.Ready()
	s.send(r)
	if s.m.Finished() {
		s.finish()
	} else if !r.Wake.IsZero() {
		s.wakeAt(r.Wake, now)
	}
	s.count()
}

// send carries out those that others hear. The lock is held.
func (s *Stream) send(r reader.Ready) {
	if r.CancelTask {
		s.cl.cancelTask(s.id)
		// whoever accepts at this very moment is heard until then, and cancelled
		cut := s.cut
		closed := context.AfterFunc(s.cl.life, func() { cut(context.Canceled) })
		time.AfterFunc(grace, func() {
			closed()
			cut(context.Canceled)
		})
	}
	for i := range r.Controls {
		s.cl.reader.control(&r.Controls[i])
	}
	if r.Submit != nil {
		if s.asked++; s.asked > 1 {
			s.cut(context.Canceled)
		}
		if r.Submit.Again == 0 || s.until.IsZero() {
			s.until = time.Now().Add(s.cl.c.MaxWait)
		}
		s.ask(r.Submit, s.asked)
	}
}

// ask gives a task to the market. The verdict is ignored if the market was asked again since. The lock is
// held.
func (s *Stream) ask(t *bus.Task, n int) {
	err := bus.EncodeFor(t, func(data []byte) {
		sent := len(data)
		s.sent += sent
		s.cut = ask(s.cl.bus, bus.Msg{Subject: bus.TaskSubject(s.cl.c.ID, s.cl.gateway()),
			Header: t.Trace.Header(nil), Data: data},
			func(m bus.Msg, err error) { s.verdict(n, sent, m, err) })
	})
	switch {
	case err != nil:
		s.cut = func(error) {}
		go s.verdict(n, 0, bus.Msg{}, err)
	case s.patient == nil:
		s.patient = time.AfterFunc(time.Until(s.until), s.late)
	default:
		s.patient.Reset(time.Until(s.until))
	}
}

// late gives up the wait for the market's verdict.
func (s *Stream) late() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut(context.DeadlineExceeded)
}

// verdict takes in what the market says to a task, for which so many bytes were sent.
func (s *Stream) verdict(n, sent int, m bus.Msg, err error) {
	a := new(bus.Answer)
	if err == nil {
		if err = bus.Decode(m.Data, a); err != nil {
			err = fmt.Errorf("answer of the door: %w", err)
		}
	}
	if err != nil {
		a = nil
	}
	now := time.Now()
	s.mu.Lock()
	s.sent -= sent
	if n != s.asked {
		s.count()
		s.mu.Unlock()
		return
	}
	if s.patient != nil {
		s.patient.Stop()
	}
	s.m.Step(now, reader.Verdict{Answer: a, Err: err})
	s.do(now)
	s.mu.Unlock()
	s.tell()
}

// ask asks a bus without anybody waiting. What m carries is the caller's again at once.
func ask(b bus.Bus, m bus.Msg, answered func(bus.Msg, error)) (cut func(why error)) {
	if a, ok := b.(bus.Asker); ok {
		return a.Ask(m, answered)
	}
	ctx, end := context.WithCancelCause(context.Background())
	m.Data = bytes.Clone(m.Data)
	go func() {
		m, err := b.Request(ctx, m)
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		end(nil)
		answered(m, err)
	}()
	return end
}

// wakeAt has the machine tick then. A stream that moves puts this off with every chunk, so an alarm that
// is set goes off when it may and finds nothing, which costs less. The lock is held.
func (s *Stream) wakeAt(due, now time.Time) {
	switch {
	case s.timer == nil:
		s.timer = time.AfterFunc(due.Sub(now), s.tick)
	case s.alarm.After(now) && !s.alarm.After(due):
		return
	default:
		s.timer.Reset(due.Sub(now))
	}
	s.alarm = due
}

// finish lets go of everything that holds the stream. It may be called again. The lock is held.
func (s *Stream) finish() {
	if s.cl.forget(s); !s.ended && s.m.Over() {
		s.cl.reader.settle(s.cl.c.ID, s.token, s.m, bus.CodeOf(s.end()), time.Now())
	}
	if s.timer != nil {
		s.timer.Stop()
	}
	if s.unwatch != nil {
		s.unwatch()
	}
	if s.patient != nil && !s.ended && s.patient.Stop() { // whoever accepts now is cancelled
		s.patient.Reset(grace)
	}
	s.ended = true
	if s.large != nil {
		s.cl.reader.leave(s.large)
		s.large = nil
	}
	s.count()
}
