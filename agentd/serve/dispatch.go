package serve

import (
	"context"
	"errors"
	"sync"
	"time"

	"souk/agentd"
	"souk/bus"
)

// onCall tells the hub that has claimed us what a task is to bring us, sealed at first.
func (a *seller) onCall(m bus.Msg) {
	c := new(bus.Call)
	domain := bus.LastToken(m.Subject)
	err := bus.Decode(m.Data, c)
	var ask *bus.Ask
	if err == nil {
		a.mu.Lock()
		ask, err = a.core.Ask(a.Server.cfg.Node, domain, c, a.secret)
		a.mu.Unlock()
	}
	if err != nil {
		a.log.Debug("call ignored", "domain", domain, "err", err)
		return
	}
	a.tell(bus.AskSubject(domain, a.cfg.ID), ask)
}

// onDispatch answers a hub.
func (a *seller) onDispatch(m bus.Msg) {
	d := new(bus.Dispatch)
	reply := bus.DispatchReply{Agent: a.cfg.ID}
	if err := bus.Decode(m.Data, d); err != nil {
		reply.Code, reply.Message = bus.CodeOf(err), err.Error()
		a.answer(m.Reply, reply)
		return
	}
	d.Task.Trace = bus.TraceOf(m.Header)
	domain, to := bus.LastToken(m.Subject), m.Reply
	reply, started := a.take(domain, d)
	if reply.Code == bus.CodeNotClaimed && a.askClaim(func() {
		again, started := a.take(domain, d)
		a.start(started)
		a.answer(to, again)
	}) {
		return
	}
	a.start(started) // the engine first: the reader waits for it longest
	a.answer(to, reply)
}

// live is an answer and who may touch it. mu is held around every method of the stream and the sending of
// what that returns; the seller's own guards cancel and quit.
type live struct {
	mu sync.Mutex
	agentd.Stream

	kept   *agentd.Kept[*live]
	era    int64 // of the bus when it began
	cancel context.CancelCauseFunc
	quit   *time.Timer // ends it after a cancel if the engine says nothing
}

// take puts a dispatch to the core and makes the stream of an accepted one.
func (a *seller) take(domain string, d *bus.Dispatch) (bus.DispatchReply, *live) {
	a.mu.Lock()
	defer a.mu.Unlock()
	reply, ok := a.core.Dispatch(domain, d)
	if !ok {
		return reply, nil
	}
	s := newLive(time.Now(), d, a.core.Begin(d), a.Server.cfg.KeepStream)
	s.era = a.era.Load()
	s.kept = a.shelf.Add(s.ID, s.Hold, s)
	a.runs.Add(1)
	return reply, s
}

func newLive(now time.Time, d *bus.Dispatch, run *agentd.Run, keep int) *live {
	return &live{Stream: agentd.NewStream(now, d, run, keep)}
}

func (a *seller) answer(to string, r bus.DispatchReply) {
	if to != "" {
		a.tell(to, &r)
	}
	if r.Code != "" {
		a.log.Debug("refused", "hold", r.Hold, "code", r.Code, "why", r.Message)
	}
	nudge(a.kick)
}

// start serves an accepted dispatch.
func (a *seller) start(s *live) {
	if s == nil {
		return
	}
	d := s.Dispatch()
	limit := a.Server.cfg.MaxRun
	if d.TimeoutMS > 0 {
		limit = time.Duration(d.TimeoutMS) * time.Millisecond
	}
	ctx, done := context.WithTimeoutCause(context.Background(), limit, agentd.ErrTimeout)
	ctx, cancel := context.WithCancelCause(ctx)
	a.mu.Lock()
	s.cancel = cancel
	request := a.core.Request(d)
	if why := s.kept.Stopped(); why != nil { // before it began
		cancel(why)
	}
	a.mu.Unlock()
	go func() {
		defer a.runs.Done()
		defer done()
		answer, err := a.engine.Complete(ctx, request, func(c agentd.Chunk) error { return a.relay(s, c) })
		a.finish(s, answer, err)
		cancel(nil)
	}()
}

// relay passes on what one read of the engine's socket yielded.
func (a *seller) relay(s *live, c agentd.Chunk) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	data, err := s.Take(time.Now(), c, a.deps.Bus.MaxPayload())
	if err != nil || data == nil {
		return err
	}
	return a.publish(s, data)
}

// publish sends a chunk to its reader. A bus that is away loses it; the reader asks again.
func (a *seller) publish(s *live, data []byte) error {
	if s.Reply == "" {
		return nil
	}
	if err := a.deps.Bus.Publish(bus.Msg{Subject: s.Reply, Data: data}); errors.Is(err, bus.ErrTooLarge) {
		return err
	}
	return nil
}

// finish settles a run: the reader's last word first, then the hub's account.
func (a *seller) finish(s *live, answer agentd.Answer, err error) {
	s.mu.Lock()
	d := s.Dispatch()
	e, data, err := s.End(time.Now(), answer, err, a.deps.Bus.MaxPayload())
	unsaid := s.Unsaid()
	if s.era == a.era.Load() && s.era%2 == 0 && err == nil {
		// Before its reader can have the answer's end. While the bus is away nobody can say what of it is
		// delivered. A disk may be slow, and others look at the stream.
		s.mu.Unlock()
		c := e.Completion
		c.Boot = a.boot
		a.keepReport(agentd.Report{Domain: d.Domain, Completion: c})
		s.mu.Lock()
	}
	if err == nil && !unsaid {
		err = a.publish(s, data)
	}
	s.mu.Unlock()
	if err != nil {
		a.log.Error("end frame not sent", "client", s.ID.Client, "task", s.ID.Task, "err", err)
	}

	a.mu.Lock()
	c := a.core.Ended(d, &e)
	a.suspect = a.suspect || e.Doubtful
	if e.Engine {
		a.core.Unhealthy() // until it has been looked at, which is now: whatever comes next would fare as ill
	}
	if s.cancel = nil; s.quit != nil {
		s.quit.Stop()
	}
	s.mu.Lock()
	bytes := s.Bytes()
	s.mu.Unlock()
	a.shelf.Put(time.Now(), s.kept, bytes, a.Server.cfg.KeepFrames, unsaid)
	a.mu.Unlock()
	if e.Engine {
		a.log.Warn("the engine failed a task", "client", s.ID.Client, "task", s.ID.Task, "err",
			e.Result.Message)
		nudge(a.check)
	}
	nudge(a.kick)
	a.sends.Go(func() { a.report(agentd.Report{Domain: d.Domain, Completion: c}) })
}

// heartbeats tell readers whose engine is silent that their task is alive.
func (a *seller) heartbeats(ctx context.Context) {
	every := a.Server.cfg.Heartbeat
	t := time.NewTicker(every / 4)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-t.C:
			a.mu.Lock()
			a.shelf.Sweep(now)
			running := a.shelf.Running()
			a.mu.Unlock()
			for _, s := range running {
				s.mu.Lock()
				if beat := s.Heartbeat(now, every*3/4); beat != nil {
					a.tell(s.Reply, beat)
				}
				s.mu.Unlock()
			}
		}
	}
}
