package serve

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"souk/agentd"
	"souk/bus"
	"souk/bus/follow"
)

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
	runs       sync.WaitGroup
	reports    sync.WaitGroup // completions being sent, claims being read

	mu      sync.Mutex
	core    *agentd.Agent // nil until the engine is ready
	streams agentd.Streams
	adapters
	heard   time.Time // when the engine last said anything of any answer
	gone    bool      // the engine serves the model no more
	suspect bool      // the engine went silent, or failed with a 500: only an answer clears it
	reading bool      // the claim, from the registry
	unsure  []func()  // dispatches that wait for the next reading
	listed  string    // the state in the last registration
	why     string    // what the last look at the engine found wrong
	lacks   string    // what was said last that the engine lacks
	// of the engine's requests
	cancels map[*agentd.Stream]context.CancelCauseFunc
	acked   map[*agentd.Stream]chan struct{} // hear of acknowledgements

	secret [32]byte // of the nonces of its asks, and of the names of its blocks

	// answers in a row of which the engine did not say what it found cached; below 0: it does, or that was
	// said
	uncounted int

	spool *Spool // nil: what is not acknowledged when we are killed is lost

	trouble follow.Trouble // with the registry or the spool
}

func newAgent(s *Server, cfg agentd.AgentConfig) *agent {
	a := &agent{Server: s, cfg: cfg, engine: s.deps.Engine(cfg.Engine), log: s.log.With("agent", cfg.ID),
		registered: make(chan struct{}), kick: make(chan struct{}, 1), changed: make(chan struct{}, 1),
		check:   make(chan struct{}, 1),
		streams: agentd.NewStreams(s.cfg.KeepTotal),
		cancels: map[*agentd.Stream]context.CancelCauseFunc{}, acked: map[*agentd.Stream]chan struct{}{}}
	crand.Read(a.secret[:])
	return a
}

// with changes the core, if there is one, and wakes the loop that carries out what the core then wants.
func (a *agent) with(f func(*agentd.Agent)) {
	a.mu.Lock()
	if a.core != nil {
		f(a.core)
	}
	a.mu.Unlock()
	follow.Nudge(a.kick)
}

func (a *agent) stats() agentd.AgentStats {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.core == nil {
		return agentd.AgentStats{Agent: a.cfg.ID, Model: a.cfg.Model, State: booting, Why: a.why,
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

// lacking says what the engine lacks and what that costs, once for as long as it lacks just that.
func (a *agent) lacking(info *agentd.Info) {
	lacks := strings.Join(info.Lacks, "; ")
	a.mu.Lock()
	news := lacks != a.lacks
	a.lacks = lacks
	a.mu.Unlock()
	if news && lacks != "" {
		a.log.Warn("the engine is sold without what it does not have", "kind", info.Kind, "lacks", lacks)
	}
}

// run serves until ctx ends, and drains.
func (a *agent) run(ctx context.Context) error {
	info := a.await(ctx)
	if ctx.Err() != nil {
		return nil
	}
	left, err := a.openSpool()
	if err != nil {
		return fmt.Errorf("agent %s: %w", a.cfg.ID, err)
	}
	a.mu.Lock()
	a.core = a.newCore(info)
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
	wg.Go(func() { a.heartbeats(life) })
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

// await waits until the engine is ready and serves the model, or ctx ends.
func (a *agent) await(ctx context.Context) agentd.Info {
	pause := 50 * time.Millisecond
	for n := 0; ; n++ {
		info, err := a.engine.Info(ctx)
		switch {
		case err == nil && a.cfg.Model != "" && !slices.Contains(info.Models, a.cfg.Model):
			err = agentd.WrongModel(info.Models, a.cfg.Model)
		case err == nil:
			a.log.Info("engine ready", "url", bus.Redact(a.cfg.Engine.URL), "kind", info.Kind, "version",
				info.Version, "models", info.Models)
			a.lacking(&info)
			a.looked(nil)
			return info
		}
		a.looked(err)
		if n%20 == 5 { // after a few seconds, then every minute or so
			a.log.Warn("waiting for the engine", "url", bus.Redact(a.cfg.Engine.URL), "err",
				bus.RedactError(err))
		}
		if !follow.Pause(ctx, follow.Jitter(pause)) {
			return agentd.Info{}
		}
		pause = min(2*pause, 3*time.Second)
	}
}

// loop does what the core wants done, and sends again what readers have missed, piece by piece.
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
		missed, again := a.streams.Next(now, a.cfg.ID)
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
		if missed.Notice != nil {
			a.send(missed.Stream.Reply, missed.Notice)
		}
		for _, data := range missed.Messages {
			a.publish(missed.Stream, data)
		}
		if missed.Stream != nil {
			follow.Nudge(a.kick)
		}
		t.Reset(max(time.Until(bus.Sooner(r.Wake, again)), time.Millisecond))
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
