package serve

import (
	"cmp"
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"souk/agentd"
	"souk/bus"
	"souk/bus/follow"
	"souk/bus/sight"
)

// onCall tells the hub that has claimed the agent its ask, sealed at first.
func (a *agent) onCall(m bus.Msg) {
	if !a.leased() {
		return
	}
	c := new(bus.Call)
	domain := bus.LastToken(m.Subject)
	err := bus.Decode(m.Data, c)
	var ask *bus.Ask
	if err == nil {
		a.mu.Lock()
		ask, err = a.core.Ask(a.Server.cfg.Node, domain, c)
		a.mu.Unlock()
	}
	if err != nil {
		a.log.Debug("call ignored", "domain", domain, "err", err)
		return
	}
	a.send(bus.AskSubject(domain, a.cfg.ID), ask)
}

// onDispatch accepts or refuses a hub's dispatch.
func (a *agent) onDispatch(m bus.Msg) {
	if !a.leased() && !a.isGone() { // its hub asks again
		return
	}
	d := new(bus.Dispatch)
	if bus.Taken(m.Reply, bus.LastToken(m.Subject), a.cfg.ID) == "" {
		a.with((*agentd.Agent).Misled)
		a.log.Debug("dispatch ignored: its answer is to go to nobody, or to somebody else than its hub",
			"subject", m.Subject, "reply", bus.Clip(m.Reply, bus.MaxText))
		return
	}
	if err := bus.Decode(m.Data, d); err != nil {
		a.reply(m.Reply, bus.DispatchReply{Agent: a.cfg.ID, Boot: a.boot, Code: bus.CodeOf(err),
			Message: err.Error()})
		return
	}
	d.Task.Trace = bus.TraceOf(m.Header)
	domain, to := bus.LastToken(m.Subject), m.Reply
	reply, s := a.accept((*agentd.Agent).Dispatch, domain, d)
	if reply.Code == bus.CodeNotClaimed {
		decide := func() {
			again, s := a.accept((*agentd.Agent).Decide, domain, d)
			a.start(s)
			a.reply(to, again)
		}
		if !a.afterClaim(decide) {
			decide()
		}
		return
	}
	a.start(s) // the engine first: the reader waits for it longest
	a.reply(to, reply)
}

// accept puts a dispatch to the core and makes the stream of an accepted one.
func (a *agent) accept(judge func(*agentd.Agent, string, *bus.Dispatch) (bus.DispatchReply, bool),
	domain string, d *bus.Dispatch) (bus.DispatchReply, *agentd.Stream) {
	a.mu.Lock()
	defer a.mu.Unlock()
	reply, ok := judge(a.core, domain, d)
	if !ok {
		return reply, nil
	}
	s := agentd.NewStream(time.Now(), d, a.core.Begin(d), a.Server.cfg.KeepStream)
	a.streams.Add(s)
	a.runs.Add(1)
	return reply, s
}

func (a *agent) reply(to string, r bus.DispatchReply) {
	a.send(to, &r)
	if r.Code != "" {
		a.log.Debug("refused", "hold", r.Hold, "code", r.Code, "why", r.Message)
	}
	follow.Nudge(a.kick)
}

// start has the engine serve an accepted dispatch.
func (a *agent) start(s *agentd.Stream) {
	if s == nil {
		return
	}
	d := s.Dispatch()
	limit := agentd.MaxRun
	if d.TimeoutMS > 0 {
		limit = time.Duration(d.TimeoutMS) * time.Millisecond
	}
	ctx, done := context.WithTimeoutCause(context.Background(), limit, agentd.ErrTimeout)
	ctx, cancel := context.WithCancelCause(ctx)
	outages := a.outages.Load()
	a.mu.Lock()
	a.cancels[s] = cancel
	request := a.core.Request(d)
	if why := s.Stopped; why != nil { // before it began
		cancel(why)
	}
	a.mu.Unlock()
	span := a.deps.Spans.Begin("agent.serve", d.Task.Trace, time.Now(), trace.SpanKindServer)
	request.Trace = span.Trace
	a.crew.Go(func() {
		defer a.runs.Done()
		defer done()
		answer, err := agentd.Answer{Unmetered: true}, error(nil)
		if l := d.Task.Large; l != nil && a.bodies.hold(d.Task.Client, l.Bytes) {
			defer a.bodies.leave(d.Task.Client, l.Bytes)
			err = a.fetch(ctx, s, &request)
		} else if l != nil {
			err = errBodies
		}
		if err == nil {
			answer, err = a.engine.Complete(ctx, request, func(c agentd.Chunk) error {
				a.awaitReader(ctx, s)
				return a.relay(s, c)
			})
		}
		a.finish(s, outages, answer, err, span)
		cancel(nil)
	})
}

// unackedFor is how long the next piece of a large answer waits for a reader that acknowledges nothing.
const unackedFor = time.Second

// awaitReader holds back an answer that is all there at once while its reader has not taken what was sent of
// it: the bus, and what is kept here, are bounded.
func (a *agent) awaitReader(ctx context.Context, s *agentd.Stream) {
	acked := make(chan struct{}, 1)
	full := func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		if delete(a.acked, s); s.Unread() < bus.AckWindow {
			return false
		}
		a.acked[s] = acked
		return true
	}
	late := time.After(unackedFor)
	for full() {
		select {
		case <-acked:
			continue
		case <-late:
		case <-ctx.Done():
		}
		a.mu.Lock()
		delete(a.acked, s)
		a.mu.Unlock()
		return
	}
}

// fetch has the body of an answer's task from who sent that.
func (a *agent) fetch(ctx context.Context, s *agentd.Stream, to *agentd.Request) error {
	d := s.Dispatch()
	if err := a.bodies.begin(ctx, d.Task.Client); err != nil {
		return err
	}
	defer a.bodies.came(d.Task.Client)
	sender, _, _ := bus.ReaderOf(d.Task.Reply)
	body, err := follow.Body(ctx, a.deps.Bus, a.cfg.ID, sender, d.Task.Large, &a.pace)
	switch {
	case err == nil:
	case errors.Is(err, follow.ErrBody):
		return &agentd.EngineError{Code: bus.CodeBadRequest, Message: err.Error()}
	case ctx.Err() != nil:
		return err
	default:
		return &agentd.EngineError{Code: bus.CodeNoSlot, Message: "the body did not come", Err: err}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	s.Load(body)
	to.Body = body
	return nil
}

// relay passes on what one read of the engine's socket yielded.
func (a *agent) relay(s *agentd.Stream, c agentd.Chunk) error {
	a.mu.Lock()
	begins := !s.Began()
	now := time.Now()
	if c.Events > 0 {
		a.heard = now
	}
	data, err := s.Take(now, c, a.deps.Bus.MaxPayload())
	if begins = begins && s.Began(); begins {
		a.core.Began(s.Dispatch(), c.PromptIDs)
	}
	a.mu.Unlock()
	if begins {
		follow.Nudge(a.kick)
	}
	if data != nil {
		if broken := a.publish(s, data); broken != nil {
			return broken
		}
	}
	return err
}

// publish sends a chunk to its reader, without the lock: a connection may be slow. One goroutine publishes
// the chunks of a stream and its end. If a heartbeat overtakes a chunk, or the bus is away and loses it,
// the reader asks for the chunk again.
func (a *agent) publish(s *agentd.Stream, data []byte) error {
	if s.Reply == "" {
		return nil
	}
	if err := a.deps.Bus.Publish(bus.Msg{Subject: s.Reply, Data: data}); errors.Is(err, bus.ErrTooLarge) {
		return err
	}
	return nil
}

// finish settles a run: the reader's end frame goes out first, then the hub's completion. outages is the
// server's count of outages when the run began.
func (a *agent) finish(s *agentd.Stream, outages int64, answer agentd.Answer, err error, span sight.Span) {
	d := s.Dispatch()
	a.mu.Lock()
	rest, broken := s.Rest(time.Now(), a.deps.Bus.MaxPayload())
	if err == nil {
		err = broken
	}
	e, data, err := s.End(time.Now(), answer, err, a.deps.Bus.MaxPayload())
	s.Spooled = outages == a.outages.Load() && outages%2 == 0 && err == nil
	a.mu.Unlock()
	if s.Spooled {
		// Before its reader can have the answer's end. While the bus is away nobody can say what of it is
		// delivered. The lock is free: a disk may be slow.
		c := e.Completion
		c.Boot = a.boot
		a.addToSpool(agentd.Report{Domain: d.Domain, Completion: c})
	}
	for _, m := range [][]byte{rest, data} {
		if err == nil && m != nil {
			err = a.publish(s, m)
		}
	}
	if err != nil {
		a.log.Error("end frame not sent", "hold", s.Hold, "err", err)
	}

	if answer.TTFT > 0 {
		a.first.Record(answer.TTFT.Seconds(), a.cfg.ID, e.Result.Model)
	}
	if answer.ITL > 0 {
		a.inter.Record(answer.ITL.Seconds(), a.cfg.ID, e.Result.Model)
	}
	a.mu.Lock()
	delete(a.cancels, s)
	e.Completion.Trace = span.Trace
	c := a.core.Ended(d, &e)
	a.streams.Ended(time.Now(), s, agentd.KeepFrames)
	a.suspect = a.suspect || e.Doubtful
	silent := a.countsNoHits(&c)
	if e.Engine { // until it has been looked at, which is now: the next task would fare no better
		a.core.Unhealthy()
	}
	a.mu.Unlock()
	if e.Missing {
		a.log.Warn("the engine has no endpoint for such tasks, and is not sold for them", "kind", d.Task.Kind,
			"hold", s.Hold, "err", e.Fault)
		follow.Nudge(a.changed)
	}
	if e.Engine && c.Code != bus.CodeUnknownModel { // of that the look at it tells, once
		a.log.Warn("the engine failed a task", "hold", s.Hold, "task", d.Task.ID, "request",
			cmp.Or(d.Task.Request, d.Task.ID), "err", e.Fault)
	}
	if e.Engine {
		follow.Nudge(a.check)
	}
	if silent {
		a.log.Warn("the engine does not say how much of a prompt it had cached, and all of it is billed as " +
			"computed: vLLM wants --enable-prompt-tokens-details, SGLang --enable-cache-report")
	}
	endSpan(span, d, &e)
	follow.Nudge(a.kick)
	a.reports.Add(1)
	a.crew.Go(func() {
		defer a.reports.Done()
		a.report(agentd.Report{Domain: d.Domain, Completion: c})
	})
}

// endSpan ends the span of a task that was served, or failed.
func endSpan(span sight.Span, d *bus.Dispatch, e *agentd.Ending) {
	if !span.Records() {
		return
	}
	r := &e.Result
	span.Set(sight.Operation(d.Task.Kind, d.Model)...)
	span.Set(sight.Usage(r.Usage)...)
	span.Set(sight.Text("souk.agent", r.Agent), sight.Text("souk.hub", r.Hub),
		sight.Text("souk.task", r.Task), sight.Text("souk.receipt", d.Hold),
		sight.Text("souk.paid", r.Paid().String()), sight.Text("gen_ai.response.model", r.Model),
		attribute.Int("gen_ai.request.max_tokens", d.MaxTokens))
	if finish := e.Completion.Finish; finish != "" {
		span.Set(attribute.StringSlice("gen_ai.response.finish_reasons", []string{sight.Plainly(finish)}))
	}
	span.End(time.Now(), cmp.Or(r.Code, e.Completion.Code))
}

// uncountedMost is the number of answers in a row in which an engine may say nothing of its cache: earlier
// versions of vLLM left the member out where it was 0.
const uncountedMost = 8

// countsNoHits notes an answer, and reports once that the engine does not say what it found cached.
func (a *agent) countsNoHits(c *bus.Completion) bool {
	switch {
	case a.uncounted < 0 || c.Outcome != bus.OutcomeDone || c.Unmetered || c.Usage.Prompt == 0:
		return false
	case !c.NoCacheReport:
		a.uncounted = -1
		return false
	}
	if a.uncounted++; a.uncounted < uncountedMost {
		return false
	}
	a.uncounted = -1
	return true
}

// heartbeats tell readers whose engine is silent that their task is alive.
func (a *agent) heartbeats(ctx context.Context) {
	every := a.Server.cfg.Heartbeat
	t := time.Tick(every / 4)
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-t:
			var readers []string
			var beats []*bus.Chunk
			a.mu.Lock()
			a.streams.Sweep(now)
			for s := range a.streams.Running {
				if beat := s.Heartbeat(now, every*3/4); beat != nil {
					readers, beats = append(readers, s.Reply), append(beats, beat)
				}
			}
			a.mu.Unlock()
			for i, beat := range beats {
				a.send(readers[i], beat)
			}
		}
	}
}
