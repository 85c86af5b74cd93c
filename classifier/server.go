package classifier

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	mathrand "math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"souk/bus"
	"souk/classifier/model"
)

// Deps is what a Server is wired to.
type Deps struct {
	Bus      bus.Bus
	Registry bus.Registry
	Model    *model.Model // nil: the shipped one
	Log      *slog.Logger // nil: slog.Default
}

// Server is one door. Any number of them share the work.
type Server struct {
	c      Config
	d      Deps
	boot   string // part of every reply subject: an answer to an earlier life of this id reaches nobody
	key    []byte // of session names
	labels *model.Renamed
	ready  chan struct{}

	table   atomic.Pointer[Table]
	writing sync.Mutex // whoever replaces the table

	mu      sync.Mutex
	desk    *desk
	waiting map[string]*waiter // collected answers under way, by the last token of their reply subject
	closing bool
	asked   map[string]map[*request]context.CancelCauseFunc // requests that wait for a hub's word, by hub

	jobs    chan *request // to idle workers
	idle    atomic.Int32
	numbers atomic.Uint64
	tasks   sync.WaitGroup
	scratch sync.Pool       // *model.Scratch
	life    context.Context // of the tasks in hand
}

// waiter is a collected answer under way.
type waiter struct {
	task   string
	client string
	open   *open // of its task
	beat   chan struct{}
	result chan *bus.Result
}

// NewServer checks its configuration and wires nothing yet.
func NewServer(c Config, d Deps) (*Server, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("classifier: %w", err)
	}
	if d.Bus == nil || d.Registry == nil {
		return nil, errors.New("classifier: a bus and a registry are needed")
	}
	if d.Model == nil {
		d.Model = model.Default()
	}
	if d.Log == nil {
		d.Log = slog.Default()
	}
	s := &Server{c: c, d: d, key: []byte(c.SessionKey), boot: rand.Text()[:8], ready: make(chan struct{}), waiting: map[string]*waiter{}, asked: map[string]map[*request]context.CancelCauseFunc{}, jobs: make(chan *request)}
	s.desk = newDesk(&s.c, maphash.MakeSeed())
	s.labels = d.Model.Rename(c.Labels)
	s.table.Store(&Table{})
	s.scratch.New = func() any { return new(model.Scratch) }
	return s, nil
}

// Ready is closed once tasks are taken and the registry's hubs are known.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Stats is a snapshot.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	st := s.desk.stats.clone()
	st.Open, st.Clients = s.desk.open, len(s.desk.clients)
	s.mu.Unlock()
	now := time.Now()
	for _, h := range s.table.Load().Hubs() {
		if h.fresh(&s.c, now) {
			st.Market = append(st.Market, h.Entry.Domain)
			if h.Status != nil && h.Status.Agents > 0 && h.Status.Room > 0 {
				st.Selling = append(st.Selling, h.Entry.Domain)
			}
		}
	}
	return st
}

// Run serves until ctx ends, then lets the tasks in hand finish within Config.Drain and returns nil.
func (s *Server) Run(ctx context.Context) error {
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	s.life = life

	var subs []bus.Subscription
	defer func() {
		for _, sub := range subs {
			sub.Stop()
		}
	}()
	for _, l := range []struct {
		subject string
		h       bus.Handler
	}{
		{bus.StatusSubject("*"), s.onStatus},
		{bus.ReplySubject(s.c.ID, "*"), s.onReply},
		{bus.DoorCancelSubject("*"), s.onCancel},
	} {
		sub, err := s.d.Bus.Subscribe(l.subject, "", l.h)
		if err != nil {
			return fmt.Errorf("classifier: subscribe %s: %w", l.subject, err)
		}
		subs = append(subs, sub)
	}
	synced := make(chan struct{})
	go s.watch(life, synced)
	select {
	case <-synced:
	case <-ctx.Done():
		return nil
	}
	service, err := s.d.Bus.Serve(bus.Service{
		Name: "souk", Version: "1.0.0", Description: "Souk: a market for LLM inference. Send an OpenAI chat or completion body.",
		Endpoints: []bus.Endpoint{{Name: "task", Subject: bus.TaskSubject("*"), Queue: "doors", Handle: s.onTask}},
	})
	if err != nil {
		return fmt.Errorf("classifier: serve: %w", err)
	}
	s.d.Log.Info("door open", "door", s.c.ID, "hubs", len(s.table.Load().Hubs()))
	close(s.ready)
	<-ctx.Done()

	service.Stop()
	s.mu.Lock()
	s.closing = true
	inHand := s.desk.open
	s.mu.Unlock()
	s.d.Log.Info("door closing", "door", s.c.ID, "tasks", inHand)
	done := make(chan struct{})
	go func() { s.tasks.Wait(); close(done) }()
	patience := time.NewTimer(s.c.Drain)
	defer patience.Stop()
	select {
	case <-done:
	case <-patience.C:
		stop() // the rest is told that its fate is not known here
		<-done
	}
	flush, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	s.d.Bus.Flush(flush)
	return nil
}

// watch keeps the table as the registry has it. What is known stays known while the registry is out of reach.
func (s *Server) watch(ctx context.Context, synced chan struct{}) {
	var outage bus.Outage
	for first := true; ctx.Err() == nil; {
		events, err := s.d.Registry.Watch(ctx, bus.HubsPrefix)
		if err != nil {
			if ctx.Err() == nil && outage.Failed(time.Now(), "hubs") {
				s.d.Log.Warn("registry out of reach; going on with the hubs known", "err", err)
			}
		} else {
			if lasted, over := outage.Works(time.Now(), "hubs"); over {
				s.d.Log.Info("the registry answers again", "after", lasted.Round(time.Millisecond))
			}
			for e := range events {
				switch {
				case e.Synced:
					s.forgetHubs(ctx)
					if first {
						close(synced)
						first = false
					}
				case e.Key != "":
					s.onHub(e)
				}
			}
		}
		pause := time.NewTimer(200*time.Millisecond + mathrand.N(300*time.Millisecond))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
		}
	}
}

// forgetHubs drops hubs that left while the registry was out of reach, of which no event tells.
func (s *Server) forgetHubs(ctx context.Context) {
	keys, err := s.d.Registry.Get(ctx, bus.HubsPrefix)
	if err != nil {
		return // out of reach again: it will say Synced again
	}
	s.change(func(t *Table) *Table {
		return t.Only(func(domain string) bool {
			return slices.ContainsFunc(keys, func(kv bus.KV) bool { return bus.LastElement(kv.Key) == domain })
		})
	})
}

func (s *Server) change(f func(*Table) *Table) {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.table.Store(f(s.table.Load()))
}

func (s *Server) onHub(e bus.Event) {
	domain := bus.LastElement(e.Key)
	if e.Deleted {
		s.d.Log.Info("hub gone", "domain", domain)
		s.change(func(t *Table) *Table { return t.Without(domain) })
		s.dethroned(domain)
		return
	}
	var entry bus.HubEntry
	if err := bus.DecodeEntry(e.Value, &entry); err != nil || entry.Domain != domain {
		s.d.Log.Warn("hub entry not understood", "key", e.Key, "err", err)
		return
	}
	before, there := s.table.Load().Hub(domain)
	s.change(func(t *Table) *Table { return t.WithEntry(entry, e.Create, time.Now()) })
	if there && before.Epoch != e.Create {
		s.dethroned(domain)
	}
}

func (s *Server) onStatus(m bus.Msg) {
	st := new(bus.Status)
	if err := bus.Decode(m.Data, st); err != nil || st.Domain != bus.LastToken(m.Subject) {
		return
	}
	now := time.Now()
	s.change(func(t *Table) *Table { return t.WithStatus(st, now) })
}

// onTask takes a request in. Handlers run one after another, so everything else happens elsewhere.
func (s *Server) onTask(m bus.Msg) {
	client := bus.LastToken(m.Subject)
	if m.Reply == "" {
		s.count(func(st *Stats) { st.Received++; st.Stray++ })
		return
	}
	r := &request{s: s, client: client, reply: m.Reply, json: bus.WantsJSON(m.Data, m.Header)}
	s.mu.Lock()
	s.desk.stats.Received++
	var refusal *bus.Error
	switch {
	case s.closing:
		refusal = &bus.Error{Code: bus.CodeDraining, Message: "this door is closing; send the task again and another takes it"}
	case !bus.ValidID(client):
		refusal = &bus.Error{Code: bus.CodeBadRequest, Message: "subject: the client's id has letters, digits, '-' and '_' only"}
	case len(m.Data) > s.c.MaxPayload:
		refusal = &bus.Error{Code: bus.CodeTooLarge, Message: fmt.Sprintf("request of %d bytes: at most %d are taken", len(m.Data), s.c.MaxPayload)}
	default:
		refusal = s.desk.enter(client, max(1, len(m.Data)))
	}
	if refusal == nil {
		s.tasks.Add(1)
	}
	s.mu.Unlock()
	if refusal != nil {
		r.refuse(refusal)
		return
	}
	r.data, r.header, r.size = bytes.Clone(m.Data), m.Header, max(1, len(m.Data))
	select {
	case s.jobs <- r:
	default:
		go s.work(r)
	}
}

// maxIdle is how many workers stay when there is nothing to do. A worker that has served a task has a stack that is
// large enough for the next: growing a new one costs as much as naming the domain.
const maxIdle = 128

// work serves one task and then whatever comes. There are never more workers than tasks in hand and maxIdle.
func (s *Server) work(r *request) {
	for {
		r.serve()
		s.tasks.Done()
		if s.idle.Add(1) > maxIdle {
			s.idle.Add(-1)
			return
		}
		select {
		case r = <-s.jobs:
			s.idle.Add(-1)
		case <-s.life.Done():
			return
		}
	}
}

// onReply hands an agent's word to the answer that waits for it.
func (s *Server) onReply(m bus.Msg) {
	var c bus.Chunk
	bad := bus.Decode(m.Data, &c) != nil
	s.mu.Lock()
	w := s.waiting[bus.LastToken(m.Subject)]
	stray := bad || w == nil || c.Task != w.task || c.Attempt < w.open.attempt // the last: of an agent that was given up
	switch {
	case stray:
		s.desk.stats.Stray++
	case c.Agent != "":
		w.open.agent, w.open.attempt = c.Agent, c.Attempt // another agent serves it now
	}
	cancelled := !stray && c.Agent != "" && w.open.cancelled
	s.mu.Unlock()
	if stray {
		return
	}
	if cancelled {
		s.sendCancel(w.client, w.task, open{agent: c.Agent})
	}
	select {
	case w.beat <- struct{}{}:
	default:
	}
	if c.Result != nil {
		select {
		case w.result <- c.Result:
		default: // a repetition
		}
	}
}

// onCancel passes a client's wish to whoever has the task.
func (s *Server) onCancel(m bus.Msg) {
	client := bus.LastToken(m.Subject)
	var c bus.Cancel
	if bus.Decode(m.Data, &c) != nil {
		return
	}
	s.mu.Lock()
	where, ok := s.desk.cancel(client, c.Task)
	s.mu.Unlock()
	if ok {
		s.sendCancel(client, c.Task, where)
	}
}

func (s *Server) sendCancel(client, task string, where open) {
	switch {
	case where.agent != "":
		s.publish(bus.StreamSubject(where.agent, client), &bus.StreamControl{Client: client, Task: task, Cancel: true})
	case where.hub != "":
		s.publish(bus.CancelSubject(where.hub, client), &bus.Cancel{Client: client, Task: task})
	}
}

func (s *Server) publish(subject string, m bus.Message) {
	data, err := bus.Encode(m)
	if err == nil {
		err = s.d.Bus.Publish(bus.Msg{Subject: subject, Data: data})
	}
	switch {
	case err == nil:
	case errors.Is(err, bus.ErrDisconnected): // said once by whoever watches the bus
		s.d.Log.Debug("not sent: the bus is away", "subject", subject)
	default:
		s.d.Log.Warn("not sent", "subject", subject, "err", err)
	}
}

func (s *Server) count(f func(*Stats)) {
	s.mu.Lock()
	f(&s.desk.stats)
	s.mu.Unlock()
}

// wait opens a reply subject for a collected answer.
func (s *Server) wait(client, task string, o *open) (w *waiter, token string) {
	w = &waiter{client: client, task: task, open: o, beat: make(chan struct{}, 1), result: make(chan *bus.Result, 1)}
	token = s.boot + strconv.FormatUint(s.numbers.Add(1), 36)
	s.mu.Lock()
	s.waiting[token] = w
	s.mu.Unlock()
	return w, token
}

func (s *Server) forget(token string) {
	s.mu.Lock()
	delete(s.waiting, token)
	s.mu.Unlock()
}

// request is one task on its way through the door.
type request struct {
	s      *Server
	client string
	reply  string
	json   bool
	data   []byte // as it came, until it is read
	header bus.Header
	size   int // of data, while the task counts as in hand
	task   *bus.Task
	ownID  bool // the client gave the id
	open   *open
	hub    string // that was asked last
	again  bool   // it was given to a second agent, since the first fell silent

	accepted []byte // the hub's answer as it came, if it accepted
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
	switch {
	case task.Prompt.Tokens > s.c.MaxPromptTokens:
		r.refuse(&bus.Error{Code: bus.CodePromptTooLong, Message: fmt.Sprintf("prompt of about %d tokens: at most %d are taken", task.Prompt.Tokens, s.c.MaxPromptTokens)})
		return
	case task.DeadlineMS > 0 && task.DeadlineMS <= now.UnixMilli():
		r.refuse(&bus.Error{Code: bus.CodePastDeadline, Message: "deadline_ms: the deadline has passed; it is Unix time in milliseconds"})
		return
	}
	want := r.name()
	s.mu.Lock()
	r.open = s.desk.begin(r.client, task.ID)
	want.Session, want.Pinned = s.desk.past(r.client, task.Session, ifTrue(r.ownID, task.ID))
	if task.Resume != nil {
		want.Pinned = task.Hub // which alone knows what became of it
	}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.desk.end(r.client, task.ID, r.open)
		s.mu.Unlock()
	}()
	if task.Stream {
		task.Reply = bus.ReplySubject(r.client, task.ID)
		a := r.place(want)
		if a.Accepted != nil {
			r.passCancel(a.Accepted.Agent)
		}
		r.answer(a)
		return
	}
	w, token := s.wait(r.client, task.ID, r.open)
	defer s.forget(token)
	task.Reply = bus.ReplySubject(s.c.ID, token)
	a := r.place(want)
	if a.Accepted == nil {
		select {
		case early := <-w.result: // the hub's word was lost, the answer was not
			a = bus.Answer{Result: early}
		default:
		}
		r.answer(a)
		return
	}
	r.answer(bus.Answer{Result: r.collect(a.Accepted, w, want)})
}

func ifTrue(ok bool, v string) string {
	if ok {
		return v
	}
	return ""
}

// name fills in what the door knows of a task.
func (r *request) name() Want {
	s, t := r.s, r.task
	system, prompt := t.Opening()
	scratch := s.scratch.Get().(*model.Scratch)
	g := s.d.Model.Classify(scratch, system, prompt)
	s.scratch.Put(scratch)
	label, confidence := s.labels.Read(g)
	sure := confidence >= s.c.MinConfidence
	if !sure || label == "" {
		sure, label = false, s.c.General
	}
	t.Domain = label
	s.count(func(st *Stats) {
		st.Domains[label]++
		if !sure {
			st.Unsure++
		}
	})
	return Want{
		Hub: t.Hub, Label: label, Confident: sure, Model: t.Model,
		PromptTokens: t.Prompt.Tokens, OutputTokens: t.MaxTokens, Terms: t.Terms,
	}
}

// place asks hubs, best first, until one takes the task. A hub whose answer stays away may have it: the task is
// then never sent to another.
func (r *request) place(want Want) bus.Answer {
	s, t := r.s, r.task
	data, err := bus.Encode(t)
	if err != nil {
		return r.refusal(asError(err))
	}
	wait := s.c.MaxWait
	if t.DeadlineMS > 0 {
		wait = min(wait, time.Until(time.UnixMilli(t.DeadlineMS))+2*time.Second) // the hub tells why at the deadline
	}
	ctx, cancel := context.WithTimeout(s.life, wait)
	defer cancel()
	header := t.Trace.Header(nil)
	var tried [16]string
	var last *bus.Result
	for n := range s.c.MaxTries {
		hub, no := s.table.Load().Choose(&s.c, &want, time.Now(), tried[:n])
		if no != nil {
			if last != nil {
				return bus.Answer{Result: last} // what the last hub said is more than what the table knows
			}
			return r.refusal(no)
		}
		if !r.moveTo(hub) {
			return r.refusal(&bus.Error{Code: bus.CodeCancelled, Message: "cancelled by the client before a hub had it"})
		}
		if n > 0 {
			s.count(func(st *Stats) { st.Retried++ })
		}
		m, err := r.ask(ctx, hub, bus.Msg{Subject: bus.HubTaskSubject(hub), Header: header, Data: data})
		var a bus.Answer
		switch {
		case errors.Is(err, bus.ErrNoResponders):
			last = r.result(&bus.Error{Code: bus.CodeUnavailable, Message: fmt.Sprintf("hub %s does not listen; try again shortly", hub)})
		case errors.Is(err, bus.ErrNotSent):
			last = r.result(&bus.Error{Code: bus.CodeUnavailable, Message: fmt.Sprintf("hub %s is out of this door's reach; try again shortly", hub)})
		case errors.Is(err, bus.ErrTooLarge):
			return r.refusal(&bus.Error{Code: bus.CodeTooLarge, Message: "the task is larger than the bus takes once its fields are filled in; shorten the prompt"})
		case err != nil:
			return r.refusal(&bus.Error{Code: bus.CodeUnknown, Message: fmt.Sprintf("hub %s was given the task and has not answered (%v); it may still be served: ask again under the same id", hub, err)})
		default:
			if err := bus.Decode(m.Data, &a); err != nil {
				return r.refusal(&bus.Error{Code: bus.CodeUnknown, Message: fmt.Sprintf("hub %s gave an answer that is not understood (%v); the task may still be served", hub, err)})
			}
			if a.Accepted != nil {
				r.settled(hub)
				r.accepted = m.Data
				return a
			}
			last = a.Result
			if !elsewhere(a.Result.Code) || t.Resume != nil {
				return a
			}
		}
		tried[n] = hub
		want.Pinned = ""
		if r.ownID {
			s.mu.Lock()
			s.desk.unpin(r.client, t.ID)
			s.mu.Unlock()
		}
	}
	return bus.Answer{Result: last}
}

// errNewLeader: the hub that was asked no longer leads its domain.
var errNewLeader = errors.New("the hub that had the task no longer leads its domain")

// How long a hub that has died with a task is waited for, and how often it is looked for. The same hub knows from its journal
// what became of the task; another is never given it.
const (
	awaitHub  = 8 * time.Second
	lookAgain = 50 * time.Millisecond
)

// ask gives a hub the task and waits for its word. Should the hub die meanwhile and the same one, with the same journal,
// begin to lead again, it is asked again: to it the task is the same.
func (r *request) ask(ctx context.Context, hub string, m bus.Msg) (bus.Msg, error) {
	first, there := r.s.table.Load().Hub(hub)
	answer, err := r.askOnce(ctx, hub, m)
	for since := time.Now(); there && errors.Is(err, errNewLeader); {
		now, there := r.s.table.Load().Hub(hub)
		switch {
		case there && now.Epoch != first.Epoch && now.Entry.Journal != first.Entry.Journal || time.Since(since) > awaitHub:
			return answer, err
		case there && now.Epoch != first.Epoch:
			if answer, err = r.askOnce(ctx, hub, m); errors.Is(err, bus.ErrNoResponders) {
				err = errNewLeader // it listens in a moment
			} else if errors.Is(err, errNewLeader) {
				first = now
			}
		}
		if !errors.Is(err, errNewLeader) {
			break
		}
		t := time.NewTimer(lookAgain)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return answer, err
		}
	}
	return answer, err
}

// askOnce fails with errNewLeader as soon as the registry says so.
func (r *request) askOnce(ctx context.Context, hub string, m bus.Msg) (bus.Msg, error) {
	s := r.s
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.mu.Lock()
	if s.asked[hub] == nil {
		s.asked[hub] = map[*request]context.CancelCauseFunc{}
	}
	s.asked[hub][r] = cancel
	s.mu.Unlock()
	answer, err := s.d.Bus.Request(ctx, m)
	s.mu.Lock()
	delete(s.asked[hub], r)
	s.mu.Unlock()
	if err != nil && errors.Is(context.Cause(ctx), errNewLeader) {
		err = errNewLeader
	}
	return answer, err
}

// dethroned tells all who wait for a hub's word that it no longer leads.
func (s *Server) dethroned(hub string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, cancel := range s.asked[hub] {
		cancel(errNewLeader)
	}
}

// moveTo notes that a hub is given the task; it returns false if the client has cancelled it.
func (r *request) moveTo(hub string) bool {
	s := r.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.open.cancelled {
		return false
	}
	r.hub, r.open.hub = hub, hub
	if r.ownID {
		s.desk.pin(r.client, r.task.ID, hub)
	}
	return true
}

func (r *request) settled(hub string) {
	s := r.s
	s.mu.Lock()
	defer s.mu.Unlock()
	s.desk.settle(r.client, r.task.Session, hub)
	s.desk.stats.Hubs[hub]++
}

// collect waits for the whole answer. Heartbeats keep it patient; after a silence it asks the agent once to say
// again what may have been lost.
//
// An agent that stays silent after that is given up, once: nothing of the answer was delivered, so another begins anew.
func (r *request) collect(acc *bus.Accepted, w *waiter, want Want) *bus.Result {
	s := r.s
	r.passCancel(acc.Agent)
	silence := time.NewTimer(s.c.Silence)
	defer silence.Stop()
	end := time.NewTimer(s.c.MaxAnswer)
	defer end.Stop()
	asked := false
	for {
		select {
		case res := <-w.result:
			if res.Code.Broken() && !r.again && r.task.Failover != "off" { // its agent died, or failed where the hub knew of no other
				r.again = true
				if next := r.elsewhere(acc, want); next != nil {
					acc, asked = next, false
					r.passCancel(acc.Agent)
					silence.Reset(s.c.Silence)
					continue
				}
			}
			next := res.Chunks + 1
			s.publish(bus.StreamSubject(acc.Agent, r.client), &bus.StreamControl{Client: r.client, Task: r.task.ID, Ack: &next})
			return res
		case <-w.beat:
			silence.Reset(s.c.Silence)
			asked = false
		case <-silence.C:
			if asked && !r.again && r.task.Failover != "off" {
				r.again = true
				if next := r.elsewhere(acc, want); next != nil {
					acc, asked = next, false
					r.passCancel(acc.Agent)
					silence.Reset(s.c.Silence)
					continue
				}
				select {
				case res := <-w.result: // it spoke after all
					return res
				default:
				}
			}
			if asked {
				return r.result(&bus.Error{Code: bus.CodeUnknown, Message: fmt.Sprintf("agent %s took the task and has been silent for %v; what it served may still be settled", acc.Agent, s.c.Silence)})
			}
			asked = true
			var from uint64
			s.publish(bus.StreamSubject(acc.Agent, r.client), &bus.StreamControl{Client: r.client, Task: r.task.ID, Resume: &from})
			s.count(func(st *Stats) { st.Resumed++ })
			silence.Reset(s.c.Silence / 2)
		case <-end.C:
			s.sendCancel(r.client, r.task.ID, open{agent: acc.Agent})
			return r.result(&bus.Error{Code: bus.CodeTimeout, Message: fmt.Sprintf("the answer took longer than %v; ask for it with stream: true", s.c.MaxAnswer)})
		case <-s.life.Done():
			return r.result(&bus.Error{Code: bus.CodeUnknown, Message: "the door closed before the answer ended; what was served may still be settled"})
		}
	}
}

// elsewhere asks the hub to give the task to another agent, and returns whom; nil if it does not.
func (r *request) elsewhere(acc *bus.Accepted, want Want) *bus.Accepted {
	r.s.mu.Lock()
	agent := r.open.agent
	r.open.attempt++
	r.task.Attempt = r.open.attempt
	r.s.mu.Unlock()
	r.task.Resume, r.task.Hub, r.task.DeadlineMS = &bus.Resume{Agent: agent}, acc.Hub, 0
	want.Pinned = acc.Hub
	a := r.place(want)
	if a.Accepted == nil {
		r.s.d.Log.Info("task not taken over", "client", r.client, "task", r.task.ID, "agent", agent, "code", a.Result.Code)
	} else if a.Accepted.Agent == agent {
		return nil
	}
	return a.Accepted
}

// passCancel notes who serves the task. A cancel that came while its hub decided may have come too late there: it is
// passed to the agent too.
func (r *request) passCancel(agent string) {
	s := r.s
	s.mu.Lock()
	r.open.agent = agent
	cancelled := r.open.cancelled
	s.mu.Unlock()
	if cancelled {
		s.sendCancel(r.client, r.task.ID, open{agent: agent})
	}
}

var jsonHeader = bus.Header{"Content-Type": {"application/json"}}

// answer counts and says the one word on the request.
func (r *request) answer(a bus.Answer) {
	s := r.s
	data, err := r.encode(a)
	if most := s.d.Bus.MaxPayload(); err == nil && len(data) > most && a.Result != nil { // what was paid must be told all the same
		cut := *a.Result
		cut.Text, cut.Extra = "", nil
		cut.Code, cut.Message = bus.CodeTooLarge, fmt.Sprintf("the answer takes %d bytes, a message at most %d; ask for such answers with stream: true", len(data), most)
		a.Result = &cut
		data, err = r.encode(a)
	}
	s.mu.Lock()
	switch st := &s.desk.stats; {
	case a.Accepted != nil:
		st.Accepted++
	case a.Result.Code == "":
		st.Collected++
	default:
		st.Refused[a.Result.Code]++
	}
	if r.size > 0 { // let go first: whoever waits for this answer may send the next task at once
		s.desk.leave(r.client, r.size)
	}
	s.mu.Unlock()
	if err == nil {
		m := bus.Msg{Subject: r.reply, Data: data}
		if r.json {
			m.Header = jsonHeader
		}
		err = s.d.Bus.Publish(m)
	}
	switch {
	case err == nil:
	case errors.Is(err, bus.ErrDisconnected): // said once by whoever watches the bus
		s.d.Log.Debug("answer not sent: the bus is away", "client", r.client)
	default:
		s.d.Log.Warn("answer not sent", "client", r.client, "err", err)
	}
}

func (r *request) encode(a bus.Answer) ([]byte, error) {
	switch {
	case r.json:
		return bus.EncodeAnswer(&a)
	case a.Accepted != nil:
		return r.accepted, nil
	}
	return bus.Encode(&a)
}
