package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"souk/bus"
	"souk/bus/follow"
)

// Seat is the key that says who is the market's treasury. The journal's lock keeps two processes off one
// journal; the seat keeps a second treasury with a journal of its own, which knows of no deposits, off the
// market.
type Seat struct {
	Registry bus.Registry
	TTL      time.Duration // of its lease
	Life     string        // names this process: who has the journal's lock after it knows that it has died
	Ended    func(life string) bool
	Log      *slog.Logger

	lease bus.Lease
}

// holder is the value of bus.TreasuryKey.
type holder struct {
	Host    string    `json:"host"`
	PID     int       `json:"pid"`
	Started time.Time `json:"started"`
	Life    string    `json:"life,omitempty"`
}

// Times of the seat: between two tries for it, and how long the registry may take to name its holder.
const (
	takeAgain = 500 * time.Millisecond
	askWho    = time.Second
	leaveIn   = time.Second
	// takeSlack is how much longer than its TTL the lease of one that died may be there.
	takeSlack = 3 * time.Second
)

// Take waits out the lease of a treasury that has died, and fails if one lives. The lease of one that had
// this very journal is not waited for: the journal's lock proves that it is dead.
func (s *Seat) Take(ctx context.Context) error {
	host, _ := os.Hostname()
	value, err := json.Marshal(holder{host, os.Getpid(), time.Now().UTC(), s.Life})
	if err != nil {
		return err
	}
	var waits bus.Outage
	var since time.Time // another holds it
	for {
		s.lease, err = s.Registry.Register(ctx, bus.TreasuryKey, value, s.TTL)
		if err == nil || ctx.Err() != nil {
			if lasted, over := waits.Works(time.Now(), "seat"); over && err == nil {
				s.Log.Info("the market's only treasury", "after", lasted.Round(time.Millisecond))
			}
			return err
		}
		switch taken := errors.Is(err, bus.ErrExists); {
		case taken && s.evict(ctx):
			continue
		case !taken:
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) > s.TTL+takeSlack: // the lease of one that died would have ended
			return fmt.Errorf(
				"the market has a treasury already, %s: stop that one, or start this one on another market",
				s.who(ctx))
		}
		if waits.Failed(time.Now(), "seat") {
			s.Log.Warn("waiting to be the market's only treasury", "err", err, "held_by", s.who(ctx))
		}
		if !follow.Pause(ctx, takeAgain) {
			return ctx.Err()
		}
	}
}

// evict ends the lease that an earlier life of this treasury has left behind, or this one had lost. It
// reports whether there was one.
func (s *Seat) evict(ctx context.Context) bool {
	var h holder
	evicted, _ := follow.Evict(ctx, s.Registry, bus.TreasuryKey, func(kv bus.KV) bool {
		return json.Unmarshal(kv.Value, &h) == nil && (h.Life == s.Life || s.Ended(h.Life))
	})
	if evicted {
		s.Log.Info("the lease of an earlier life of this treasury is ended", "pid", h.PID)
	}
	return evicted
}

func (s *Seat) who(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, askWho)
	defer cancel()
	kv, err := follow.Get(ctx, s.Registry, bus.TreasuryKey)
	var h holder
	if err != nil || kv.Value == nil || json.Unmarshal(kv.Value, &h) != nil {
		return "unknown"
	}
	return fmt.Sprintf("process %d on %s, started %s", h.PID, h.Host, h.Started.Format(time.RFC3339))
}

// Hold runs the treasury in its seat, which was taken, and leaves it then. The seat is taken again whenever
// its lease was lost, as in an outage of the registry, during which the treasury serves on; where another has
// taken it, run is ended.
func (s *Seat) Hold(ctx context.Context, run func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	kept := make(chan error, 1)
	go func() {
		err := s.keep(ctx)
		stop()
		kept <- err
	}()
	err := run(ctx)
	stop()
	err = errors.Join(err, <-kept)
	s.leave()
	return err
}

// keep returns when ctx ends, or with an error when another has taken the seat.
func (s *Seat) keep(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.lease.Lost():
			s.Log.Warn("lease lost: etcd was out of reach for longer than lease_ttl; taking it again")
			if err := s.Take(ctx); err != nil && ctx.Err() == nil {
				return err
			}
			if ctx.Err() != nil {
				return nil
			}
		}
	}
}

func (s *Seat) leave() {
	if s.lease == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveIn)
	defer cancel()
	if err := s.lease.Close(ctx); err != nil {
		s.Log.Debug("lease not given back; it ends by itself", "err", err)
	}
}
