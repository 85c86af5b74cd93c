package embedded

import (
	"context"
	"log/slog"

	"go.uber.org/zap/zapcore"
)

// zapToSlog passes etcd's warnings and errors on to slog, without stack traces.
type zapToSlog struct {
	log    *slog.Logger // nil for none
	fields []zapcore.Field
}

func (z zapToSlog) Enabled(level zapcore.Level) bool {
	return z.log != nil && level >= zapcore.WarnLevel
}

func (z zapToSlog) With(fields []zapcore.Field) zapcore.Core {
	return zapToSlog{z.log, append(z.fields[:len(z.fields):len(z.fields)], fields...)}
}

func (z zapToSlog) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if z.Enabled(entry.Level) {
		return checked.AddCore(entry, z)
	}
	return checked
}

func (z zapToSlog) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	level := slog.LevelWarn
	if entry.Level >= zapcore.ErrorLevel {
		level = slog.LevelError
	}
	values := zapcore.NewMapObjectEncoder()
	attrs := []any{"server", "etcd"}
	for _, list := range [][]zapcore.Field{z.fields, fields} {
		for _, f := range list {
			f.AddTo(values)
			if v, ok := values.Fields[f.Key]; ok {
				attrs = append(attrs, f.Key, v)
			}
		}
	}
	z.log.Log(context.Background(), level, entry.Message, attrs...)
	return nil
}

func (z zapToSlog) Sync() error { return nil }
