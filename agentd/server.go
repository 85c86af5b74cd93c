package agentd

import (
	"context"
	crand "crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"souk/bus"
)

// Deps is what a node stands on.
type Deps struct {
	Bus      bus.Bus
	Registry bus.Registry
	Engine   func(EngineConfig) Engine // makes the client of one engine
	Home     *Home                     // the node's directory; nil: a former life cannot be proved dead, and its leases are waited for
	Log      *slog.Logger              // nil: the default one
}

// Server runs the agents of one node.
type Server struct {
	cfg    Config
	deps   Deps
	log    *slog.Logger
	boot   int64
	ready  chan struct{}
	agents []*seller
	era    atomic.Int64 // how often the bus has come and gone: even while it is there
}

// NewServer judges the configuration; nothing runs before Run.
func NewServer(cfg Config, deps Deps) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("agentd: %w", err)
	}
	cfg = cfg.withDefaults()
	if cfg.Node == "" {
		cfg.Node, _ = os.Hostname()
	}
	if deps.Log == nil {
		deps.Log = slog.Default()
	}
	s := &Server{cfg: cfg, deps: deps, log: deps.Log.With("node", cfg.Node), boot: time.Now().UnixMilli(), ready: make(chan struct{})}
	for _, a := range cfg.Agents {
		a.Engine = a.Engine.WithDefaults()
		s.agents = append(s.agents, newSeller(s, a))
	}
	return s, nil
}

// Ready is closed when every agent is registered, which waits for its engine.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Stats returns a snapshot of all agents; those whose engine still boots have no figures.
func (s *Server) Stats() Stats {
	out := Stats{Node: s.cfg.Node}
	for _, a := range s.agents {
		out.Agents = append(out.Agents, a.stats())
	}
	return out
}

// Run serves until ctx ends; then it drains: no new tasks, running ones get DrainTimeout, completions
// SettleTimeout. It returns an error only if an agent cannot be offered at all, as when its id is taken.
func (s *Server) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	errs := make([]error, len(s.agents))
	for i, a := range s.agents {
		wg.Go(func() {
			if errs[i] = a.run(ctx); errs[i] != nil {
				stop()
			}
		})
	}
	wg.Go(func() {
		for _, a := range s.agents {
			select {
			case <-a.registered:
			case <-ctx.Done():
				return
			}
		}
		close(s.ready)
	})
	whole, end := context.WithCancel(context.WithoutCancel(ctx)) // what drains needs the news, too
	var watch sync.WaitGroup
	watch.Go(func() { s.watchBus(whole) })
	wg.Wait()
	end()
	watch.Wait()
	return errors.Join(errs...)
}

// watchBus makes completions go out again as soon as the bus is back.
func (s *Server) watchBus(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case h, ok := <-s.deps.Bus.Health():
			if !ok {
				return
			}
			if up := s.era.Load()%2 == 0; up != h.Connected {
				s.era.Add(1)
			}
			for _, a := range s.agents {
				if h.Connected {
					a.with(func(core *Agent) { core.Reconnected() })
				}
			}
		}
	}
}

// seller runs one agent. mu guards core and shelf; where a stream's mu is held as well, that was taken after it.
type seller struct {
	*Server
	cfg        AgentConfig
	engine     Engine
	log        *slog.Logger
	registered chan struct{}
	kick       chan struct{} // the core has news
	enrol      chan struct{} // the registration has changed
	check      chan struct{} // look at the engine now
	missed     chan struct{} // a reader has missed something
	runs       sync.WaitGroup
	sends      sync.WaitGroup

	mu      sync.Mutex
	core    *Agent // nil until the engine is ready
	shelf   shelf
	suspect bool     // the engine went silent, or failed with a 500: only an answer clears it
	asking  bool     // a claim is being read
	unsure  []func() // dispatches for which it is to be read once more
	listed  string   // the state in the last registration
	why     string   // what the last look at the engine found wrong

	secret [32]byte // of the nonces of its asks

	trouble struct { // with the registry
		sync.Mutex
		bus.Outage
	}

	spool     *Spool // nil: what is not acknowledged when we are killed is lost
	unwritten seldom // of what it did not take
}

func newSeller(s *Server, cfg AgentConfig) *seller {
	a := &seller{Server: s, cfg: cfg, engine: s.deps.Engine(cfg.Engine), log: s.log.With("agent", cfg.ID),
		registered: make(chan struct{}), kick: make(chan struct{}, 1), enrol: make(chan struct{}, 1), check: make(chan struct{}, 1), missed: make(chan struct{}, 1),
		shelf: newShelf(s.cfg.KeepTotal)}
	crand.Read(a.secret[:])
	return a
}

func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// with changes the core, if there is one, and has its wishes looked after.
func (a *seller) with(f func(*Agent)) {
	a.mu.Lock()
	if a.core != nil {
		f(a.core)
	}
	a.mu.Unlock()
	nudge(a.kick)
}

func (a *seller) stats() AgentStats {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.core == nil {
		return AgentStats{Agent: a.cfg.ID, Model: a.cfg.Model, State: "booting", Why: a.why, Slots: a.cfg.Slots}
	}
	st := a.core.Stats()
	st.Why = a.why
	return st
}

// looked notes what a look at the engine found.
func (a *seller) looked(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.why = ""
	if err != nil {
		a.why = clip(err.Error())
	}
}

// run is an agent's life.
func (a *seller) run(ctx context.Context) error {
	info, err := a.await(ctx)
	if err != nil || ctx.Err() != nil {
		return err
	}
	left, err := a.openSpool()
	if err != nil {
		return fmt.Errorf("agent %s: %w", a.cfg.ID, err)
	}
	a.mu.Lock()
	a.core = NewAgent(a.cfg, a.Server.cfg, info, a.boot)
	a.core.Restore(left)
	a.mu.Unlock()
	if a.spool != nil {
		defer func() {
			if err := a.spool.Close(); err != nil {
				a.log.Warn("spool not closed", "err", err)
			}
		}()
	}

	// Whoever finds us in the registry can already reach us.
	dispatches, err := a.deps.Bus.Subscribe(bus.DispatchSubject(a.cfg.ID, "*"), "", a.onDispatch)
	if err != nil {
		return fmt.Errorf("agent %s: %w", a.cfg.ID, err)
	}
	controls, err := a.deps.Bus.Subscribe(bus.StreamSubject(a.cfg.ID, "*"), "", a.onControl)
	if err != nil {
		dispatches.Stop()
		return fmt.Errorf("agent %s: %w", a.cfg.ID, err)
	}
	calls, err := a.deps.Bus.Subscribe(bus.CallSubject(a.cfg.ID, "*"), "", a.onCall)
	if err != nil {
		dispatches.Stop()
		controls.Stop()
		return fmt.Errorf("agent %s: %w", a.cfg.ID, err)
	}
	if err := a.deps.Bus.Flush(ctx); err != nil && ctx.Err() == nil {
		a.log.Warn("bus is slow to subscribe", "err", err)
	}

	life, end := context.WithCancel(context.WithoutCancel(ctx)) // outlives ctx: draining needs everything
	defer end()
	var wg sync.WaitGroup
	var fatal error
	lost := make(chan struct{})
	wg.Go(func() {
		if fatal = a.enlist(life); fatal != nil {
			close(lost)
		}
	})
	wg.Go(func() { a.watchClaim(life) })
	wg.Go(func() { a.watchEngine(life) })
	wg.Go(func() { a.loop(life) })
	wg.Go(func() { a.heartbeats(life) })
	wg.Go(func() { a.repeat(life) })
	select {
	case <-ctx.Done():
		a.drain()
	case <-lost:
	}
	end()
	wg.Wait()
	dispatches.Stop()
	controls.Stop()
	calls.Stop()
	a.runs.Wait()
	a.sends.Wait()
	return fatal
}

// openSpool returns what earlier lives have left to be acknowledged.
func (a *seller) openSpool() ([]Report, error) {
	if a.deps.Home == nil {
		return nil, nil
	}
	s, left, note, err := a.deps.Home.Spool(a.cfg.ID, a.Server.cfg.MaxCompletions)
	if err != nil {
		return nil, err
	}
	if note != nil {
		a.log.Error("spool is damaged: completions of an earlier life may be lost", "err", note)
	}
	if len(left) > 0 {
		a.log.Info("completions of an earlier life are sent", "n", len(left))
	}
	s.Failed = func(err error) {
		a.log.Warn("completions of which no hub has heard are not synced: a power cut would lose them; trying on", "err", err)
	}
	a.spool = s
	return left, nil
}

// keepReport writes a completion down, so that it is paid even if this process dies before a hub has acknowledged it.
func (a *seller) keepReport(r Report) {
	if a.spool == nil || r.Completion.Outcome == bus.OutcomeFailed {
		return
	}
	if err := a.spool.Add(r); err != nil && a.unwritten.due() {
		a.log.Warn("completions are not written down: those that no hub has are lost if this process dies", "hold", r.Completion.Hold, "err", err)
	}
}

// await waits until the engine is ready and serves the model.
func (a *seller) await(ctx context.Context) (Info, error) {
	pause := 50 * time.Millisecond
	for n := 0; ; n++ {
		info, err := a.engine.Info(ctx)
		switch {
		case err == nil && a.cfg.Model != "" && !slices.Contains(info.Models, a.cfg.Model):
			err = fmt.Errorf("the engine serves %q, not %q", info.Models, a.cfg.Model)
		case err == nil:
			if info.Version != "" {
				a.log.Info("engine ready", "url", bus.Redact(a.cfg.Engine.URL), "version", info.Version,
					"models", info.Models)
			}
			a.looked(nil)
			return info, nil
		}
		a.looked(err)
		if n%20 == 5 { // after a few seconds, then every minute or so
			a.log.Warn("waiting for the engine", "url", bus.Redact(a.cfg.Engine.URL), "err",
				bus.RedactError(err))
		}
		if !sleep(ctx, jitter(pause)) {
			return Info{}, nil
		}
		pause = min(2*pause, 3*time.Second)
	}
}

// jitter spreads a pause over half of it to all of it.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

// sleep returns false if ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// seldom says of something that is tried every second or so whether it is worth a line: at first, and once a minute.
type seldom struct {
	mu   sync.Mutex
	said time.Time
}

func (s *seldom) due() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if !s.said.IsZero() && now.Sub(s.said) < time.Minute {
		return false
	}
	s.said = now
	return true
}

// fails notes that a part of the agent has no answer from the registry. Each part tries again within seconds,
// and the log has a line when an outage begins and one a minute while it lasts.
func (a *seller) fails(part, what string, err error) {
	a.trouble.Lock()
	defer a.trouble.Unlock()
	if a.trouble.Failed(time.Now(), part) {
		a.log.Warn(what+"; trying on", "err", err)
	}
}

// works notes that it has one. It reports whether that was the end of an outage.
func (a *seller) works(part, what string) bool {
	a.trouble.Lock()
	defer a.trouble.Unlock()
	lasted, over := a.trouble.Works(time.Now(), part)
	if over {
		a.log.Info(what, "after", lasted.Round(time.Millisecond))
	}
	return over
}

// enlist keeps the agent in the registry: registers, updates when it changed, registers again after a lost
// lease. It fails if the id belongs to another.
func (a *seller) enlist(ctx context.Context) error {
	key := bus.AgentKey(a.cfg.ID)
	pause := 100 * time.Millisecond
	var taken time.Time // since when another holds the key
	var over seldom
	for {
		entry, err := a.entry()
		if err != nil {
			return fmt.Errorf("agent %s: %w", a.cfg.ID, err)
		}
		lease, err := a.deps.Registry.Register(ctx, key, entry, a.Server.cfg.LeaseTTL)
		switch {
		case ctx.Err() != nil:
			if err == nil {
				a.resign(lease)
			}
			return nil
		case errors.Is(err, bus.ErrExists):
			if a.evict(ctx, key) {
				continue
			}
			other, mine := a.holder(ctx, key)
			if taken.IsZero() {
				taken = time.Now()
			}
			// The lease of our own last life ends by itself.
			if !mine || time.Since(taken) > a.Server.cfg.LeaseTTL+2*time.Second {
				select {
				case <-a.registered: // we were there first, and lost the lease for a while
					if over.due() {
						a.log.Error("agent id was taken over: nothing is sold here until that one is gone", "by", other)
					}
				default:
					return fmt.Errorf("agent %s: the id is already registered by %s: ids are unique in a market, so call one of the two otherwise", a.cfg.ID, other)
				}
			}
			pause = min(2*pause, time.Second)
		case err != nil:
			a.fails(registration, "not registered: the registry does not answer", err)
			pause = min(2*pause, 3*time.Second)
		default:
			taken, pause = time.Time{}, 100*time.Millisecond
			select {
			case <-a.registered:
				if !a.works(registration, "registered again") {
					a.log.Debug("registered again")
				}
			default:
				a.log.Info("registered", "model", a.coreModel(), "slots", a.cfg.Slots)
				close(a.registered)
				a.works(registration, "the registry answers")
			}
			if a.keep(ctx, lease) {
				return nil
			}
			pause = time.Second // with jitter: all agents lost theirs at once
		}
		if !sleep(ctx, jitter(pause)) {
			return nil
		}
	}
}

// registration is the part of an agent that keeps it in the registry.
const registration = "registration"

const leaseLost = "lease lost: nothing is sold here until it is registered again"

func (a *seller) coreModel() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.core.cfg.Model
}

func (a *seller) entry() ([]byte, error) {
	a.mu.Lock()
	r := a.core.Registration(a.Server.cfg.Node)
	r.Life = a.deps.Home.Life()
	a.listed = r.State
	a.mu.Unlock()
	return bus.EncodeEntry(r)
}

// evict ends a lease of our own that we had lost and the registry still keeps, as after an outage of it; or one of an earlier life of
// this node, which is dead, for the lock of its directory is ours. It reports whether there was one.
func (a *seller) evict(ctx context.Context, key string) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	kvs, err := a.deps.Registry.Get(ctx, key)
	if err != nil {
		return false
	}
	for _, kv := range kvs {
		var r bus.Registration
		if kv.Key != key || json.Unmarshal(kv.Value, &r) != nil {
			continue
		}
		former := a.deps.Home.Ended(r.Life)
		if !former && (r.Node != a.Server.cfg.Node || r.Boot != a.boot || r.Life != a.deps.Home.Life()) {
			return false
		}
		if err := a.deps.Registry.Evict(ctx, key, kv.Value); err != nil {
			a.log.Warn("an old lease of this node is not ended", "err", err)
			return false
		}
		if former {
			a.log.Info("the lease of an earlier life of this node is ended", "started", time.UnixMilli(r.Boot).UTC().Format(time.RFC3339))
		}
		return true
	}
	return false
}

// holder names who has the key, and whether that is this node in an earlier life.
func (a *seller) holder(ctx context.Context, key string) (string, bool) {
	kvs, err := a.deps.Registry.Get(ctx, key)
	if err != nil {
		return "an unknown node", true
	}
	for _, kv := range kvs {
		var r bus.Registration
		if kv.Key == key && json.Unmarshal(kv.Value, &r) == nil {
			return fmt.Sprintf("node %q (model %s, started %s)", r.Node, r.Model, time.UnixMilli(r.Boot).UTC().Format(time.RFC3339)),
				r.Node == a.Server.cfg.Node && r.Boot != a.boot // clocks may be set back
		}
	}
	return "a node that has just gone", true
}

// keep returns true when ctx has ended and the lease is closed, false when it was lost.
func (a *seller) keep(ctx context.Context, lease bus.Lease) bool {
	for {
		select {
		case <-ctx.Done():
			a.resign(lease)
			return true
		case <-lease.Lost():
			a.fails(registration, leaseLost, bus.ErrLost)
			return false
		case <-a.enrol:
			entry, err := a.entry()
			if err == nil {
				err = lease.Update(ctx, entry)
			}
			if errors.Is(err, bus.ErrLost) {
				a.fails(registration, leaseLost, err)
				return false
			}
			if err == nil {
				a.works(registration, "the registry answers again")
			} else if ctx.Err() == nil {
				a.fails(registration, "registration not updated", err)
				if sleep(ctx, jitter(time.Second)) {
					nudge(a.enrol)
				}
			}
		}
	}
}

func (a *seller) resign(lease bus.Lease) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := lease.Close(ctx); err != nil {
		a.log.Warn("lease not closed; it ends by itself", "err", err)
	}
}

// watchClaim follows which hub sells the slots.
func (a *seller) watchClaim(ctx context.Context) {
	key := bus.ClaimKey(a.cfg.ID)
	for ctx.Err() == nil {
		events, err := a.deps.Registry.Watch(ctx, key)
		if err != nil {
			if ctx.Err() == nil {
				a.fails("claims", "claims are not watched", err)
			}
			sleep(ctx, jitter(time.Second))
			continue
		}
		a.works("claims", "the registry answers again")
		named, synced := false, false
		for ev := range events {
			switch {
			case ev.Synced && synced:
				// After an outage: what was named before may be older than it, so ask.
				a.readClaim(ctx, true)
			case ev.Synced:
				if synced = true; !named {
					a.with(func(core *Agent) { core.Claimed(nil) })
				}
			case ev.Key != key: // another agent whose id begins like ours
			case ev.Deleted:
				a.with(func(core *Agent) { core.Unclaimed(ev.Rev) })
			default:
				named = true
				a.claimed(ev.KV)
			}
		}
		sleep(ctx, jitter(100*time.Millisecond))
	}
}

// readClaim asks the registry itself. gone says what to make of finding none: in the moment of a dispatch that
// says nothing new.
func (a *seller) readClaim(ctx context.Context, gone bool) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	key := bus.ClaimKey(a.cfg.ID)
	kvs, err := a.deps.Registry.Get(ctx, key)
	if err != nil {
		return
	}
	for _, kv := range kvs {
		if kv.Key == key {
			a.mu.Lock()
			fence := a.core.fence
			a.mu.Unlock()
			if kv.Create < fence {
				a.log.Warn("the registry has an older claim than one seen before, as if restored from a copy: "+
					"nothing is sold under it; start agentd anew", "fence", kv.Create, "seen", fence)
			}
			a.claimed(kv)
			return
		}
	}
	if gone {
		a.with(func(core *Agent) { core.Claimed(nil) })
	}
}

func (a *seller) claimed(kv bus.KV) {
	var c bus.Claim
	if err := bus.DecodeEntry(kv.Value, &c); err != nil {
		a.log.Warn("claim cannot be read", "err", err)
		return
	}
	c.Fence = kv.Create
	a.with(func(core *Agent) { core.Claimed(&c) })
}

// watchEngine scrapes the engine slowly and notices when it is gone or hangs. A server that went silent, or
// answered 500, is asked for a token before it is trusted again: its /health says 200 while the
// engine behind it hangs, and while it shuts down.
func (a *seller) watchEngine(ctx context.Context) {
	failed := 0
	told, tellAfter, news := "", time.Time{}, leastNews // what was logged of it last, and when other news are
	for {
		pause := a.Server.cfg.ScrapeEvery
		if failed > 0 {
			pause = min(pause, time.Second)
		}
		t := time.NewTimer(jitter(pause))
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-a.check:
			t.Stop()
		case <-t.C:
		}
		before := a.stats().State
		load, err := a.engine.Load(ctx)
		if err == nil && a.suspected() {
			err = a.probe(ctx)
		}
		if err == nil && before == bus.StateUnhealthy {
			err = a.returned(ctx)
		}
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			failed = 0
			a.with(func(core *Agent) { core.Loaded(load) })
		} else if failed++; failed >= 2 || a.suspected() { // one slow scrape under load is no death
			a.with(func(core *Agent) { core.Unhealthy() })
		}
		a.looked(err)
		switch now := a.stats().State; {
		case now != before:
			level := slog.LevelWarn
			if now == bus.StateDraining || now == bus.StateReady { // asked for, or good news
				level = slog.LevelInfo
			}
			a.log.Log(ctx, level, "engine", "state", now, "was", before, "err", err)
			told, tellAfter, news = fmt.Sprint(err), time.Now().Add(leastNews), leastNews
		case now == bus.StateUnhealthy && err != nil && err.Error() != told && time.Now().After(tellAfter): // it answers now, but as another one, say
			a.log.Warn("engine", "state", now, "err", err)
			news = min(2*news, mostNews)
			told, tellAfter = err.Error(), time.Now().Add(news)
		}
		// Not only when it has changed: a failed task says unhealthy at any moment, also during the look that finds all well.
		a.mu.Lock()
		stale := a.listed != a.core.State()
		a.mu.Unlock()
		if stale {
			nudge(a.enrol)
		}
	}
}

// What keeps an engine from being sold may change without end, as where its server is started again and again: the pause between two lines
// about it doubles.
const (
	leastNews = 2 * time.Second
	mostNews  = 10 * time.Minute
)

// returned looks who it is that answers again.
func (a *seller) returned(ctx context.Context) error {
	info, err := a.engine.Info(ctx)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.core.Returned(info)
}

func (a *seller) suspected() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.suspect
}

// probe asks for one token.
func (a *seller) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.Engine.Progress)
	defer cancel()
	_, err := a.engine.Complete(ctx, Request{ID: "probe-" + a.cfg.ID, Kind: bus.KindCompletion, Body: json.RawMessage(`{"prompt":"."}`), Model: a.coreModel(), MaxTokens: 1},
		func(Chunk) error { return nil })
	var e *EngineError
	if errors.As(err, &e) && e.Code == bus.CodeNoSlot {
		err = nil // full, so alive
	}
	if err == nil {
		a.mu.Lock()
		a.suspect = false
		a.mu.Unlock()
	}
	return err
}

// loop does what the core wants done.
func (a *seller) loop(ctx context.Context) {
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		case <-a.kick:
		}
		now := time.Now()
		a.mu.Lock()
		r := a.core.Ready(now)
		a.mu.Unlock()
		if r.Summary != nil {
			a.tell(bus.SummarySubject(r.Domain, a.cfg.ID), r.Summary)
		}
		for _, c := range r.Completions {
			a.sends.Go(func() { a.report(c) })
		}
		t.Reset(max(time.Until(r.Wake), time.Millisecond))
	}
}

func (a *seller) tell(subject string, m bus.Message) {
	data, err := bus.Encode(m)
	if err == nil {
		err = a.deps.Bus.Publish(bus.Msg{Subject: subject, Data: data})
	}
	switch {
	case err == nil, errors.Is(err, bus.ErrClosed):
	case errors.Is(err, bus.ErrDisconnected): // once a second and stream, and said once by whoever watches the bus
		a.log.Debug("not sent: the bus is away", "subject", subject)
	default:
		a.log.Warn("not sent", "subject", subject, "err", err)
	}
}

// report sends a completion once and tells the core how that went.
func (a *seller) report(r Report) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	ack, err := a.send(ctx, r)
	if err == nil {
		a.decided(r.Completion, ack.Code == bus.CodeMoved)
	}
	abandoned, over := false, false
	a.with(func(core *Agent) {
		if err == nil {
			core.Acked(r.Completion.Hold, ack.Code)
		} else {
			abandoned = core.Unsent(time.Now(), r.Completion.Hold, rand.Float64())
		}
		over = r.Completion.Boot != a.boot && !slices.Contains(core.Former(), r.Completion.Boot)
	})
	if a.spool != nil && (err == nil || abandoned) {
		a.spool.Done(r.Completion.Hold)
	}
	if over {
		nudge(a.enrol) // its hub may end the other holds of that life
	}
	if abandoned {
		a.log.Error("completion given up: no hub acknowledged it", "hold", r.Completion.Hold, "cost", r.Completion.Cost)
	}
	if err == nil && ack.Code == bus.CodeLate {
		a.log.Warn("completion came too late and is unpaid", "hold", r.Completion.Hold, "cost", r.Completion.Cost)
	}
}

func (a *seller) send(ctx context.Context, r Report) (ack bus.CompletionAck, err error) {
	data, err := bus.Encode(&r.Completion)
	if err != nil {
		return ack, err
	}
	m, err := a.deps.Bus.Request(ctx, bus.Msg{Subject: bus.CompletionSubject(r.Domain, a.cfg.ID), Data: data})
	if err != nil {
		return ack, err
	}
	if err := bus.Decode(m.Data, &ack); err != nil {
		return ack, err
	}
	if ack.Hold != r.Completion.Hold {
		return ack, fmt.Errorf("acknowledgement of %q for %q", ack.Hold, r.Completion.Hold)
	}
	if ack.Code != "" && ack.Code != bus.CodeLate && ack.Code != bus.CodeMoved {
		return ack, &bus.Error{Code: ack.Code, Message: "the hub did not take the completion"}
	}
	return ack, nil
}

// decided tells the reader of a failed answer that there is none, unless its hub moved the task.
func (a *seller) decided(c bus.Completion, moved bool) {
	if !c.Unsaid {
		return
	}
	a.mu.Lock()
	s := a.shelf.byHold[c.Hold]
	delete(a.shelf.byHold, c.Hold)
	a.mu.Unlock()
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if data := s.decided(time.Now(), moved); data != nil {
		a.publish(s, data)
	}
}

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

// take puts a dispatch to the core and makes the stream of an accepted one.
func (a *seller) take(domain string, d *bus.Dispatch) (bus.DispatchReply, *stream) {
	a.mu.Lock()
	defer a.mu.Unlock()
	reply, ok := a.core.Dispatch(domain, d)
	if !ok {
		return reply, nil
	}
	s := newStream(time.Now(), d, a.core.Begin(d), a.Server.cfg.KeepStream)
	s.era = a.era.Load()
	a.shelf.add(s)
	a.runs.Add(1)
	return reply, s
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

// askClaim has the claim itself read, since a hub that has just claimed us may be faster than the watch, and f called then. What comes
// while it is being read waits for the next reading: the dispatches of a round come together. It returns false if as many wait as could run.
func (a *seller) askClaim(f func()) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.unsure) >= a.cfg.Slots {
		return false
	}
	a.unsure = append(a.unsure, f)
	if !a.asking {
		a.asking = true
		a.sends.Go(a.readClaims)
	}
	return true
}

// readClaims reads the claim for those who wait for it, until nobody does.
func (a *seller) readClaims() {
	for {
		a.mu.Lock()
		wait := a.unsure
		a.unsure, a.asking = nil, len(wait) > 0
		a.mu.Unlock()
		if len(wait) == 0 {
			return
		}
		a.readClaim(context.Background(), false)
		for _, f := range wait {
			f()
		}
	}
}

// drain lets what runs finish, then has it settled.
func (a *seller) drain() {
	a.with(func(core *Agent) { core.Drain() })
	nudge(a.enrol)
	if !a.wait(a.Server.cfg.DrainTimeout, (*Agent).Idle) {
		a.mu.Lock()
		n := 0
		for _, s := range a.shelf.running() {
			if s.cancel != nil {
				s.cancel(ErrDrained)
				n++
			}
		}
		a.mu.Unlock()
		a.log.Warn("tasks cut at shutdown", "n", n)
	}
	a.runs.Wait()
	if !a.wait(a.Server.cfg.SettleTimeout, (*Agent).Settled) {
		kept, lost := a.unsettled()
		if lost > 0 {
			a.log.Error("completions not acknowledged at shutdown: their holds will expire unpaid", "n", lost)
		}
		if kept > 0 {
			a.log.Warn("completions not acknowledged at shutdown: they are written down, and sent after the next start", "n", kept)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	a.deps.Bus.Flush(ctx)
}

// unsettled counts the completions that are not acknowledged: those that the next life will find, and the others. A failed task has
// nothing to lose.
func (a *seller) unsettled() (kept, lost int) {
	a.mu.Lock()
	var open []bus.Completion
	for _, p := range a.core.pending {
		open = append(open, p.c)
	}
	a.mu.Unlock()
	for i := range open {
		switch {
		case a.spool != nil && a.spool.Has(open[i].Hold):
			kept++
		case open[i].Outcome != bus.OutcomeFailed:
			lost++
		}
	}
	return kept, lost
}

// wait returns whether the core came to a state in time.
func (a *seller) wait(most time.Duration, ok func(*Agent) bool) bool {
	deadline := time.Now().Add(most)
	for {
		a.mu.Lock()
		done := ok(a.core)
		a.mu.Unlock()
		if done {
			return true
		}
		if !time.Now().Before(deadline) {
			return false
		}
		sleep(context.Background(), min(20*time.Millisecond, time.Until(deadline)))
	}
}

// start serves an accepted dispatch.
func (a *seller) start(s *stream) {
	if s == nil {
		return
	}
	d := s.run.Dispatch()
	limit := a.Server.cfg.MaxRun
	if d.TimeoutMS > 0 {
		limit = time.Duration(d.TimeoutMS) * time.Millisecond
	}
	ctx, done := context.WithTimeoutCause(context.Background(), limit, ErrTimeout)
	ctx, cancel := context.WithCancelCause(ctx)
	a.mu.Lock()
	s.cancel = cancel
	request := a.core.Request(d)
	switch { // before it began
	case s.recalled:
		cancel(errRecalled)
	case s.over:
		cancel(ErrCancelled)
	}
	a.mu.Unlock()
	go func() {
		defer a.runs.Done()
		defer done()
		answer, err := a.engine.Complete(ctx, request, func(c Chunk) error { return a.relay(s, c) })
		a.finish(s, answer, err)
		cancel(nil)
	}()
}

// relay passes on what one read of the engine's socket yielded.
func (a *seller) relay(s *stream, c Chunk) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	data, err := s.take(time.Now(), c, a.deps.Bus.MaxPayload())
	if err != nil || data == nil {
		return err
	}
	return a.publish(s, data)
}

// publish sends a chunk to its reader. A bus that is away loses it; the reader asks again.
func (a *seller) publish(s *stream, data []byte) error {
	if s.reply == "" {
		return nil
	}
	if err := a.deps.Bus.Publish(bus.Msg{Subject: s.reply, Data: data}); errors.Is(err, bus.ErrTooLarge) {
		return err
	}
	return nil
}

// finish settles a run: the reader's last word first, then the hub's account.
func (a *seller) finish(s *stream, answer Answer, err error) {
	s.mu.Lock()
	d := s.run.Dispatch()
	e, data, err := s.end(time.Now(), answer, err, a.deps.Bus.MaxPayload(), a.Server.cfg.KeepFrames)
	unsaid := s.unsaid != nil
	if s.era == a.era.Load() && s.era%2 == 0 && err == nil {
		// Before its reader can have the answer's end. While the bus is away nobody can say what of it is delivered. A disk
		// may be slow, and others look at the stream.
		s.mu.Unlock()
		c := e.Completion
		c.Boot = a.boot
		a.keepReport(Report{d.Domain, c})
		s.mu.Lock()
	}
	if err == nil && !unsaid {
		err = a.publish(s, data)
	}
	s.mu.Unlock()
	if err != nil {
		a.log.Error("end frame not sent", "client", s.id.client, "task", s.id.task, "err", err)
	}

	a.mu.Lock()
	c := a.core.Ended(d, &e)
	if unsaid {
		a.shelf.byHold[d.Hold] = s
	}
	a.suspect = a.suspect || e.Doubtful
	if e.Engine {
		a.core.Unhealthy() // until it has been looked at, which is now: whatever comes next would fare as ill
	}
	a.shelf.put(time.Now(), s)
	a.mu.Unlock()
	if e.Engine {
		a.log.Warn("the engine failed a task", "client", s.id.client, "task", s.id.task, "err", e.Result.Message)
		nudge(a.check)
	}
	nudge(a.kick)
	a.sends.Go(func() { a.report(Report{d.Domain, c}) })
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
			a.shelf.sweep(now)
			running := a.shelf.running()
			a.mu.Unlock()
			for _, s := range running {
				s.mu.Lock()
				if beat := s.heartbeat(now, every*3/4); beat != nil {
					a.tell(s.reply, beat)
				}
				s.mu.Unlock()
			}
		}
	}
}

// onControl hears a client, or a hub that speaks of a client's task: the subject says whose.
func (a *seller) onControl(m bus.Msg) {
	var c bus.StreamControl
	if err := bus.Decode(m.Data, &c); err != nil {
		a.log.Debug("stream control cannot be read", "subject", m.Subject, "err", err)
		return
	}
	id := streamID{bus.LastToken(m.Subject), c.Task}
	read, stranger := "", false
	a.mu.Lock()
	s := a.shelf.byID[id]
	switch {
	case s == nil && c.Resume != nil: // told at once, but no more of them than an earlier life had readers
		if told, now := &a.shelf.resends.told, time.Now(); told.wait(now) == 0 {
			told.take(now, 1)
			stranger = true
		}
	case s == nil:
	case c.Resume != nil:
		a.shelf.resends.ask(s, *c.Resume)
		nudge(a.missed)
	case c.Cancel && !s.over:
		s.over = true
		if stop := s.cancel; stop != nil {
			if wait := s.quits(time.Now()); wait > 0 { // what the engine has begun to compute is due
				s.quit = time.AfterFunc(wait, func() { stop(ErrCancelled) })
			} else {
				stop(ErrCancelled)
			}
		}
	case c.Ack != nil:
		a.shelf.acked(s, *c.Ack)
		if s.era != a.era.Load() { // it was not written down, and its reader has it now
			read = s.hold
		}
	case c.Recall != "" && c.Recall == s.hold && !s.over && s.unheard():
		s.over, s.recalled = true, true
		if s.cancel != nil {
			s.cancel(errRecalled)
		}
	}
	var late Report
	if read != "" && a.shelf.byID[id] != s {
		late, _ = a.core.Pending(read)
	}
	a.mu.Unlock()
	if late.Domain != "" {
		a.keepReport(late)
		a.mu.Lock()
		_, still := a.core.Pending(read)
		a.mu.Unlock()
		if a.spool != nil && !still {
			a.spool.Done(read)
		}
	}
	if stranger && bus.ValidID(id.client) {
		none := gone(a.cfg.ID, id, *c.Resume, bus.CodeUnknown, "no such answer is kept here")
		a.tell(bus.ReplySubject(id.client, id.task), none)
	}
}

// repeat sends again what readers have missed, piece by piece, so that nothing else waits for it.
func (a *seller) repeat(ctx context.Context) {
	idle := time.NewTimer(0)
	defer idle.Stop()
	for ctx.Err() == nil {
		now := time.Now()
		a.mu.Lock()
		s, wake := a.shelf.resends.next(now)
		if s != nil {
			s.again.begin(now)
		}
		a.mu.Unlock()
		if s != nil {
			bytes := a.sendPiece(s)
			a.mu.Lock()
			a.shelf.resends.sent(time.Now(), s, bytes)
			a.mu.Unlock()
			continue
		}
		var due <-chan time.Time
		if !wake.IsZero() {
			idle.Reset(time.Until(wake))
			due = idle.C
		}
		select {
		case <-ctx.Done():
		case <-a.missed:
		case <-due:
		}
	}
}

// sendPiece sends the next piece of a repeat and returns its bytes. A connection may be slow, and others look
// at the stream; readers put in order what overtakes.
func (a *seller) sendPiece(s *stream) (bytes int) {
	s.mu.Lock()
	frames, word := s.piece(a.cfg.ID)
	if word != nil { // in order: a heartbeat counts what went before it
		a.tell(s.reply, word)
	}
	s.mu.Unlock()
	for _, data := range frames {
		bytes += len(data)
		a.publish(s, data)
	}
	return bytes
}
