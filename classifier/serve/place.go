package serve

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"time"

	"souk/bus"
	"souk/classifier"
	"souk/classifier/model"
)

// request is one task on its way through the door.
type request struct {
	s       *Server
	client  string
	reply   string
	json    bool
	data    []byte // as it came, until it is read
	header  bus.Header
	size    int  // of data
	entered bool // it is in hand
	task    *bus.Task
	ownID   bool // the client gave the id
	want    classifier.Want
	whole   *whole // of a collected answer

	placing  *classifier.Placing // under the door's lock
	cut      context.CancelFunc  // ends the wait for a hub's word
	accepted []byte              // that word as it came, if the hub accepted
}

func (r *request) serve() {
	s := r.s
	task, no := bus.DecodeRequest(r.data, r.header, r.client, s.key)
	if no != nil {
		r.refuse(no)
		return
	}
	task.Trace = bus.TraceOf(r.header)
	r.data = nil
	r.task, r.ownID = task, task.ID != ""
	if !r.ownID {
		task.ID = rand.Text()
	}
	now := time.Now()
	if no := s.c.Judge(task, now); no != nil {
		r.refuse(no)
		return
	}
	r.name()
	task.Reply = bus.ReplySubject(r.client, task.ID)
	if !task.Stream {
		token := s.boot + strconv.FormatUint(s.numbers.Add(1), 36)
		task.Reply = bus.ReplySubject(s.c.ID, token)
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
	key := taskKey{r.client, task.ID}
	s.mu.Lock()
	r.placing = s.desk.Place(now, task, r.ownID, r.want)
	// A second task in hand under one id is the hub's to judge; a cancel then reaches the first.
	if s.inHand[key] == nil {
		s.inHand[key] = r
	}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		if s.inHand[key] == r {
			delete(s.inHand, key)
		}
		s.mu.Unlock()
	}()
	if task.Stream {
		r.answer(r.place(task))
	} else {
		r.answer(bus.Answer{Result: r.whole.collect()})
	}
}

// name fills in what the door knows of a task.
func (r *request) name() {
	s, t := r.s, r.task
	system, prompt := t.Opening()
	scratch := s.scratch.Get().(*model.Scratch)
	g := s.d.Model.Classify(scratch, system, prompt)
	s.scratch.Put(scratch)
	label, confidence := s.labels.Read(g)
	s.mu.Lock()
	r.want = s.desk.Label(t, label, confidence)
	s.mu.Unlock()
}

// place gives a task to hubs as its placing wants, until that has an answer.
func (r *request) place(t *bus.Task) bus.Answer {
	s := r.s
	data, err := bus.Encode(t)
	if err != nil {
		return r.refusal(err)
	}
	header := t.Trace.Header(nil)
	r.step(func(p *classifier.Placing) { p.Tick(time.Now(), s.table.Load()) })
	for {
		s.mu.Lock()
		out := r.placing.Ready()
		s.mu.Unlock()
		switch {
		case out.Answer != nil:
			return *out.Answer
		case out.Ask != "":
			a, err := r.ask(out.Until,
				bus.Msg{Subject: bus.HubTaskSubject(out.Ask), Header: header, Data: data})
			r.step(func(p *classifier.Placing) { p.Step(time.Now(), s.table.Load(), a, err) })
			continue
		}
		pause := time.NewTimer(time.Until(out.Wake))
		select {
		case <-pause.C:
			r.step(func(p *classifier.Placing) { p.Tick(time.Now(), s.table.Load()) })
		case <-s.life.Done():
			r.step(func(p *classifier.Placing) { p.End(errors.New("the door closes")) })
		}
		pause.Stop()
	}
}

// ask gives a hub the task and waits for its word, as long as anybody wants it.
func (r *request) ask(until time.Time, m bus.Msg) (*bus.Answer, error) {
	s := r.s
	ctx, cut := context.WithDeadline(s.life, until)
	defer cut()
	s.mu.Lock()
	r.cut = cut
	s.asking[r] = struct{}{}
	s.mu.Unlock()
	m, err := s.d.Bus.Request(ctx, m)
	s.mu.Lock()
	delete(s.asking, r)
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
	if r.placing == nil { // nobody was asked yet: there is nothing to change
		s.mu.Unlock()
		return
	}
	f(r.placing)
	hub, agent := r.placing.Tells()
	s.mu.Unlock()
	if hub != "" {
		s.publish(bus.CancelSubject(hub, r.client), &bus.Cancel{Client: r.client, Task: r.task.ID})
	}
	if agent != "" {
		cancel := &bus.StreamControl{Task: r.task.ID, Cancel: true}
		s.publish(bus.StreamSubject(agent, r.client), cancel)
	}
}

func (r *request) withdraw() { r.step((*classifier.Placing).Cancel) }
