package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"souk/agentd"
	"souk/bus"
	"souk/bus/follow"
)

// watchEngine scrapes the engine slowly and notices when it is gone or hangs. A server that went silent, or
// answered 500, is asked for a token before it is trusted again: its /health says 200 while the
// engine behind it hangs, and while it shuts down.
func (a *agent) watchEngine(ctx context.Context) {
	failed := 0
	told, tellAfter, news := "", time.Time{}, leastNews // what was logged of it last, and when other news are
	for {
		pause := a.Server.cfg.ScrapeEvery
		if failed > 0 {
			pause = min(pause, time.Second)
		}
		t := time.NewTimer(follow.Jitter(pause))
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
			a.with(func(core *agentd.Agent) { core.Loaded(load) })
		} else if failed++; failed >= 2 || a.suspected() { // one slow scrape under load is no death
			a.with(func(core *agentd.Agent) { core.Unhealthy() })
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
		case now == bus.StateUnhealthy && err != nil && err.Error() != told && time.Now().After(tellAfter):
			// It answers now, but as another one, say.
			a.log.Warn("engine", "state", now, "err", err)
			news = min(2*news, mostNews)
			told, tellAfter = err.Error(), time.Now().Add(news)
		}
		// Not only when it has changed: a failed task says unhealthy at any moment, also during the look that
		// finds all well.
		a.mu.Lock()
		stale := a.listed != a.core.State()
		a.mu.Unlock()
		if stale {
			nudge(a.changed)
		}
	}
}

// What keeps an engine from being sold may change without end, as where its server is started again and
// again: the pause between two lines about it doubles.
const (
	leastNews = 2 * time.Second
	mostNews  = 10 * time.Minute
)

// returned looks who it is that answers again.
func (a *agent) returned(ctx context.Context) error {
	info, err := a.engine.Info(ctx)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.core.Returned(info)
}

func (a *agent) suspected() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.suspect
}

// probe asks for one token.
func (a *agent) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.Engine.Progress)
	defer cancel()
	token := agentd.Request{ID: "probe-" + a.cfg.ID, Kind: bus.KindCompletion,
		Body: json.RawMessage(`{"prompt":"."}`), Model: a.coreModel(), MaxTokens: 1}
	_, err := a.engine.Complete(ctx, token, func(agentd.Chunk) error { return nil })
	var e *agentd.EngineError
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
