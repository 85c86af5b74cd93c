package serve

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/trace"

	"souk/bus"
	"souk/bus/follow"
	"souk/bus/openai"
	"souk/bus/sight"
	"souk/classifier"
	"souk/classifier/model"
)

// request is one task on its way through the door.
type request struct {
	asked
	since time.Time // it was sent after that
	came  time.Time
	taken time.Time // by the agent that serves it, of a collected answer
	span  sight.Span
	task  *bus.Task
	// when the last verdict was said at the earliest; what was heard when nobody else had it, and what the
	// hub said since that had all of them asked
	verdict sign
	heard   *classifier.Table
	looked  struct {
		hub  string
		said bus.LastStatus
	}
	ownID bool // the client gave the id
	again bool // when it came, another door might have placed it already
	want  classifier.Want
	whole *whole // of a collected answer

	placing  *classifier.Placing // under the door's lock
	cut      context.CancelFunc  // ends the wait for a hub's verdict
	accepted []byte              // the verdict as it came, if the hub accepted
	done     chan struct{}       // closed once said is the answer to a stream
	said     bus.Answer
}

func (r *request) serve() {
	s := r.s
	r.span = r.begin(bus.TraceOf(r.header))
	group := s.groups.of(r.client)
	task, opening, no := r.read(group.key)
	if no != nil {
		r.refuse(no)
		return
	}
	task.Trace = r.span.Trace
	if r.reader == r.client { // keys are known to gateways
		task.Key = ""
	}
	s.prefixKeys.name(&task.Prompt)
	task.Salt = s.prefixKeys.salt(group, task.Salt)
	r.data = nil
	r.task, r.ownID = task, task.ID != ""
	if !r.ownID {
		task.ID = rand.Text()
	}
	now := time.Now()
	if no := classifier.Judge(task, now); no != nil {
		r.refuse(no)
		return
	}
	r.name(opening)
	r.again = classifier.MayBePlaced(task, r.since, time.Now())
	task.Reply, task.Token = bus.ReplyTo(r.reader, cmp.Or(task.Token, task.ID)), ""
	if !task.Stream {
		token := s.boot + strconv.FormatUint(s.numbers.Add(1), 36)
		task.Reply, task.Token = bus.ReplyTo(s.c.ID, token), token
		r.whole = newWhole(r, now)
		s.mu.Lock()
		s.reading[token] = r.whole
		s.mu.Unlock()
		defer func() {
			s.mu.Lock()
			delete(s.reading, token)
			s.mu.Unlock()
		}()
	}
	key := r.key()
	s.mu.Lock()
	first := s.inHand[key]
	if task.Again > 0 && first != nil && first.reader == r.reader && first.task.Stream &&
		classifier.SameQuestion(first.task, task) {
		if _, waits := s.waiting[first]; waits {
			first.placing.Doubt(now)
			first.cut()
		}
		s.mu.Unlock()
		r.share(first)
		return
	}
	r.placing = s.desk.Place(now, task, r.ownID, r.want)
	// A second task in hand under one id is the hub's to judge; a cancel then reaches the first.
	if first == nil {
		s.inHand[key] = r
	}
	s.mu.Unlock()
	if r.again { // also where this door knows who had it: that hub may have let it go, and another have it
		hub, all := r.find()
		r.step(func(p *classifier.Placing) { p.Found(hub, all, r.over()) })
	}
	task.Again, task.AgeMS, task.FirstMS = 0, 0, 0
	if task.Stream {
		r.said = r.place(task)
		close(r.done)
		r.answer(r.said)
	} else {
		r.answer(bus.Answer{Result: r.whole.collect()})
	}
}

// begin begins the span of a request: within that of its gateway, or else of its client's trace or a new one.
func (r *request) begin(within bus.Trace) sight.Span {
	if r.reader == r.client {
		return r.s.d.Spans.Root("door.place", within, r.came)
	}
	return r.s.d.Spans.Begin("door.place", within, r.came, trace.SpanKindServer)
}

// key is the task's, which was read.
func (r *request) key() taskKey { return taskKey{r.client, r.task.ID} }

// share answers a request whose task is in hand here by what becomes of that.
func (r *request) share(first *request) {
	select {
	case <-first.done:
		r.accepted = first.accepted
		r.answer(first.said)
	case <-r.s.life.Done():
		r.refuse(&bus.Error{Code: bus.CodeUnavailable, Message: "the door closes; try again shortly"})
	}
}

// name fills in what the door knows of a task.
func (r *request) name(o openai.Opening) {
	s := r.s
	label, confidence := s.classify(o)
	s.mu.Lock()
	r.want = s.desk.Label(r.task, label, confidence)
	s.mu.Unlock()
}

// classify names the domain of what begins so.
func (s *Server) classify(o openai.Opening) (label string, confidence float64) {
	scratch := s.scratch.Get().(*model.Scratch)
	g := s.d.Model.Classify(scratch, o.System, o.User)
	s.scratch.Put(scratch)
	return s.labels.Read(g)
}

// place sends a task to hubs as its placing wants, until that has an answer.
func (r *request) place(t *bus.Task) bus.Answer {
	s := r.s
	header := t.Trace.Header(nil)
	r.step(func(p *classifier.Placing) { p.Tick(time.Now(), s.table.Load()) })
	for {
		s.mu.Lock()
		out := r.placing.Ready()
		s.mu.Unlock()
		switch {
		case out.Answer != nil:
			return *out.Answer
		case out.Send != "":
			t.LastStatus = r.lastStatus(t, out.Send)
			t.Voucher = s.vouch.voucher(t.Client, &out.Vouch)
			data, err := bus.Encode(t)
			if err != nil {
				return r.refusal(err)
			}
			a, err := r.send(out.Until,
				bus.Msg{Subject: bus.HubTaskSubject(out.Send, s.c.ID), Header: header, Data: data})
			switch {
			case err == nil && a.Lookup != nil:
				r.looked.hub, r.looked.said = out.Send, *a.Lookup
			case err == nil && a.SoleOwner:
				r.looked.hub, r.heard = "", r.verdict.heard
			}
			r.step(func(p *classifier.Placing) { p.Step(time.Now(), s.table.Load(), a, err, r.verdict.at) })
			continue
		case out.Find:
			hub, all := r.find()
			r.step(func(p *classifier.Placing) {
				p.Found(hub, all, r.over())
				p.Tick(time.Now(), s.table.Load())
			})
			continue
		}
		if follow.Pause(s.life, time.Until(out.Wake)) {
			r.step(func(p *classifier.Placing) { p.Tick(time.Now(), s.table.Load()) })
		} else {
			r.step(func(p *classifier.Placing) { p.End(errors.New("the door closes")) })
		}
	}
}

// lastStatus is the last status of a hub that was heard when nobody else had the task; nil if its reader
// cannot ask another door for it.
func (r *request) lastStatus(t *bus.Task, hub string) *bus.LastStatus {
	switch {
	case !classifier.MayBeAsked(t, r.ownID):
		return nil
	case r.looked.hub == hub:
		return &r.looked.said
	}
	h := r.heard.LastStatus(hub)
	return &h
}

// send sends a hub the task and waits for its verdict, as long as anybody wants that.
func (r *request) send(until time.Time, m bus.Msg) (*bus.Answer, error) {
	s := r.s
	ctx, cut := context.WithDeadline(s.life, until)
	defer cut()
	s.mu.Lock()
	r.cut = cut
	s.waiting[r] = struct{}{}
	s.mu.Unlock()
	m, err := s.d.Bus.Request(ctx, m)
	r.verdict = *s.since.Load()
	s.mu.Lock()
	delete(s.waiting, r)
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	a := new(bus.Answer)
	if err := bus.Decode(m.Data, a); err != nil {
		return nil, fmt.Errorf("its answer is not understood: %w", err)
	}
	r.accepted = m.Data
	return a, nil
}

// step changes the placing, and tells others of it.
func (r *request) step(f func(*classifier.Placing)) {
	s := r.s
	s.mu.Lock()
	if r.placing == nil { // no hub was sent it yet: there is nothing to change
		s.mu.Unlock()
		return
	}
	f(r.placing)
	hub := r.placing.Cancels()
	s.mu.Unlock()
	if hub != "" {
		s.publish(bus.CancelSubject(hub, s.c.ID), &bus.Cancel{Client: r.client, Task: r.task.ID})
	}
}

func (r *request) cancel() { r.step((*classifier.Placing).Cancel) }
