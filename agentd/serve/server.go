// Package serve runs the agents of one node: it registers them, watches their claims and engines, relays
// their answers, and sends completions. Package agentd decides; here are its lock, its loops and its files.
package serve

import (
	"cmp"
	"context"
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
	"souk/bus/metrics"
	"souk/bus/sight"
)

// Deps holds the ports and drivers of a node.
type Deps struct {
	Bus      bus.Bus
	Registry bus.Registry
	Engine   func(agentd.EngineConfig) agentd.Engine // makes the client of one engine
	// the node's directory; nil: the leases of earlier lives have to expire
	Home  *Home
	Log   *slog.Logger // nil: the default one
	Spans *sight.Spans // nil: none
	// of what it counts and measures; nil: nobody collects that
	Meter metrics.Meter
}

// Server runs the agents of one node.
type Server struct {
	cfg   agentd.Config
	deps  Deps
	log   *slog.Logger
	boot  int64
	ready chan struct{}

	first, inter *metrics.Recorder // seconds of first tokens and between tokens, by agent and model

	adding sync.Mutex
	agents []*agent
	some   chan struct{} // closed when the first agent is added
	start  func(*agent)  // nil: not yet

	// counts when the bus goes away and when it comes back: even while it is there
	outages atomic.Int64
	crew    *follow.Crew // serves dispatches and settles them
	bodies  bodies       // that come in pieces, or came so
	pace    follow.Pace
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
	deps.Log = cmp.Or(deps.Log, slog.Default())
	boot := time.Now().UnixMilli()
	if deps.Home != nil {
		boot = deps.Home.boot
	}
	s := &Server{cfg: cfg, deps: deps, log: deps.Log.With("node", cfg.Node), boot: boot,
		ready: make(chan struct{}), some: make(chan struct{}), crew: follow.NewCrew(),
		bodies: bodies{of: map[string]load{}}, pace: follow.Pace{Every: follow.PieceEvery}}
	s.observe()
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
