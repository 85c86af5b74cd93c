package machines

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"souk/agentd"
	"souk/bus"
	"souk/market"
)

// agentPart is an agent's process and its engine.
type agentPart struct {
	*part
	domain  string
	boot    int64
	core    *agentd.Agent
	streams agentd.Streams
	runs    map[*agentd.Stream]*running
	spool   []agentd.Report // durable
	fence   int64
	due     int
	resends int
	outages int
}

// running is an answer that the engine works on.
type running struct {
	why    error
	next   int
	tokens int
	more   int // prompt tokens, by its own count
	fails  int // before this token; -1: it does not
	hangs  bool
	began  time.Time
	first  time.Time
	over   bool
}

var card = market.Price{Miss: market.Credit, Hit: market.Credit / 2, Out: 200 * market.Credit}

func (w *whole) newAgent(domain, name string) *agentPart {
	a := &agentPart{part: w.newPart(name), domain: domain}
	w.agents = append(w.agents, a)
	a.news = func(there bool) {
		a.outages++
		if there {
			a.core.Reconnected()
			a.kick()
		}
	}
	a.start()
	return a
}

func (a *agentPart) start() {
	w := a.w
	a.boot++
	cfg := agentd.AgentConfig{ID: a.name, Slots: 3, Price: card, Scale: 8, Model: "llama",
		Engine:  agentd.EngineConfig{URL: "http://127.0.0.1"},
		Domains: []bus.DomainScore{{Domain: a.domain, Score: 0.9}}}
	info := agentd.Info{Models: []string{"llama"}, Version: "whole", MaxModelLen: 8192, BlockSize: 16,
		KVTokens: 100_000}
	a.core = agentd.NewAgent(cfg, agentd.Default(), info, a.boot, [32]byte{byte(a.boot)})
	a.core.Restore(slices.Clone(a.spool))
	a.streams, a.runs = agentd.NewStreams(1<<20), map[*agentd.Stream]*running{}
	a.up, a.cut, a.knows, a.since, a.fence = true, false, false, w.now, 0
	a.kick()
	var beats func()
	beats = func() {
		a.streams.Sweep(w.now)
		all := slices.SortedFunc(maps.Keys(a.streams.Running),
			func(x, y *agentd.Stream) int { return cmp.Compare(x.Hold, y.Hold) })
		for _, s := range all {
			if b := s.Heartbeat(w.now, 1500*time.Millisecond); b != nil {
				w.chunk(a.part, s.Reply, copied(w, b))
			}
		}
		a.on(500*time.Millisecond, beats)
	}
	a.on(0, beats)
}

func (a *agentPart) kill(back time.Duration) {
	if !a.up {
		return
	}
	a.w.note("%s is killed (%d run, %d in its spool)", a.name, len(a.runs), len(a.spool))
	a.up, a.sleep = false, time.Time{}
	a.life++
	a.w.after(back, func() {
		a.w.note("%s starts again", a.name)
		a.start()
	})
}

func (a *agentPart) readClaim() {
	c := a.w.registry.claims[a.name]
	if c == nil {
		a.core.Unclaimed(a.fence)
	} else {
		one := *c
		a.fence = one.Fence
		a.core.Claimed(&one)
	}
	a.kick()
}

func (a *agentPart) dispatched(h *hubPart, d *bus.Dispatch) {
	r, start := a.core.Dispatch(h.domain, d)
	if r.Code == bus.CodeNotClaimed {
		a.on(a.w.within(5*time.Millisecond), func() {
			if c := a.w.registry.claims[a.name]; c != nil && !a.cut {
				one := *c
				a.fence = one.Fence
				a.core.Claimed(&one)
			}
			again, start := a.core.Decide(h.domain, d)
			a.took(h, d, again, start)
		})
		return
	}
	a.took(h, d, r, start)
}

func (a *agentPart) took(h *hubPart, d *bus.Dispatch, r bus.DispatchReply, start bool) {
	if start {
		a.serve(d)
	}
	a.reply(h.domain, &r)
	a.kick()
}

func (a *agentPart) reply(domain string, r *bus.DispatchReply) {
	w, reply := a.w, copied(a.w, r)
	for _, to := range w.hubs {
		if to.domain == domain {
			w.say(a.part, to.part, true, func() {
				v := reply()
				v.Agent = a.name
				to.step(v)
			})
		}
	}
}

func (a *agentPart) serve(d *bus.Dispatch) {
	w := a.w
	s := agentd.NewStream(w.now, d, a.core.Begin(d), 1<<20)
	a.streams.Add(s)
	a.core.Request(d)
	x := &running{tokens: 1 + w.r.IntN(min(d.MaxTokens, 12)), fails: -1, began: w.now}
	if w.chance(0.2) {
		x.more = w.r.IntN(100) - 40
	}
	if !w.quiet && w.chance(0.1) {
		x.fails = w.r.IntN(x.tokens + 1)
	} else if !w.quiet && w.chance(0.03) {
		x.hangs = true
	}
	a.runs[s] = x
	if d.TimeoutMS > 0 {
		a.on(time.Duration(d.TimeoutMS)*time.Millisecond, func() { a.cancelRun(s, 0, agentd.ErrTimeout) })
	}
	outages := a.outages
	a.on(10*time.Millisecond+w.within(300*time.Millisecond), func() { a.token(s, x, outages) })
}

func (a *agentPart) cancelRun(s *agentd.Stream, wait time.Duration, why error) {
	if x := a.runs[s]; x != nil && !x.over {
		a.on(wait, func() {
			if !x.over && x.why == nil {
				x.why = why
				a.finish(s, x, a.outages, why)
			}
		})
	}
}

func (a *agentPart) token(s *agentd.Stream, x *running, outages int) {
	w := a.w
	switch {
	case x.over || x.hangs:
		return
	case x.next == x.fails:
		code := bus.CodeEngineFailed
		a.finish(s, x, outages, &agentd.EngineError{Code: code, Message: "the engine broke off"})
		return
	case x.next == x.tokens:
		a.finish(s, x, outages, nil)
		return
	}
	d := s.Dispatch()
	c := agentd.Chunk{Text: "word ", Tokens: []uint32{uint32(x.next + 7)}, Count: 1, Events: 1}
	if x.next == 0 {
		c.Prompt = d.Task.Prompt.Tokens + x.more
		if from := d.Task.Resume; from != nil && len(from.Tokens) > 0 {
			c.Base, c.Kept = c.Prompt, len(from.Tokens)
			c.Prompt += c.Kept
		}
		x.first = w.now
	}
	x.next++
	begins := !s.Began()
	data, err := s.Take(w.now, c, bus.MaxMessage)
	if begins && s.Began() {
		a.core.Began(d, nil)
	}
	if data != nil {
		a.publish(s, data)
	}
	if err != nil {
		a.finish(s, x, outages, err)
		return
	}
	gap := 5*time.Millisecond + w.within(100*time.Millisecond)
	if w.chance(0.02) {
		gap += w.within(6 * time.Second)
	}
	a.on(gap, func() { a.token(s, x, outages) })
}

func (a *agentPart) publish(s *agentd.Stream, data []byte) {
	if s.Reply == "" {
		return
	}
	a.w.chunk(a.part, s.Reply, func() *bus.Chunk {
		c := new(bus.Chunk)
		if err := bus.Decode(data, c); err != nil {
			a.w.t.Fatal(err)
		}
		return c
	})
}

func (a *agentPart) finish(s *agentd.Stream, x *running, outages int, why error) {
	w := a.w
	x.over = true
	delete(a.runs, s)
	d := s.Dispatch()
	prompt := d.Task.Prompt.Tokens + x.more
	if from := d.Task.Resume; from != nil {
		prompt += len(from.Tokens)
	}
	answer := agentd.Answer{Finish: "stop", Usage: market.Usage{Prompt: prompt, Output: x.next},
		Unmetered: w.chance(0.1)}
	if answer.NoCacheReport = w.chance(0.2); !answer.NoCacheReport {
		answer.Usage.Cached = w.r.IntN(prompt)
	}
	if x.next > 0 {
		answer.TTFT = x.first.Sub(x.began)
	}
	rest, err := s.Rest(w.now, bus.MaxMessage)
	if err != nil {
		w.t.Fatal(err)
	}
	e, data, err := s.End(w.now, answer, why, bus.MaxMessage)
	if err != nil {
		w.t.Fatal(err)
	}
	if e.Completion.Outcome != bus.OutcomeFailed && outages == a.outages {
		c := e.Completion
		c.Boot = a.boot
		a.spool, s.Spooled = append(a.spool, agentd.Report{Domain: d.Domain, Completion: c}), true
	}
	after := func() {
		for _, m := range [][]byte{rest, data} {
			if m != nil {
				a.publish(s, m)
			}
		}
		c := a.core.Ended(d, &e)
		a.streams.Ended(w.now, s, agentd.KeepFrames)
		if e.Engine {
			a.core.Unhealthy()
			a.on(300*time.Millisecond, func() { a.core.Healthy(nil); a.kick() })
		}
		a.kick()
		a.report(agentd.Report{Domain: d.Domain, Completion: c})
	}
	a.on(w.within(time.Millisecond), after) // the disk is slow, and a kill may come here
}

// report sends a completion to its hub once.
func (a *agentPart) report(r agentd.Report) {
	w := a.w
	var to []*part
	hubs := map[*part]*hubPart{}
	for _, h := range w.hubs {
		if h.domain == r.Domain && (h.leading || len(h.frames) > 0) {
			to, hubs[h.part] = append(to, h.part), h
		}
	}
	c := copied(w, &r.Completion)
	w.ask(a.part, to, true, 2*time.Second, func(p *part, inbox string) bool {
		v := c()
		v.Agent, v.Inbox = a.name, inbox
		hubs[p].step(v)
		return true
	}, func(m bus.Message, err error) {
		ack, ok := m.(*bus.CompletionAck)
		if err == nil && (!ok || ack.Hold != r.Completion.Hold ||
			ack.Code != "" && ack.Code != bus.CodeLate && ack.Code != bus.CodeMoved) {
			err = errors.New("not an acknowledgement")
		}
		if err == nil {
			if r.Completion.Unsaid {
				if s := a.streams.Withheld(r.Completion.Hold); s != nil {
					if end := s.Decided(w.now, ack.Code == bus.CodeMoved); end != nil {
						a.publish(s, end)
					}
				}
			}
			a.core.Acked(r.Completion.Hold, ack.Code)
			a.spool = slices.DeleteFunc(a.spool,
				func(o agentd.Report) bool { return o.Completion.Hold == r.Completion.Hold })
		} else if a.core.Unsent(w.now, r.Completion.Hold, w.r.Float64()) {
			w.t.Errorf("%s gives up the completion of %s", a.name, r.Completion.Hold)
		}
		a.kick()
	})
}

// kick does what is due.
func (a *agentPart) kick() {
	w := a.w
	r := a.core.Ready(w.now)
	for _, h := range w.hubs {
		if h.domain != r.Domain {
			continue
		}
		if r.Summary != nil {
			m := copied(w, r.Summary)
			w.say(a.part, h.part, true, func() {
				v := m()
				v.Agent = a.name
				h.step(v)
			})
		}
		for i := range r.Holdings {
			m := copied(w, &r.Holdings[i])
			w.say(a.part, h.part, true, func() {
				v := m()
				v.Agent = a.name
				h.step(v)
			})
		}
	}
	for _, c := range r.Completions {
		a.report(c)
	}
	a.due++
	due := a.due
	a.on(max(time.Millisecond, r.Wake.Sub(w.now)), func() {
		if due == a.due {
			a.kick()
		}
	})
}

// control is a hub's word on a hold.
func (a *agentPart) control(domain string, c *bus.HoldControl) {
	if c.Holdings {
		a.core.Asked(domain)
		a.kick()
	}
	switch s := a.streams.OfHold(domain, c.Hold); {
	case c.Withdraw && s != nil && s.Withdraw():
		a.cancelRun(s, 0, agentd.ErrWithdrawn)
	case c.Withdraw:
		if r := a.core.Withdrawn(domain, c.Hold, s); r != nil {
			a.reply(domain, r)
		}
	case s == nil:
	case c.Cancel:
		a.cancel(s)
	case c.Late:
		if why := s.Late(a.w.now, time.Time{}); why != nil {
			a.cancelRun(s, 0, why)
		}
	}
}

func (a *agentPart) cancel(s *agentd.Stream) {
	if wait, ok := s.Cancel(a.w.now); ok {
		a.cancelRun(s, wait, agentd.ErrCancelled)
	}
}

// heard is the word of an answer's reader.
func (a *agentPart) heard(reader string, c *bus.StreamControl) {
	w, id := a.w, agentd.StreamID{Reader: reader, Token: c.Token}
	s := a.streams.Find(id)
	switch {
	case s == nil:
		if c.Resume != nil && a.streams.Stranger(w.now) {
			m := agentd.Unknown(a.name, id, *c.Resume)
			w.chunk(a.part, bus.ReplySubject(reader, c.Token, a.name), copied(w, m))
		}
	case c.Resume != nil:
		a.streams.Resend(s, *c.Resume)
		a.resend()
	case c.Cancel:
		a.cancel(s)
	case c.Ack != nil:
		if a.streams.Acked(s, *c.Ack) && !s.Spooled {
			a.spool = append(a.spool, slices.DeleteFunc(a.core.Pending(s.Hold),
				func(r agentd.Report) bool { return r.Completion.Outcome == bus.OutcomeFailed })...)
		}
	}
}

func (a *agentPart) resend() {
	w := a.w
	for {
		p, wake := a.streams.Next(w.now, a.name)
		if p.Notice != nil {
			w.chunk(a.part, p.Stream.Reply, copied(w, p.Notice))
		}
		for _, data := range p.Messages {
			a.publish(p.Stream, data)
		}
		if p.Stream == nil {
			if !wake.IsZero() {
				a.resends++
				n := a.resends
				a.on(wake.Sub(w.now), func() {
					if n == a.resends {
						a.resend()
					}
				})
			}
			return
		}
	}
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
