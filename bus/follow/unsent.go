package follow

import (
	"context"
	"errors"
	"log/slog"

	"souk/bus"
)

// Unsent logs why something was not sent, nil: it was. That the bus is away is logged once, by whoever
// watches it, and here at the level of most words.
func Unsent(log *slog.Logger, err error, what string, args ...any) {
	level := slog.LevelWarn
	switch {
	case err == nil:
		return
	case errors.Is(err, bus.ErrDisconnected):
		level = slog.LevelDebug
	}
	log.Log(context.Background(), level, what, append(args, "err", err)...)
}
