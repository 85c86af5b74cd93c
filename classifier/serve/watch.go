package serve

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"souk/bus"
	"souk/bus/follow"
	"souk/classifier"
)

// watch keeps the table as the registry has it. What is known stays known while the registry is out of reach.
func (s *Server) watch(ctx context.Context, synced func()) {
	f := follow.Follower{Set: s.onHub, Gone: s.onGone, Log: s.d.Log, Synced: func() {
		s.change(func(t *classifier.Table) *classifier.Table { return t.Whole(time.Now()) })
		synced()
	}}
	follow.Run(ctx, s.d.Registry, bus.HubsPrefix, f)
}

// memory follows the hubs that have led of late: one that had left before this door began may have a task.
// known is closed once they are known, or cannot be: a registry that was not told of this door does not show
// them to it. What is known stays known.
func (s *Server) memory(ctx context.Context, known func()) {
	f := follow.Follower{Synced: known, Log: s.d.Log, Set: func(kv bus.KV) {
		s.change(func(t *classifier.Table) *classifier.Table {
			return t.WithLed(bus.LastElement(kv.Key), time.Now())
		})
	}, Gone: func(key string) {
		s.change(func(t *classifier.Table) *classifier.Table { return t.WithoutLed(bus.LastElement(key)) })
	}, Asked: forbidden(s.d.Log, known, bus.LedPrefix, "hubs that left before this door began are not "+
		"known to it: a task that one of them has may be given to another")}
	follow.Run(ctx, s.d.Registry, bus.LedPrefix, f)
}

// forbidden handles what a registry does not show to this door: nobody waits for it, and the log says once
// what that means.
func forbidden(log *slog.Logger, known func(), key, means string) func(error) {
	said := false
	return func(err error) {
		if !errors.Is(err, bus.ErrForbidden) {
			return
		}
		if known(); !said {
			said = true
			log.Warn(means+"; `souk auth list` shows whether this door may read of them", "key", key, "err",
				err)
		}
	}
}

func (s *Server) onHub(kv bus.KV) {
	var entry bus.HubEntry
	if err := bus.DecodeEntry(kv.Value, &entry); err != nil || entry.Domain != bus.LastElement(kv.Key) {
		s.d.Log.Warn("hub entry not understood", "key", kv.Key, "err", err)
		return
	}
	s.change(func(t *classifier.Table) *classifier.Table { return t.WithEntry(entry, kv.Create, time.Now()) })
	s.look()
}

func (s *Server) onGone(key string) {
	domain := bus.LastElement(key)
	s.d.Log.Info("hub gone", "domain", domain)
	s.change(func(t *classifier.Table) *classifier.Table { return t.Without(domain, time.Now()) })
	s.look()
}

func (s *Server) onStatus(m bus.Msg) {
	st := new(bus.Status)
	if err := bus.Decode(m.Data, st); err != nil || st.Domain != bus.LastToken(m.Subject) {
		return
	}
	now := time.Now()
	before := s.table.Load()
	s.change(func(t *classifier.Table) *classifier.Table { return t.WithStatus(st, now) })
	if !before.HasHeard(s.table.Load()) {
		follow.Nudge(s.heardNew)
	}
}

func (s *Server) change(f func(*classifier.Table) *classifier.Table) {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.table.Store(f(s.table.Load()))
}

// look tells all tasks that await a hub's verdict that the table has changed: the hub may have lost the lead,
// and then gives no verdict.
func (s *Server) look() {
	now, t := time.Now(), s.table.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	for r := range s.waiting {
		if r.placing.Tick(now, t); r.placing.Awaits() == "" {
			r.cut()
		}
	}
}
