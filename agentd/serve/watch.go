package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"souk/agentd"
	"souk/agentd/kvevent"
	"souk/bus"
	"souk/bus/follow"
)

// watchEngine scrapes the engine's metrics and notices when it is gone or hangs. A server that went silent,
// or answered 500, has to serve a token before it is trusted again: its /health says 200 while the engine
// behind it hangs, and while it shuts down.
func (a *agent) watchEngine(ctx context.Context) {
	failed := 0
	told, tellAfter, gap := "", time.Time{}, leastGap // what was logged last, and when it may be again
	for {
		pause := a.Server.cfg.ScrapeEvery
		if failed > 0 {
			pause = min(pause, time.Second)
		}
		select {
		case <-ctx.Done():
			return
		case <-a.check:
		case <-time.After(follow.Jitter(pause)):
		}
		before := a.stats().State
		load, err := a.engine.Load(ctx)
		if errors.Is(err, agentd.ErrAnother) {
			if err = a.returned(ctx); err == nil {
				load, err = a.engine.Load(ctx)
			}
		}
		lost := err == nil && load.Models != nil && !slices.Contains(load.Models, a.coreModel())
		if lost { // its adapter is loaded again, and an agent without a model of its own sells another
			err = a.returned(ctx)
		}
		if err == nil && a.suspected() {
			err = a.probe(ctx)
		}
		if err == nil && before == bus.StateUnhealthy && !lost {
			err = a.returned(ctx)
		}
		if ctx.Err() != nil {
			return
		}
		if lost && err != nil {
			err = fmt.Errorf("model %s is not offered until its engine serves it again: %w", a.coreModel(), err)
		}
		if err == nil || lost {
			a.setGone(err != nil)
		}
		if err == nil {
			failed = 0
			a.with(func(core *agentd.Agent) { core.Healthy(load.Generated) })
		} else if failed++; failed >= 2 || lost || a.suspected() { // one slow scrape under load is no death
			a.with(func(core *agentd.Agent) { core.Unhealthy() })
		}
		a.looked(err)
		if err == nil {
			a.askAgain(ctx)
		}
		switch now := a.stats().State; {
		case now != before:
			level := slog.LevelWarn
			if now == bus.StateDraining || now == bus.StateReady { // asked for, or good news
				level = slog.LevelInfo
			}
			said := []any{"state", now, "was", before}
			if err != nil {
				said = append(said, "err", err)
			}
			a.log.Log(ctx, level, "engine", said...)
			told, tellAfter, gap = fmt.Sprint(err), time.Now().Add(leastGap), leastGap
		case now == bus.StateUnhealthy && err != nil && err.Error() != told && time.Now().After(tellAfter):
			// Still unhealthy, for another reason: it answers now, but serves another model, say.
			a.log.Warn("engine", "state", now, "err", err)
			gap = min(2*gap, mostGap)
			told, tellAfter = err.Error(), time.Now().Add(gap)
		}
		// Not only when this look changed it: a task may fail during a look that finds all well.
		a.mu.Lock()
		stale := a.listed != a.core.State()
		a.mu.Unlock()
		if stale || lost {
			follow.Nudge(a.changed)
		}
	}
}

// onEvents takes in what the engine says of its cache.
func (a *agent) onEvents(u kvevent.Update) {
	switch {
	case u.Restarted:
		a.log.Info("the engine says what it caches, from its beginning", "why", u.Why)
	case u.Blind && a.stats().Cache.Evidence == bus.EvidenceInferred: // it never said anything
		a.log.Info("the engine does not say what it caches: hubs believe by what was served", "why", u.Why)
	case u.Blind:
		a.log.Warn("what the engine caches is not known: hubs believe by what was served", "why", u.Why)
	}
	a.with(func(core *agentd.Agent) { core.Events(u) })
}

// What is wrong with an engine may change without end, as where its server is started again and again: the
// pause between two lines of the log about it doubles.
const (
	leastGap = 2 * time.Second
	mostGap  = 10 * time.Minute
)

// setGone notes whether the engine has lost the agent's model: without it the agent leaves the market.
func (a *agent) setGone(gone bool) {
	a.mu.Lock()
	was := a.gone
	a.gone = gone
	a.mu.Unlock()
	if gone != was {
		follow.Nudge(a.changed)
	}
}

func (a *agent) isGone() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.gone
}

// returned tells the core what the engine is that answers again.
func (a *agent) returned(ctx context.Context) error {
	info, err := a.engine.Info(ctx)
	if err != nil {
		return err
	}
	a.lacking(&info)
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.core.Returned(info)
}

func (a *agent) suspected() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.suspect
}

// probe asks the engine for one token, by a chat where it has no completions.
func (a *agent) probe(ctx context.Context) error {
	a.mu.Lock()
	token, chat := a.core.Probe(false), a.core.Probe(true)
	a.mu.Unlock()
	err := a.ask(ctx, token)
	var e *agentd.EngineError
	if errors.As(err, &e) && e.Status == http.StatusNotFound {
		err = a.ask(ctx, chat)
	}
	if err == nil {
		a.mu.Lock()
		a.suspect = false
		a.mu.Unlock()
	}
	return err
}

// ask asks the engine for one token. One that is full is alive.
func (a *agent) ask(ctx context.Context, token agentd.Request) error {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.Engine.Progress)
	defer cancel()
	_, err := a.engine.Complete(ctx, token, func(agentd.Chunk) error { return nil })
	var e *agentd.EngineError
	if errors.As(err, &e) && e.Code == bus.CodeNoSlot {
		return nil
	}
	return err
}

// askAgain sells the engine again for tasks for which it had no endpoint, once it has one.
func (a *agent) askAgain(ctx context.Context) {
	a.mu.Lock()
	token, due := a.core.AskAgain(time.Now())
	a.mu.Unlock()
	if !due || a.ask(ctx, token) != nil {
		return
	}
	a.with((*agentd.Agent).Has)
	a.log.Info("the engine has the endpoint by now, and is sold for such tasks again", "kind", token.Kind)
	follow.Nudge(a.changed)
}
