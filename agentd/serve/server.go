// Package serve runs the agents of one node: it registers them, watches their claims and engines, relays
// their answers, and sends completions. Package agentd decides; here are its lock, its loops and its files.
package serve

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"souk/agentd"
	"souk/bus"
	"souk/bus/follow"
)

// Deps is what a node stands on.
type Deps struct {
	Bus      bus.Bus
	Registry bus.Registry
	Engine   func(agentd.EngineConfig) agentd.Engine // makes the client of one engine
	// the node's directory; nil: the leases of earlier lives have to expire
	Home *Home
	Log  *slog.Logger   // nil: the default one
	Exit func(code int) // ends the process; nil: os.Exit
}

// Server runs the agents of one node.
type Server struct {
	cfg   agentd.Config
	deps  Deps
	log   *slog.Logger
	boot  int64
	ready chan struct{}
	hung  sync.Once

	adding sync.Mutex
	agents []*agent
	some   chan struct{} // closed once there is one
	start  func(*agent)  // nil: not yet

	// counts when the bus goes away and when it comes back: even while it is there
	outages atomic.Int64
	crew    *follow.Crew // serves dispatches and settles them
}

// NewServer judges the configuration; nothing runs before Run.
func NewServer(cfg agentd.Config, deps Deps) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("agentd: %w", err)
	}
	cfg = cfg.WithDefaults()
	if cfg.Node == "" {
		cfg.Node, _ = os.Hostname()
	}
	if deps.Log == nil {
		deps.Log = slog.Default()
	}
	if deps.Exit == nil {
		deps.Exit = os.Exit
	}
	if err := without(&cfg, &deps); err != nil {
		return nil, err
	}
	boot := time.Now().UnixMilli()
	if deps.Home != nil {
		boot = deps.Home.boot
	}
	s := &Server{cfg: cfg, deps: deps, log: deps.Log.With("node", cfg.Node), boot: boot,
		ready: make(chan struct{}), some: make(chan struct{}), crew: follow.NewCrew()}
	for _, a := range cfg.Agents {
		if err := s.Add(a); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Add has one more agent run, as long as the server does.
func (s *Server) Add(cfg agentd.AgentConfig) error {
	if err := cfg.Validate(); err != nil {
		return fmt.Errorf("agentd: agent %s: %w", cfg.ID, err)
	}
	cfg.Engine = cfg.Engine.WithDefaults()
	a := newAgent(s, cfg)
	s.adding.Lock()
	defer s.adding.Unlock()
	s.pair(a)
	if s.agents = append(s.agents, a); len(s.agents) == 1 {
		close(s.some)
	}
	if s.start != nil {
		s.start(a)
	}
	return nil
}

// known are the agents that there are by now.
func (s *Server) known() []*agent {
	s.adding.Lock()
	defer s.adding.Unlock()
	return slices.Clone(s.agents)
}

// Ready is closed when every agent of the configuration is registered, or, where it has none, the first that
// was added is. That waits for its engine.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Stats returns a snapshot of all agents; those whose engine still boots have no figures.
func (s *Server) Stats() agentd.Stats {
	out := agentd.Stats{Node: s.cfg.Node}
	for _, a := range s.known() {
		out.Agents = append(out.Agents, a.stats())
	}
	return out
}

// Run serves until ctx ends; then it drains: no new tasks, running ones get DrainTimeout, completions
// SettleTimeout. It returns an error only if an agent cannot be offered at all, as when its id is taken.
func (s *Server) Run(ctx context.Context) error { return follow.While(ctx, s.deps.Home.Held, s.run) }

func (s *Server) run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer s.crew.End()
	var wg sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	start := func(a *agent) {
		wg.Go(func() {
			if err := a.run(ctx); err != nil {
				mu.Lock()
				errs = append(errs, err)
				mu.Unlock()
				stop()
			}
		})
	}
	s.adding.Lock()
	s.start = start
	for _, a := range s.agents {
		start(a)
	}
	s.adding.Unlock()
	wg.Go(func() {
		select {
		case <-s.some:
		case <-ctx.Done():
			return
		}
		for _, a := range s.known() {
			select {
			case <-a.registered:
			case <-ctx.Done():
				return
			}
		}
		close(s.ready)
	})
	whole, end := context.WithCancel(context.WithoutCancel(ctx)) // draining needs the bus, too
	var watch sync.WaitGroup
	watch.Go(func() { s.watchBus(whole) })
	<-ctx.Done()
	s.adding.Lock()
	s.start = nil
	s.adding.Unlock()
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
			if up := s.outages.Load()%2 == 0; up != h.Connected {
				s.outages.Add(1)
			}
			if !h.Connected {
				continue
			}
			for _, a := range s.known() {
				a.with(func(core *agentd.Agent) { core.Reconnected() })
			}
		}
	}
}

// agent runs one agent. mu guards its machine: core and streams.
type agent struct {
	*Server
	cfg        agentd.AgentConfig
	engine     agentd.Engine
	log        *slog.Logger
	registered chan struct{}
	lease      atomic.Pointer[bus.Lease] // what it is registered under, or was
	awaited    atomic.Int64              // see agentd.AgentStats
	kick       chan struct{}             // the core has news
	changed    chan struct{}             // the registration has changed
	check      chan struct{}             // look at the engine now
	resend     chan struct{}             // a reader has missed something
	runs       sync.WaitGroup
	reports    sync.WaitGroup // completions being sent, claims being read

	mu      sync.Mutex
	core    *agentd.Agent // nil until the engine is ready
	streams agentd.Streams
	adapters
	heard   time.Time // when the engine last said anything of any answer
	suspect bool      // the engine went silent, or failed with a 500: only an answer clears it
	reading bool      // the claim, from the registry
	unsure  []func()  // dispatches that wait for the next reading
	listed  string    // the state in the last registration
	why     string    // what the last look at the engine found wrong
	dog     follow.Watchdog
	// of the engine's requests
	cancels map[*agentd.Stream]context.CancelCauseFunc

	secret [32]byte // of the nonces of its asks, and of the names of its blocks

	deaf bool // the engine is to say what it caches, and does not: for watchEngine alone

	// answers in a row of which the engine did not say what it found cached; below 0: it does, or that was
	// said
	uncounted int

	spool *Spool // nil: what is not acknowledged when we are killed is lost

	trouble struct { // with the registry or the spool
		sync.Mutex
		bus.Outage
	}
}

func newAgent(s *Server, cfg agentd.AgentConfig) *agent {
	a := &agent{Server: s, cfg: cfg, engine: s.deps.Engine(cfg.Engine), log: s.log.With("agent", cfg.ID),
		registered: make(chan struct{}), kick: make(chan struct{}, 1), changed: make(chan struct{}, 1),
		check: make(chan struct{}, 1), resend: make(chan struct{}, 1),
		streams: agentd.NewStreams(s.cfg.KeepTotal),
		cancels: map[*agentd.Stream]context.CancelCauseFunc{}}
	crand.Read(a.secret[:])
	return a
}

func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// with changes the core, if there is one, and has done what that now wants.
func (a *agent) with(f func(*agentd.Agent)) {
	a.mu.Lock()
	if a.core != nil {
		f(a.core)
	}
	a.mu.Unlock()
	nudge(a.kick)
}

func (a *agent) stats() agentd.AgentStats {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.core == nil {
		return agentd.AgentStats{Agent: a.cfg.ID, Model: a.cfg.Model, State: "booting", Why: a.why,
			Slots: a.cfg.Slots}
	}
	st := a.core.Stats()
	st.Why, st.Awaited = a.why, a.awaited.Load()
	return st
}

// looked notes what the last look at the engine found.
func (a *agent) looked(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.why = ""
	if err != nil {
		a.why = agentd.Clip(err.Error())
	}
}

// run serves until ctx ends, and drains.
func (a *agent) run(ctx context.Context) error {
	info, err := a.await(ctx)
	if err != nil || ctx.Err() != nil {
		return err
	}
	left, err := a.openSpool()
	if err != nil {
		return fmt.Errorf("agent %s: %w", a.cfg.ID, err)
	}
	a.mu.Lock()
	a.core = a.newCore(info)
	a.core.Watch(a.dog.Enters)
	a.core.Restore(left)
	a.mu.Unlock()
	if a.spool != nil {
		defer func() {
			if err := a.spool.Close(); err != nil {
				a.log.Warn("spool not closed", "err", err)
			}
		}()
	}

	// First: whoever finds the agent in the registry can reach it.
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
		{bus.DispatchSubject(a.cfg.ID, "*"), a.onDispatch},
		{bus.ControlSubject(a.cfg.ID, "*"), a.onHub},
		{bus.StreamSubject(a.cfg.ID, "*"), a.onReader},
		{bus.CallSubject(a.cfg.ID, "*"), a.onCall},
	} {
		sub, err := a.deps.Bus.Subscribe(l.subject, "", l.h)
		if err != nil {
			return fmt.Errorf("agent %s: %w", a.cfg.ID, err)
		}
		subs = append(subs, sub)
	}
	if err := a.deps.Bus.Flush(ctx); err != nil && ctx.Err() == nil {
		a.log.Warn("bus is slow to subscribe", "err", err)
	}

	life, end := context.WithCancel(context.WithoutCancel(ctx)) // draining needs all of these
	defer end()
	var wg sync.WaitGroup
	var fatal error
	lost := make(chan struct{})
	wg.Go(func() {
		if fatal = a.register(life); fatal != nil {
			close(lost)
		}
	})
	wg.Go(func() {
		select {
		case <-a.registered:
			a.watchClaim(life)
		case <-life.Done():
		}
	})
	wg.Go(func() { a.watchEngine(life) })
	wg.Go(func() { a.engine.Events(life, a.onEvents) })
	wg.Go(func() { a.loop(life) })
	wg.Go(func() { a.dog.Run(life, a.hangs) })
	wg.Go(func() { a.heartbeats(life) })
	wg.Go(func() { a.resendLoop(life) })
	select {
	case <-ctx.Done():
		a.drain()
	case <-lost:
	}
	end()
	wg.Wait()
	for _, sub := range subs {
		sub.Stop()
	}
	subs = nil
	a.runs.Wait()
	a.reports.Wait()
	return fatal
}

// await waits until the engine is ready and serves the model.
func (a *agent) await(ctx context.Context) (agentd.Info, error) {
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
		if !follow.Pause(ctx, follow.Jitter(pause)) {
			return agentd.Info{}, nil
		}
		pause = min(2*pause, 3*time.Second)
	}
}

// loop does what the core wants done.
func (a *agent) loop(ctx context.Context) {
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
			a.send(bus.SummarySubject(r.Domain, a.cfg.ID), r.Summary)
		}
		for i := range r.Holdings {
			a.send(bus.HoldingsSubject(r.Domain, a.cfg.ID), &r.Holdings[i])
		}
		for _, c := range r.Completions {
			a.reports.Go(func() {
				select { // another may have the id: then what a copied spool has is its to send
				case <-a.registered:
					a.report(c)
				case <-ctx.Done():
				}
			})
		}
		a.tell(r.Heard)
		for _, e := range r.Effects {
			a.do(&e)
		}
		for _, err := range r.Faults {
			a.log.Error("a policy is off for a while", "err", err)
		}
		t.Reset(max(time.Until(r.Wake), time.Millisecond))
	}
}

func (a *agent) send(subject string, m bus.Message) {
	data, err := bus.Encode(m)
	if err == nil {
		err = a.deps.Bus.Publish(bus.Msg{Subject: subject, Data: data})
	}
	if !errors.Is(err, bus.ErrClosed) {
		follow.Unsent(a.log, err, "not sent", "subject", subject)
	}
}

func (a *agent) coreModel() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.core.Model()
}
