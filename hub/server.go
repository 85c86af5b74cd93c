package hub

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"souk/bus"
	"souk/ledger"
)

// Deps are what a Server runs on.
type Deps struct {
	Bus      bus.Bus
	Registry bus.Registry
	Journal  ledger.Journal // of this hub alone; replayed by Run, not closed
	Log      *slog.Logger   // nil: slog.Default
	Seed     [32]byte       // of the salts; zero: random, as it must be outside simulations
}

// Server runs a Node: it wins the domain's election, claims its agents, and carries messages between Node,
// bus, journal and treasury.
//
// One goroutine steps the Node through whatever has arrived; a second makes frames durable, all that have queued up
// with one sync, and only then sends what follows from them. The first does not wait for the second.
type Server struct {
	cfg   Config
	deps  Deps
	log   *slog.Logger
	inbox string // agents answer dispatches below it

	mu   sync.Mutex // guards node
	node *Node
	wake time.Time // when the next turn is due at the latest; zero: never

	in      chan input
	work    chan Ready
	broken  chan error // the journal's first error
	ready   chan struct{}
	isReady sync.Once
	lives   lives // nil: nothing is known of former ones
	dropped atomic.Int64
	running atomic.Bool
	leading atomic.Bool
	trouble trouble        // with the registry
	mute    atomic.Int64   // Unix nanoseconds of the last line about a treasury that does not answer; 0: it does
	asking  sync.WaitGroup // requests to the treasury
	counter chan struct{}  // a place for each of those under way

	measures measures
}

// trouble is an outage of the registry, which several loops notice.
type trouble struct {
	mu sync.Mutex
	o  bus.Outage
}

// fails notes that a part of the server has no answer from the registry. Each part tries again within
// seconds, and the log has a line when an outage begins and one a minute while it lasts.
func (s *Server) fails(part, what string, err error) {
	s.trouble.mu.Lock()
	defer s.trouble.mu.Unlock()
	if s.trouble.o.Failed(time.Now(), part) {
		s.log.Warn(what+"; trying on", "err", err)
	}
}

// works notes that it has one.
func (s *Server) works(part string) {
	s.trouble.mu.Lock()
	defer s.trouble.mu.Unlock()
	if lasted, over := s.trouble.o.Works(time.Now(), part); over {
		s.log.Info("the registry answers again", "after", lasted.Round(time.Millisecond))
	}
}

// input is something for the Node: a message, or a change of the roster.
type input struct {
	at    time.Time
	m     bus.Message
	join  *bus.Registration
	leave string
	gone  string // nobody listens where this agent did
	again bool   // the bus is there again
	cut   bool   // it is away
	set   *setting
}

// setting is news of the domain's entry in the registry; nil when there is none.
type setting struct{ config *bus.MarketConfig }

// noBundles is the warning about a setting of hubs that placed tasks in bundles.
const noBundles = "bundle_tokens is ignored: tasks are placed one by one now; take it out"

// lives is what a journal knows of who wrote it.
type lives interface {
	Life() string           // of ours
	Ended(life string) bool // whether it is of an earlier writer of this journal
}

// Bounds of one turn of the loops.
const (
	maxSteps  = 256 // messages between two looks at what is ready
	maxGroups = 64  // turns whose frames are made durable by one sync
)

// NewServer returns a hub that is not running yet.
func NewServer(cfg Config, deps Deps) (*Server, error) {
	if deps.Bus == nil || deps.Registry == nil || deps.Journal == nil {
		return nil, errors.New("hub: a bus, a registry and a journal are needed")
	}
	if deps.Seed == ([32]byte{}) {
		crand.Read(deps.Seed[:])
	}
	node, err := NewNode(cfg, deps.Seed)
	if err != nil {
		return nil, err
	}
	node.Limit = stopAfter(time.Now, cfg.SolveLimit)
	log := deps.Log
	if log == nil {
		log = slog.Default()
	}
	if cfg.BundleTokens != nil {
		log.Warn(noBundles, "where", "the configuration", "hub", cfg.Domain)
	}
	former, _ := deps.Journal.(lives)
	return &Server{
		lives: former,
		cfg:   cfg, deps: deps, log: log.With("hub", cfg.Domain), node: node, inbox: deps.Bus.Inbox(),
		in: make(chan input, cfg.Queue), work: make(chan Ready, maxGroups), broken: make(chan error, 1),
		ready: make(chan struct{}), counter: make(chan struct{}, maxAsking), measures: newMeasures(),
	}, nil
}

// Ready is closed when the hub leads its domain, listens, and has claimed the agents that were there.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Leading reports whether the hub leads its domain now. One that does not awards nothing; it settles what is its own.
func (s *Server) Leading() bool { return s.leading.Load() }

// Run replays the journal, then leads the domain whenever it wins the election, until ctx ends; then it drains
// within DrainTimeout and returns nil. It returns an error if the journal refuses anything: what is then in
// memory may never have happened. It can be called once.
func (s *Server) Run(ctx context.Context) error {
	if s.running.Swap(true) {
		return errors.New("hub: Run was called before")
	}
	if err := s.replay(); err != nil {
		return fmt.Errorf("hub %s: journal %s: %w", s.cfg.Domain, s.cfg.Journal, err)
	}
	defer ledger.Follow(s.deps.Journal, func() ledger.Replica { return newHistory(s.cfg) })()
	var writer sync.WaitGroup
	writer.Go(s.write)
	defer writer.Wait()
	defer close(s.work)

	e := bus.HubEntry{Domain: s.cfg.Domain, Labels: s.cfg.Labels, Hub: s.cfg.Hub, Journal: s.cfg.Journal, General: s.cfg.General}
	if s.lives != nil {
		e.Life = s.lives.Life()
	}
	entry, err := bus.EncodeEntry(&e)
	if err != nil {
		return fmt.Errorf("hub %s: %w", s.cfg.Domain, err)
	}
	var deposed bus.Outage
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		lead, err, fatal := s.standBy(ctx, entry)
		if fatal != nil {
			return fatal
		}
		if err == nil {
			wait = 100 * time.Millisecond
			deposed.Works(time.Now(), "lead") // lead says so
			err = s.lead(ctx, lead)
			if ctx.Err() != nil || err != nil && !errors.Is(err, bus.ErrLost) {
				return err
			}
		}
		if ctx.Err() != nil {
			return nil
		}
		if deposed.Failed(time.Now(), "lead") {
			s.log.Warn("not leading: nothing is awarded until the domain is led again", "err", err)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil
		}
	}
}

// standBy waits for the leadership. Meanwhile the hub settles what it awarded when it led last: nobody else can, for the money
// is held in its journal. The second error ends the hub.
func (s *Server) standBy(ctx context.Context, entry []byte) (lead bus.Leadership, err, fatal error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	type outcome struct {
		lead bus.Leadership
		err  error
	}
	won := make(chan outcome, 1)
	go func() {
		l, err := s.elect(ctx, entry)
		won <- outcome{l, err}
	}()
	if s.Stats().Holds > 0 {
		sub, err := s.deps.Bus.Subscribe(bus.CompletionSubject(s.cfg.Domain, "*"), "", s.completions())
		if err != nil {
			stop()
			o := <-won
			if o.lead != nil {
				s.resign(o.lead)
			}
			return nil, err, nil
		}
		defer sub.Stop()
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		var first input
		select {
		case o := <-won:
			return o.lead, o.err, nil
		case first = <-s.in:
		case <-timer.C:
		case fatal = <-s.broken:
		}
		r, _ := s.turn(first, nil)
		if fatal == nil && !r.Empty() {
			select {
			case s.work <- r:
			case fatal = <-s.broken:
			}
		}
		if fatal != nil {
			stop()
			if o := <-won; o.lead != nil {
				s.resign(o.lead)
			}
			return nil, nil, fatal
		}
		if !r.Wake.IsZero() {
			timer.Reset(time.Until(r.Wake))
		}
	}
}

// elect wins the domain's election. Where the leadership is still that of an earlier life of this hub, it is not waited for:
// that one held the lock of our journal, and we have it now; or it was our own, and we have given it up.
func (s *Server) elect(ctx context.Context, entry []byte) (bus.Leadership, error) {
	for s.lives != nil && ctx.Err() == nil {
		err := s.evict(ctx)
		if err == nil {
			s.works("leader")
			break
		}
		if ctx.Err() == nil {
			s.fails("leader", "who leads the domain is not known", err)
		}
		select {
		case <-time.After(evictAgain):
		case <-ctx.Done():
		}
	}
	return s.deps.Registry.Elect(ctx, bus.HubKey(s.cfg.Domain), entry, s.cfg.LeaseTTL)
}

// evictAgain is how soon a registry is asked again that did not answer.
const evictAgain = 200 * time.Millisecond

func (s *Server) evict(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	key := bus.HubKey(s.cfg.Domain)
	kvs, err := s.deps.Registry.Get(ctx, key)
	if err != nil {
		return err
	}
	for _, kv := range kvs {
		var e bus.HubEntry
		if kv.Key != key || bus.DecodeEntry(kv.Value, &e) != nil || e.Life != s.lives.Life() && !s.lives.Ended(e.Life) {
			continue
		}
		s.log.Info("the leadership of an earlier life of this hub is ended", "epoch", kv.Create)
		if err := s.deps.Registry.Evict(ctx, key, kv.Value); err != nil && !errors.Is(err, bus.ErrExists) {
			return err
		}
	}
	return nil
}

func (s *Server) replay() error {
	begin := time.Now()
	if err := ledger.Restore(s.deps.Journal, s.node.history); err != nil {
		return err
	}
	if o := s.node.Book().Journal(); o.Journal != "" && (o.Journal != s.cfg.Journal || o.Domain != s.cfg.Domain) {
		return fmt.Errorf("it is the journal %s of domain %s: each hub has its own data directory", o.Journal, o.Domain)
	}
	s.mu.Lock()
	err := s.node.Recall()
	s.mu.Unlock()
	if seq, _, _ := s.node.Book().Last(); seq > 0 && err == nil {
		s.log.Info("replayed", "frames", seq, "open_holds", s.node.Book().OpenCount(), "took", time.Since(begin).Round(time.Millisecond))
	}
	return err
}

// lead is one time of leadership. It returns nil after draining, bus.ErrLost when deposed, or the journal's error.
func (s *Server) lead(ctx context.Context, l bus.Leadership) error {
	if err := s.begins(ctx, l); err != nil || ctx.Err() != nil {
		s.resign(l)
		return err
	}
	s.mu.Lock()
	err := s.node.Lead(time.Now(), l.Epoch())
	s.mu.Unlock()
	if err != nil {
		l.Close(context.WithoutCancel(ctx))
		return err
	}
	s.log.Info("leading", "epoch", l.Epoch(), "instance", s.cfg.Hub)
	tasks, others, err := s.listen()
	if err != nil {
		s.resign(l)
		return fmt.Errorf("hub %s: %w", s.cfg.Domain, err)
	}
	inner, stop := context.WithCancel(context.WithoutCancel(ctx))
	var roster sync.WaitGroup
	roster.Go(func() { s.watch(inner, l) })
	roster.Go(func() { s.heed(inner) })
	roster.Go(func() { s.watchBus(inner) })
	s.leading.Store(true)
	err = s.loop(ctx, l, tasks)
	s.leading.Store(false)
	stop()
	roster.Wait()
	tasks.Stop()
	for _, o := range others {
		o.Stop()
	}
	s.written() // what the writer still has may ask the treasury, too
	s.asking.Wait()
	for len(s.in) > 0 {
		<-s.in // said to this leadership; whoever needs an answer says it again
	}
	s.mu.Lock()
	s.node.Depose(time.Now())
	rest := s.node.Ready()
	s.mu.Unlock()
	if err == nil || errors.Is(err, bus.ErrLost) {
		s.work <- rest
		s.settleDown()
	}
	s.resign(l)
	return err
}

// begins asks the treasury, before the first frame of an empty journal, whether it has dealt with one of that name: then this is not a new
// journal but one that was lost, and what it held would be spent twice. A hub has no money to sell for before the treasury answers.
func (s *Server) begins(ctx context.Context, l bus.Leadership) error {
	s.mu.Lock()
	begun := s.node.Book().Journal().Journal != ""
	s.mu.Unlock()
	if begun {
		return nil
	}
	f := Funds{bus.OpAllotted, bus.FundsRequest{ID: fmt.Sprintf("%s-%d-0", s.cfg.Journal, l.Epoch()), Hub: s.cfg.Journal, Epoch: l.Epoch()}}
	said := false
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		r := s.answer(ctx, f)
		switch {
		case len(r.Grants) > 0 || r.Returned > 0 || r.Code == bus.CodeBadRequest:
			why := r.Message
			if why == "" {
				why = fmt.Sprintf("the treasury has allotted money to one of that name and has taken %d returns of it in", r.Returned)
			}
			return fmt.Errorf("hub %s: journal %s is empty, but %s: bring the journal back, or give this hub a journal of another name", s.cfg.Domain, s.cfg.Journal, why)
		case r.Code == "":
			return nil
		case r.Code != bus.CodeUnavailable && !said:
			said = true
			s.log.Warn("the treasury does not say whether it knows a journal of this name; asking again every second", "journal", s.cfg.Journal, "code", r.Code, "why", r.Message)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil
		case <-l.Lost():
			return fmt.Errorf("hub %s: %w", s.cfg.Domain, bus.ErrLost)
		}
	}
}

// resign gives the leadership back, so that a standby need not wait for the lease to run out.
func (s *Server) resign(l bus.Leadership) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := l.Close(ctx); err != nil {
		s.log.Debug("leadership not resigned", "err", err)
	}
}

// written waits until the writer has dealt with everything that was handed to it.
func (s *Server) written() {
	done := make(chan struct{})
	s.work <- Ready{flushed: done}
	<-done
}

// settleDown waits until everything that was handed to the writer has been sent.
func (s *Server) settleDown() {
	s.written()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := s.deps.Bus.Flush(ctx); err != nil {
		s.log.Debug("bus not flushed", "err", err)
	}
}

// loop steps the Node until the leadership is lost, the journal breaks, or ctx has ended and nothing runs.
func (s *Server) loop(ctx context.Context, l bus.Leadership, tasks bus.Subscription) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	room, _ := s.deps.Journal.(interface{ HasRoom() bool })
	stopping := ctx.Done()
	var giveUp <-chan time.Time
	retired := false
	for {
		var first input
		select {
		case first = <-s.in:
		case <-timer.C:
		case <-stopping:
			stopping = nil
			giveUp = time.After(s.cfg.DrainTimeout)
			tasks.Stop()
			s.mu.Lock()
			s.node.Drain(time.Now())
			s.mu.Unlock()
		case <-giveUp:
			s.log.Warn("stopping with holds open: their agents' completions are taken after the next start", "holds", s.Stats().Holds)
			return nil
		case <-l.Lost():
			return fmt.Errorf("hub %s: %w", s.cfg.Domain, bus.ErrLost)
		case err := <-s.broken:
			return err
		}
		r, quiet := s.turn(first, room)
		if !r.Empty() {
			select {
			case s.work <- r:
			case err := <-s.broken:
				return err
			}
		}
		if stopping == nil && quiet {
			if retired {
				return nil
			}
			retired = true
			s.mu.Lock()
			s.node.Retire(time.Now())
			s.mu.Unlock()
			timer.Reset(0)
			continue
		}
		if r.Wake.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(time.Until(r.Wake))
		}
	}
}

// asleep is how late a turn is of a process that was stopped, or starved.
const asleep = 2 * time.Second

// turn steps the Node through what has arrived and says what is to be done.
func (s *Server) turn(first input, room interface{ HasRoom() bool }) (r Ready, quiet bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if first.at.IsZero() {
		select {
		case first = <-s.in:
		default:
		}
	}
	look := func() {
		if room != nil && s.node.Holding() {
			s.node.Room(room.HasRoom())
		}
	}
	if now := time.Now(); !s.wake.IsZero() && now.Sub(s.wake) > asleep {
		s.log.Warn("the process did not run for a while", "late", now.Sub(s.wake).Round(time.Millisecond))
		s.node.Slept(now)
	}
	look()
	for i := 0; !first.at.IsZero(); i++ {
		s.step(first)
		first = input{}
		if i < maxSteps {
			select {
			case first = <-s.in:
			default:
			}
		}
	}
	now := time.Now()
	s.node.Tick(now)
	look()
	rounds := s.node.stats.Rounds
	r = s.node.Ready()
	s.wake = r.Wake
	if done := s.node.stats.Rounds - rounds; done > 0 {
		s.measures.cleared(time.Since(now) / time.Duration(done))
	}
	return r, s.node.Quiet()
}

func (s *Server) step(in input) {
	switch {
	case in.join != nil:
		if err := s.node.Join(in.at, *in.join); err != nil {
			s.log.Warn("agent not sold", "err", err)
		} else {
			s.log.Info("agent joined", "agent", in.join.Agent, "model", in.join.Model, "slots", in.join.Slots, "boot", in.join.Boot)
		}
	case in.leave != "":
		s.node.Leave(in.at, in.leave)
		s.log.Info("agent left", "agent", in.leave)
	case in.gone != "":
		if s.node.Absent(in.at, in.gone) {
			s.log.Warn("agent gone: nobody listens there any more; what it was serving is void", "agent", in.gone)
		}
	case in.again:
		s.node.Reconnected(in.at)
	case in.cut:
		s.node.Disconnected(in.at)
	case in.set != nil:
		if err := s.node.Configure(in.at, in.set.config); err != nil {
			s.log.Warn("settings not applied", "err", err)
		} else {
			c := s.node.cfg
			s.log.Info("settings", "max_batch", c.Batch.MaxBatch, "max_wait", c.Batch.MaxWait, "eager", c.Batch.Eager, "pricing", c.Pricing, "settle", c.Settle, "clarke", c.Clarke)
		}
	default:
		if err := s.node.Step(in.at, in.m); err != nil {
			s.log.Debug("message ignored", "err", err)
		}
	}
}

// write is the journal's goroutine: it makes the frames of all turns that have queued up durable with one sync,
// then sends what follows from them, in order.
func (s *Server) write() {
	var group []Ready
	var frames []ledger.Frame
	var acks []Letter
	failed := false
	linger := time.NewTimer(time.Hour)
	defer linger.Stop()
	for r := range s.work {
		group = s.gather(append(group[:0], r), linger)
		frames = frames[:0]
		for i := range group {
			frames = append(frames, group[i].Frames...)
		}
		if len(frames) > 0 && !failed {
			begin := time.Now()
			if err := s.deps.Journal.Append(frames...); err != nil {
				failed = true
				s.broken <- fmt.Errorf("hub %s: %w", s.cfg.Domain, err)
			}
			s.measures.synced(time.Since(begin))
		}
		if !failed {
			for i := range group {
				acks = s.deliver(&group[i], acks)
			}
			for _, l := range acks { // nobody waits for these as a reader does for a dispatch
				s.send(l)
			}
			clear(acks)
			acks = acks[:0]
		}
		for i := range group {
			if group[i].flushed != nil {
				close(group[i].flushed)
			}
			group[i] = Ready{}
		}
		clear(frames)
	}
}

// gather adds the turns that have queued up. A group in which nothing presses waits up to Linger for more: who
// reports a completion repeats it until it is acknowledged, so a settlement can share the next round's sync.
func (s *Server) gather(group []Ready, linger *time.Timer) []Ready {
	presses := group[0].presses()
	linger.Reset(s.cfg.Linger)
	for len(group) < maxGroups {
		var r Ready
		ok := false
		if presses {
			select {
			case r, ok = <-s.work:
			default:
			}
		} else {
			select {
			case r, ok = <-s.work:
			case <-linger.C:
			}
		}
		if !ok {
			break
		}
		group = append(group, r)
		presses = presses || r.presses()
	}
	return group
}

// deliver sends what a turn wants said; its frames are durable. Acknowledgements of completions are left for later: it
// returns acks with those of the turn.
func (s *Server) deliver(r *Ready, acks []Letter) []Letter {
	for i := range r.Dispatches {
		d := &r.Dispatches[i]
		agent := r.Placed[i].Agent
		_, place, _ := strings.Cut(d.Hold, "/")
		m := bus.Msg{
			Subject: bus.DispatchSubject(agent, s.cfg.Domain),
			Reply:   s.inbox + "." + strings.Replace(place, "/", "-", 1),
			Header:  d.Task.Trace.Header(nil),
		}
		if err := s.publish(m, d); err != nil {
			level := slog.LevelWarn
			if errors.Is(err, bus.ErrDisconnected) { // said once by whoever watches the bus
				level = slog.LevelDebug
			}
			s.log.Log(context.Background(), level, "dispatch not sent", "hold", d.Hold, "agent", agent, "err",
				err)
			code := bus.CodeUnavailable
			if errors.Is(err, bus.ErrTooLarge) {
				code = bus.CodeTooLarge
			}
			s.offer(&bus.DispatchReply{Agent: agent, Hold: d.Hold, Code: code, Message: err.Error()})
		}
	}
	if len(r.Placed) > 0 {
		s.measures.placed(time.Now(), r.Placed)
	}
	for _, l := range r.Letters {
		if _, ack := l.Message.(*bus.CompletionAck); ack {
			acks = append(acks, l)
		} else {
			s.send(l)
		}
	}
	for _, agent := range r.Probes {
		s.probe(agent)
	}
	for _, f := range r.Funds {
		s.asking.Go(func() { s.ask(f) })
	}
	if r.Status != nil {
		if err := s.publish(bus.Msg{Subject: bus.StatusSubject(s.cfg.Domain)}, r.Status); err != nil {
			s.log.Debug("status not sent", "err", err)
		}
	}
	for _, err := range r.Faults {
		s.log.Error("must not happen", "err", err)
	}
	return acks
}

func (s *Server) send(l Letter) {
	switch err := s.publish(bus.Msg{Subject: l.Subject}, l.Message); {
	case err == nil:
	case errors.Is(err, bus.ErrDisconnected): // said once by whoever watches the bus
		s.log.Debug("message not sent: the bus is away", "subject", l.Subject)
	default:
		s.log.Warn("message not sent", "subject", l.Subject, "err", err)
	}
}

// probeMark begins the last token of subjects to which the bus says that nobody heard a probe; those of dispatches begin with a
// digit.
const probeMark = "at_"

// probe says something to an agent that means nothing. Only the bus answers, and only if the agent is not there.
func (s *Server) probe(agent string) {
	none := uint64(0)
	m := bus.Msg{Subject: bus.StreamSubject(agent, s.cfg.Domain), Reply: s.inbox + "." + probeMark + agent}
	if err := s.publish(m, &bus.StreamControl{Client: s.cfg.Domain, Task: "none", Ack: &none}); err != nil {
		s.log.Debug("agent not probed", "agent", agent, "err", err)
	}
}

func (s *Server) publish(m bus.Msg, v bus.Message) (err error) {
	if m.Data, err = bus.Encode(v); err != nil {
		return err
	}
	return s.deps.Bus.Publish(m)
}

// ask asks the treasury, and hands its answer, or that there was none, to the Node.
func (s *Server) ask(f Funds) {
	s.counter <- struct{}{}
	defer func() { <-s.counter }()
	reply := s.answer(context.Background(), f)
	late := time.NewTimer(treasuryTimeout) // its own: the Node must hear most of all that there was no answer in time
	defer late.Stop()
	select {
	case s.in <- input{at: time.Now(), m: reply}:
	case <-late.C: // the loop has ended, or has too much to do; the Node asks again
		s.dropped.Add(1)
	}
}

// answer is what the treasury says to a request; unavailable if it says nothing.
func (s *Server) answer(ctx context.Context, f Funds) *bus.FundsReply {
	ctx, cancel := context.WithTimeout(ctx, treasuryTimeout)
	defer cancel()
	reply := new(bus.FundsReply)
	data, err := bus.Encode(&f.Request)
	if err == nil {
		var m bus.Msg
		if m, err = s.deps.Bus.Request(ctx, bus.Msg{Subject: bus.LedgerSubject(f.Op), Data: data}); err == nil {
			err = bus.Decode(m.Data, reply)
		}
	}
	if err != nil {
		s.unanswered(f, err)
		*reply = bus.FundsReply{Code: bus.CodeUnavailable}
	}
	if err == nil && s.mute.Swap(0) != 0 {
		s.log.Info("treasury answers again")
	}
	reply.ID = f.Request.ID
	return reply
}

func (s *Server) unanswered(f Funds, err error) {
	now, said := time.Now().UnixNano(), s.mute.Load()
	if now-said >= int64(bus.SayAgain) && s.mute.CompareAndSwap(said, now) {
		s.log.Warn("treasury did not answer; asking again every second", "op", f.Op, "client", f.Request.Client, "err", err)
	}
}

// offer hands a message to the loop, unless its queue is full.
func (s *Server) offer(m bus.Message) bool { return s.hand(input{at: time.Now(), m: m}) }

func (s *Server) hand(in input) bool {
	select {
	case s.in <- in:
		return true
	default:
		s.dropped.Add(1)
		return false
	}
}

// listen subscribes to everything that is said to this hub.
func (s *Server) listen() (tasks bus.Subscription, others []bus.Subscription, err error) {
	d := s.cfg.Domain
	for _, sub := range []struct {
		subject string
		handle  bus.Handler
	}{
		{s.inbox + ".*", s.onReply},
		{bus.SummarySubject(d, "*"), hearing(s, func(v *bus.Summary, m bus.Msg) { v.Agent = bus.LastToken(m.Subject) })},
		{bus.CompletionSubject(d, "*"), s.completions()},
		{bus.CancelSubject(d, "*"), hearing(s, func(v *bus.Cancel, m bus.Msg) { v.Client = bus.LastToken(m.Subject) })},
		{bus.AskSubject(d, "*"), hearing(s, func(v *bus.Ask, m bus.Msg) { v.Agent = bus.LastToken(m.Subject) })},
		{bus.RecallSubject(d, "*"), hearing(s, func(v *bus.Recall, m bus.Msg) { v.Inbox = m.Reply })},
		{bus.FeedbackSubject(d, "*"), hearing(s, func(v *bus.Feedback, m bus.Msg) { v.Client = bus.LastToken(m.Subject) })},
		{bus.HubTaskSubject(d), s.onTask},
	} {
		o, err := s.deps.Bus.Subscribe(sub.subject, "", sub.handle)
		if err != nil {
			for _, o := range others {
				o.Stop()
			}
			return nil, nil, err
		}
		others = append(others, o)
	}
	last := len(others) - 1
	return others[last], others[:last], nil
}

func (s *Server) onTask(m bus.Msg) {
	t := new(bus.Task)
	err := bus.Decode(m.Data, t)
	t.Inbox = m.Reply
	if err != nil {
		s.turnBack(t, bus.CodeOf(err), 0, messageOf(err))
		return
	}
	t.Trace = bus.TraceOf(m.Header)
	if !s.offer(t) {
		s.turnBack(t, bus.CodeNoRoom, time.Second, "the hub has more messages than it can look at; try again")
	}
}

// turnBack answers a task that does not reach the Node.
func (s *Server) turnBack(t *bus.Task, code bus.Code, retry time.Duration, why string) {
	s.measures.turnedBack(code)
	if t.Inbox == "" {
		return
	}
	r := bus.Result{Client: t.Client, Task: t.ID, Hub: s.cfg.Domain, Code: code, Message: clip(why), RetryMS: retry.Milliseconds()}
	if !bus.ValidID(r.Client) || !bus.ValidID(r.Task) {
		r.Client, r.Task = "unknown", "unknown" // what could not be read has no ids to speak of
	}
	if err := s.publish(bus.Msg{Subject: t.Inbox}, &bus.Answer{Result: &r}); err != nil {
		s.log.Debug("refusal not sent", "err", err)
	}
}

// onReply takes an agent's answer to a dispatch. Its subject names the hold, even where nobody was there.
func (s *Server) onReply(m bus.Msg) {
	absent := len(m.Data) == 0 && m.Header.Get("Status") == strconv.Itoa(noResponders)
	if agent, ok := strings.CutPrefix(bus.LastToken(m.Subject), probeMark); ok {
		if absent {
			s.hand(input{at: time.Now(), gone: agent})
		}
		return
	}
	round, slot, ok := strings.Cut(bus.LastToken(m.Subject), "-")
	if !ok {
		return
	}
	r := new(bus.DispatchReply)
	hold := s.cfg.Journal + "/" + round + "/" + slot
	if absent {
		r.Code, r.Message = bus.CodeUnavailable, "no agent listens on the subject of its dispatches"
		r.Agent = s.agentOf(hold)
	} else if err := bus.Decode(m.Data, r); err != nil {
		s.log.Warn("dispatch reply not understood", "hold", hold, "err", err)
		return
	}
	r.Hold = hold
	s.offer(r)
}

// noResponders is the status of the server's own answer to a request that nobody hears.
const noResponders = 503

func (s *Server) agentOf(hold string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, _ := s.node.Book().Hold(hold)
	return h.Agent
}

// completions hears what agents say of what they served.
func (s *Server) completions() bus.Handler {
	return func(m bus.Msg) {
		v := new(bus.Completion)
		if err := bus.DecodeForm(m.Data, v); err != nil { // what it says is judged by the Node, which has to answer
			s.measures.malformed()
			s.log.Debug("message not understood", "subject", m.Subject, "err", err)
			return
		}
		v.Agent, v.Inbox = bus.LastToken(m.Subject), m.Reply
		s.offer(v)
	}
}

// hearing hands messages of one kind to the loop. Who speaks is known by the subject alone: fill writes it in.
func hearing[M any, P interface {
	*M
	bus.Message
}](s *Server, fill func(P, bus.Msg)) bus.Handler {
	return func(m bus.Msg) {
		v := P(new(M))
		if err := bus.Decode(m.Data, v); err != nil {
			s.measures.malformed()
			s.log.Debug("message not understood", "subject", m.Subject, "err", err)
			return
		}
		fill(v, m)
		s.offer(v)
	}
}

// watchBus notices when the bus is there again. News that came while nobody led are old.
func (s *Server) watchBus(ctx context.Context) {
	news, up := s.deps.Bus.Health(), true
	for {
		select {
		case h, ok := <-news:
			if !ok {
				return
			}
			if h.Connected != up {
				s.pass(ctx, input{at: time.Now(), again: h.Connected, cut: !h.Connected})
			}
			up = h.Connected
		case <-ctx.Done():
			return
		}
	}
}

// claimEvery is how often an agent is claimed anew that another hub still holds.
const claimEvery = 500 * time.Millisecond

// roster follows the registrations of agents whose first domain is served here, and claims each before it is
// sold: exactly one hub sells an agent.
type roster struct {
	s       *Server
	l       bus.Leadership
	wanted  map[string]*bus.Registration // by agent
	claimed map[string]int64             // by agent: the fence of our claim
	named   map[string]bool              // since the watch began anew
}

func (s *Server) watch(ctx context.Context, l bus.Leadership) {
	r := &roster{s: s, l: l, wanted: map[string]*bus.Registration{}, claimed: map[string]int64{}, named: map[string]bool{}}
	again := time.NewTicker(claimEvery)
	defer again.Stop()
	for ctx.Err() == nil {
		events, err := s.deps.Registry.Watch(ctx, bus.AgentsPrefix)
		if err != nil && ctx.Err() == nil {
			s.fails("agents", "agents are not watched: those known are sold", err)
		} else if err == nil {
			s.works("agents")
		}
		if err != nil {
			events = nil
		}
		clear(r.named)
		r.follow(ctx, events, again.C)
	}
}

// follow takes events in until there are no more of them. Without any, as the watch could not begin, it ends at the
// next tick.
func (r *roster) follow(ctx context.Context, events <-chan bus.Event, again <-chan time.Time) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-again:
			r.claimMissing(ctx)
			if events == nil {
				return
			}
		case e, ok := <-events:
			if !ok {
				return
			}
			r.take(ctx, e)
		}
	}
}

func (r *roster) take(ctx context.Context, e bus.Event) {
	if e.Synced {
		for _, agent := range slices.Sorted(maps.Keys(r.wanted)) {
			if !r.named[agent] {
				r.drop(ctx, agent)
			}
		}
		clear(r.named)
		r.s.isReady.Do(func() { close(r.s.ready) })
		return
	}
	agent := bus.LastElement(e.Key)
	if e.Deleted {
		r.drop(ctx, agent)
		return
	}
	reg := new(bus.Registration)
	err := bus.DecodeEntry(e.Value, reg)
	if err == nil && reg.Agent != agent {
		err = fmt.Errorf("it names %s", reg.Agent)
	}
	if err != nil {
		r.s.measures.malformed()
		r.s.log.Warn("registration not understood", "agent", agent, "err", err)
		r.drop(ctx, agent)
		return
	}
	if !r.s.cfg.serves(reg.Domains[0].Domain) {
		r.drop(ctx, agent)
		return
	}
	r.named[agent] = true
	r.wanted[agent] = reg
	r.claim(ctx, agent)
}

// claim claims an agent if that has not been done, and has it sold.
func (r *roster) claim(ctx context.Context, agent string) {
	if r.claimed[agent] == 0 {
		var fence int64
		c := bus.Claim{Agent: agent, Domain: r.s.cfg.Domain, Hub: r.s.cfg.Hub, Epoch: r.l.Epoch()}
		data, err := bus.EncodeEntry(&c)
		if err == nil {
			short, cancel := context.WithTimeout(ctx, r.s.cfg.LeaseTTL)
			fence, err = r.l.Claim(short, bus.ClaimKey(agent), data)
			cancel()
		}
		if err != nil {
			r.s.log.Debug("agent not claimed", "agent", agent, "err", err)
			return
		}
		r.claimed[agent] = fence
	}
	r.wanted[agent].Fence = r.claimed[agent]
	r.tell(ctx, input{at: time.Now(), join: r.wanted[agent]})
}

func (r *roster) claimMissing(ctx context.Context) {
	for _, agent := range slices.Sorted(maps.Keys(r.wanted)) {
		if r.claimed[agent] == 0 {
			r.claim(ctx, agent)
		}
	}
}

func (r *roster) drop(ctx context.Context, agent string) {
	if r.wanted[agent] == nil {
		return
	}
	delete(r.wanted, agent)
	if r.claimed[agent] == 0 {
		return
	}
	delete(r.claimed, agent)
	r.tell(ctx, input{at: time.Now(), leave: agent})
	short, cancel := context.WithTimeout(ctx, r.s.cfg.LeaseTTL)
	defer cancel()
	if err := r.l.Release(short, bus.ClaimKey(agent)); err != nil {
		r.s.log.Debug("claim not released", "agent", agent, "err", err)
	}
}

// tell waits for room: what the roster says must not be lost.
func (r *roster) tell(ctx context.Context, in input) { r.s.pass(ctx, in) }

// heed follows the domain's settings in the registry until ctx ends.
func (s *Server) heed(ctx context.Context) {
	key := bus.MarketKey(s.cfg.Domain)
	var in force
	warned := false
	for ctx.Err() == nil {
		events, err := s.deps.Registry.Watch(ctx, key)
		if err != nil && ctx.Err() == nil {
			s.fails("settings", "settings are not watched: those in force stay", err)
		} else if err == nil {
			s.works("settings")
			s.follow(ctx, key, &in, &warned, events)
		}
		select {
		case <-time.After(claimEvery):
		case <-ctx.Done():
		}
	}
}

// follow passes on what is news in the domain's settings, until events end.
func (s *Server) follow(ctx context.Context, key string, in *force, warned *bool, events <-chan bus.Event) {
	for e := range events {
		if c, news := in.take(key, e); news {
			if c != nil && c.BundleTokens != nil && !*warned {
				*warned = true
				s.log.Warn(noBundles, "where", "the registry", "key", key)
			}
			s.pass(ctx, input{at: time.Now(), set: &setting{c}})
		} else if err := in.err; err != nil {
			s.measures.malformed()
			s.log.Warn("settings not understood", "key", key, "err", err)
		}
	}
}

// pass hands an input to the loop.
func (s *Server) pass(ctx context.Context, in input) {
	select {
	case s.in <- in:
	case <-ctx.Done():
	}
}
