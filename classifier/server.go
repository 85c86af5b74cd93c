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
	"souk/bus/reader"
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
	inHand  map[taskKey]*request  // tasks that can be cancelled here
	asking  map[*request]struct{} // those of them for which a hub was asked
	reading map[string]*whole     // answers that are collected, by the last token of their reply subject
	closing bool

	jobs    chan *request // to idle workers
	idle    atomic.Int32
	numbers atomic.Uint64
	tasks   sync.WaitGroup
	scratch sync.Pool       // *model.Scratch
	life    context.Context // of the tasks in hand
}

// taskKey names a task within the market.
type taskKey struct{ client, task string }

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
	s := &Server{
		c: c, d: d, key: []byte(c.SessionKey), boot: rand.Text()[:8], ready: make(chan struct{}), jobs: make(chan *request),
		inHand: map[taskKey]*request{}, asking: map[*request]struct{}{}, reading: map[string]*whole{},
	}
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
	s.look()
}

func (s *Server) change(f func(*Table) *Table) {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.table.Store(f(s.table.Load()))
}

// look has all tasks for which a hub was asked look at the table: that hub may lead no more, and give no word.
func (s *Server) look() {
	now, t := time.Now(), s.table.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	for r := range s.asking {
		if r.placing.Tick(now, t); r.placing.asks() == "" {
			r.cut()
		}
	}
}

func (s *Server) onHub(e bus.Event) {
	domain := bus.LastElement(e.Key)
	if e.Deleted {
		s.d.Log.Info("hub gone", "domain", domain)
		s.change(func(t *Table) *Table { return t.Without(domain) })
		s.look()
		return
	}
	var entry bus.HubEntry
	if err := bus.DecodeEntry(e.Value, &entry); err != nil || entry.Domain != domain {
		s.d.Log.Warn("hub entry not understood", "key", e.Key, "err", err)
		return
	}
	s.change(func(t *Table) *Table { return t.WithEntry(entry, e.Create, time.Now()) })
	s.look()
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
	c := new(bus.Chunk)
	bad := bus.Decode(m.Data, c) != nil
	s.mu.Lock()
	w := s.reading[bus.LastToken(m.Subject)]
	stray := bad || w == nil || c.Task != w.task.ID
	if stray {
		s.desk.stats.Stray++
	}
	s.mu.Unlock()
	if !stray {
		w.step(c)
	}
}

// onCancel passes a client's wish to whoever has the task.
func (s *Server) onCancel(m bus.Msg) {
	var c bus.Cancel
	if bus.Decode(m.Data, &c) != nil {
		return
	}
	s.mu.Lock()
	r := s.inHand[taskKey{bus.LastToken(m.Subject), c.Task}]
	s.mu.Unlock()
	switch {
	case r == nil:
	case r.whole != nil:
		r.whole.step(reader.Cancel{})
	default:
		r.withdraw()
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
	want   Want
	whole  *whole // of a collected answer

	placing  *placing           // under the door's lock
	cut      context.CancelFunc // ends the wait for a hub's word
	accepted []byte             // that word as it came, if the hub accepted
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
	if no := s.c.judge(task, now); no != nil {
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
	r.placing = s.desk.place(now, task, r.ownID, r.want)
	if s.inHand[key] == nil { // a second task in hand under one id is the hub's to judge; a cancel then reaches the first
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
	r.want = s.desk.name(t, label, confidence)
	s.mu.Unlock()
}

// place gives a task to hubs as its placing wants, until that has an answer.
func (r *request) place(t *bus.Task) bus.Answer {
	s := r.s
	data, err := bus.Encode(t)
	if err != nil {
		return r.refusal(asError(err))
	}
	header := t.Trace.Header(nil)
	r.step(func(p *placing) { p.Tick(time.Now(), s.table.Load()) })
	for {
		s.mu.Lock()
		p := r.placing
		out := p.Ready()
		s.mu.Unlock()
		switch {
		case out.Answer != nil:
			return *out.Answer
		case out.Ask != "":
			a, err := r.ask(p.until, bus.Msg{Subject: bus.HubTaskSubject(out.Ask), Header: header, Data: data})
			r.step(func(p *placing) { p.Step(time.Now(), s.table.Load(), a, err) })
			continue
		}
		pause := time.NewTimer(time.Until(out.Wake))
		select {
		case <-pause.C:
			r.step(func(p *placing) { p.Tick(time.Now(), s.table.Load()) })
		case <-s.life.Done():
			r.step(func(p *placing) { p.End(errors.New("the door closes")) })
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
func (r *request) step(f func(*placing)) {
	s := r.s
	s.mu.Lock()
	if r.placing == nil { // nobody was asked yet: there is nothing to change
		s.mu.Unlock()
		return
	}
	f(r.placing)
	hub, agent := r.placing.tells()
	s.mu.Unlock()
	if hub != "" {
		s.publish(bus.CancelSubject(hub, r.client), &bus.Cancel{Client: r.client, Task: r.task.ID})
	}
	if agent != "" {
		s.publish(bus.StreamSubject(agent, r.client), &bus.StreamControl{Client: r.client, Task: r.task.ID, Cancel: true})
	}
}

func (r *request) withdraw() { r.step((*placing).Cancel) }

// whole is an answer that the door collects: it runs the reader of it.
type whole struct {
	r    *request
	task *bus.Task
	news chan struct{} // cap 1: something happened

	mu  sync.Mutex
	m   *reader.Stream // decides
	ask *bus.Task      // to be placed
	due time.Time      // it is to be ticked
}

func newWhole(r *request, now time.Time) *whole {
	return &whole{r: r, task: r.task, news: make(chan struct{}, 1), m: reader.New(r.s.c.reader(), r.task, now)}
}

// collect waits for the whole answer.
func (w *whole) collect() *bus.Result {
	s := w.r.s
	w.mu.Lock()
	w.do()
	w.mu.Unlock()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		w.mu.Lock()
		ask, due, over := w.ask, w.due, w.m.Over()
		w.ask = nil
		w.mu.Unlock()
		switch {
		case over && w.m.Err() != nil:
			return w.r.result(asError(w.m.Err()))
		case over:
			return w.m.Result()
		case ask != nil:
			if ask != w.task { // it goes on elsewhere
				s.mu.Lock()
				w.r.placing = s.desk.place(time.Now(), ask, w.r.ownID, w.r.want)
				s.mu.Unlock()
			}
			a := w.r.place(ask)
			w.step(reader.Word{Answer: &a})
			continue
		}
		if due.IsZero() {
			due = time.Now().Add(time.Hour)
		}
		timer.Reset(time.Until(due))
		select {
		case <-w.news:
		case <-timer.C:
			w.tick()
		case <-s.life.Done():
			return w.r.result(&bus.Error{Code: bus.CodeUnknown, Message: "the door closed before the answer ended; what was served may still be settled"})
		}
	}
}

func (w *whole) step(event any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.m.Step(time.Now(), event)
	w.do()
}

func (w *whole) tick() {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.m.Step(now, reader.Bus{Since: w.r.s.d.Bus.Connected()})
	w.m.Tick(now)
	w.do()
}

// do does what the reader wants done. The lock is held.
func (w *whole) do() {
	for ok := true; ok; _, ok = w.m.Next() {
		// who asked for a whole answer wants no chunks: the end frame has all of it
	}
	out := w.m.Ready()
	if out.Withdraw {
		w.r.withdraw()
	}
	for i := range out.Controls {
		c := &out.Controls[i]
		if c.Resume != nil {
			w.r.s.count(func(st *Stats) { st.Resumed++ })
		}
		w.r.s.publish(bus.StreamSubject(c.Agent, w.r.client), &c.StreamControl)
	}
	if out.Ask != nil {
		w.ask = out.Ask
	}
	w.due = out.Wake
	select {
	case w.news <- struct{}{}:
	default:
	}
}

func (r *request) result(e *bus.Error) *bus.Result {
	hub := ""
	if r.placing != nil {
		hub = r.placing.hub.Entry.Domain
	}
	return refusal(e, r.client, hub, r.task)
}

func (r *request) refusal(e *bus.Error) bus.Answer { return bus.Answer{Result: r.result(e)} }
func (r *request) refuse(e *bus.Error)             { r.answer(r.refusal(e)) }

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
