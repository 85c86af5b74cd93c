package local

import (
	"context"
	"log/slog"
	"sync/atomic"
)

// Hushable returns a logger for etcd: it passes on errors alone, where log does not show everything, for
// etcd's warnings are about clusters and certificates. Once hush was called it says nothing more: etcd calls
// the end of each of its listeners an error.
func Hushable(log *slog.Logger) (quiet *slog.Logger, hush func()) {
	least := slog.LevelError
	if log.Enabled(context.Background(), slog.LevelDebug) {
		least = slog.LevelDebug
	}
	off := new(atomic.Bool)
	return slog.New(hushed{log.Handler(), least, off}), func() { off.Store(true) }
}

type hushed struct {
	slog.Handler
	least slog.Level
	off   *atomic.Bool
}

func (h hushed) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= h.least && !h.off.Load() && h.Handler.Enabled(ctx, l)
}

// Handle drops the one error that etcd gives at every first start, before its first entry has a term.
func (h hushed) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == "failed to update storage version" && h.least > slog.LevelDebug {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

func (h hushed) WithAttrs(as []slog.Attr) slog.Handler {
	h.Handler = h.Handler.WithAttrs(as)
	return h
}

func (h hushed) WithGroup(name string) slog.Handler {
	h.Handler = h.Handler.WithGroup(name)
	return h
}
