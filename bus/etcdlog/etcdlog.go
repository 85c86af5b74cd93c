// Package etcdlog hands the warnings and errors of etcd's code, which logs to zap, to slog, without stack
// traces.
package etcdlog

import (
	"context"
	"log/slog"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// New returns a logger that begins every message with prefix; a nil log drops everything.
func New(log *slog.Logger, prefix string) *zap.Logger {
	if log == nil {
		return zap.NewNop()
	}
	return zap.New(bridge{log, prefix})
}

// firstStart is the one error that etcd gives at every first start, before its first entry has a term.
const firstStart = "failed to update storage version"

// bridge is a zap core that writes to slog.
type bridge struct {
	log    *slog.Logger
	prefix string
}

func (b bridge) Enabled(l zapcore.Level) bool { return l >= zapcore.WarnLevel }

func (b bridge) With(fields []zapcore.Field) zapcore.Core {
	return bridge{b.log.With(attrs(fields)...), b.prefix}
}

func (b bridge) Check(e zapcore.Entry, c *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if b.Enabled(e.Level) {
		return c.AddCore(e, b)
	}
	return c
}

func (b bridge) Write(e zapcore.Entry, fields []zapcore.Field) error {
	ctx, level := context.Background(), slog.LevelWarn
	if e.Level > zapcore.WarnLevel {
		level = slog.LevelError
	}
	if e.Message == firstStart && !b.log.Enabled(ctx, slog.LevelDebug) {
		return nil
	}
	b.log.Log(ctx, level, b.prefix+e.Message, attrs(fields)...)
	return nil
}

func (b bridge) Sync() error { return nil }

func attrs(fields []zapcore.Field) []any {
	enc := zapcore.NewMapObjectEncoder()
	list := make([]any, 0, len(fields))
	for _, f := range fields {
		f.AddTo(enc)
		if v, ok := enc.Fields[f.Key]; ok {
			list = append(list, slog.Any(f.Key, v))
		}
	}
	return list
}
