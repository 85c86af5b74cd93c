package follow

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"souk/bus"
)

// Reign is one time of leadership.
type Reign struct {
	bus.Leadership
	Yield <-chan struct{} // closed when it is to be given back
}

// askAgain is the pause before a registry is asked again that did not answer, and bounds each question;
// releaseIn bounds how long it takes to give a lease back.
const askAgain, releaseIn = time.Second, 2 * time.Second

// Pause waits while the process leads. It returns early when ctx ends, and with bus.ErrLost or ErrGivesWay
// when another leads or is to.
func (r Reign) Pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	case <-r.Lost():
		return bus.ErrLost
	case <-r.Yield:
		return ErrGivesWay
	}
	return nil
}

// Ask asks the registry something as a leadership begins, again and again until it answers, or as Pause
// returns. One that forbids it is not asked again.
func (c *Candidate) Ask(ctx context.Context, r Reign, what func(context.Context) error) error {
	for {
		within, cancel := context.WithTimeout(ctx, askAgain)
		err := what(within)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, bus.ErrForbidden):
			c.Log.Warn("who comes later will not know that this "+c.Who+" has led: `souk auth list` shows "+
				"whether it may write its key", "err", err)
			return nil
		}
		if c.Asked(err); err == nil {
			return nil
		}
		if err := r.Pause(ctx, askAgain); err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// Resign gives it back, so that one that stands by need not wait for the lease to run out.
func (r Reign) Resign(log *slog.Logger) { Release(log, "leadership", r.Leadership) }

// Release gives a lease back, or a leadership, as what it is named in the log.
func Release(log *slog.Logger, what string, lease interface{ Close(context.Context) error }) {
	ctx, cancel := context.WithTimeout(context.Background(), releaseIn)
	defer cancel()
	if err := lease.Close(ctx); err != nil {
		log.Debug(what+" not given back; it ends by itself", "err", err)
	}
}
