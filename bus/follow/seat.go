package follow

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"souk/bus"
)

// Seat is a key that one process has at a time, under a lease: the only door of an id, say. It keeps out a
// second one that was started by mistake. Who runs without it when the registry is away goes on: the seat is
// no lock.
type Seat struct {
	Registry bus.Registry
	Key      string
	Who      string        // whose it is, in messages: "door door-1"
	Else     string        // what a second one does instead, in the error that refuses it
	TTL      time.Duration // of its lease, for which one that was killed keeps out who comes after it
	Log      *slog.Logger

	lease bus.Lease // nil: not permitted
	own   string    // the value of its own lease
}

// holder is the value of a seat's key, and what values of leaderships say of who leads.
type holder struct {
	Hub     string    `json:"hub,omitempty"`
	Journal string    `json:"journal,omitempty"`
	Host    string    `json:"host,omitempty"`
	PID     int       `json:"pid,omitempty"`
	Started time.Time `json:"started,omitzero"`
	Life    string    `json:"life,omitempty"`
}

// holderOf reads a value, which anybody may have written who may write the key: what is no holder is none.
func holderOf(value []byte) (h holder) {
	if len(value) > bus.MaxEntry || json.Unmarshal(value, &h) != nil {
		return holder{}
	}
	return h
}

// named says who it is; "": it does not say.
func (h *holder) named() (name string) {
	add := func(format string, args ...any) {
		if name != "" {
			name += ", "
		}
		name += fmt.Sprintf(format, args...)
	}
	if h.Hub != "" {
		add("%.80s", h.Hub)
	}
	if h.Journal != "" {
		add("journal %.80s", h.Journal)
	}
	if h.PID != 0 {
		add("process %d on %.80s", h.PID, h.Host)
	}
	if !h.Started.IsZero() {
		add("started %s", h.Started.Format(time.RFC3339))
	}
	return name
}

// Times of a seat: between two tries for it, and how long the registry may take to name its holder.
const (
	takeAgain = 500 * time.Millisecond
	askWho    = time.Second
	// takeSlack bounds how much longer than its TTL a dead process's lease may be there.
	takeSlack = 3 * time.Second
)

// Take waits out the lease of a holder that has died, and fails if one lives.
func (s *Seat) Take(ctx context.Context) error {
	if s.own == "" {
		host, _ := os.Hostname()
		own := holder{Host: host, PID: os.Getpid(), Started: time.Now().UTC()}
		value, err := json.Marshal(own)
		if err != nil {
			return err
		}
		s.own = string(value)
	}
	var waits bus.Outage
	var taken, forbidden time.Time // since when another holds it, or it is not permitted
	for {
		lease, err := s.Registry.Register(ctx, s.Key, []byte(s.own), s.TTL)
		held := errors.Is(err, bus.ErrExists)
		if !held {
			taken = time.Time{}
		}
		switch now := time.Now(); {
		case err == nil:
			s.lease = lease
			if lasted, over := waits.Works(now, "seat"); over {
				s.Log.Info("the market's only "+s.Who, "after", lasted.Round(time.Millisecond))
			}
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case held && s.evict(ctx):
			continue
		case held && since(&taken, now) > s.TTL+takeSlack: // the lease of one that died would have ended
			return fmt.Errorf("the market has a %s already, %s: %s", s.Who, s.who(ctx), s.Else)
		// a name that was made a moment ago is not let in at once
		case errors.Is(err, bus.ErrForbidden) && since(&forbidden, now) > s.TTL:
			s.Log.Warn("a second "+s.Who+" would not be noticed: etcd does not let this one hold its key: the "+
				"certificate shown is of another name, or etcd was not told of this user "+
				"(souk auth init --etcd HOST:PORT tells it anew, as a start of souk infra does)", "key", s.Key,
				"err", err)
			return nil
		}
		if waits.Failed(time.Now(), "seat") {
			said, more := "waiting to be the market's only "+s.Who, []any{"err", err}
			if held {
				said += ": the lease of one that has died ends by itself, one that lives keeps this one out"
				more = append(more, "held_by", s.who(ctx), "lease", s.TTL)
			}
			s.Log.Warn(said, more...)
		}
		if !Pause(ctx, takeAgain) {
			return ctx.Err()
		}
	}
}

// since returns how long a state has lasted; first is when it began.
func since(first *time.Time, now time.Time) time.Duration {
	if first.IsZero() {
		*first = now
	}
	return now.Sub(*first)
}

// evict ends a lease of its own that was lost, and is still there. It reports whether it ended one.
func (s *Seat) evict(ctx context.Context) bool {
	evicted, _ := Evict(ctx, s.Registry, s.Key, func(kv bus.KV) bool { return string(kv.Value) == s.own })
	if evicted {
		s.Log.Info("the lease that this " + s.Who + " had lost is ended")
	}
	return evicted
}

func (s *Seat) who(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, askWho)
	defer cancel()
	kv, err := Get(ctx, s.Registry, s.Key)
	if err != nil {
		return "unknown"
	}
	h := holderOf(kv.Value)
	return cmp.Or(h.named(), "unknown")
}

// Hold runs the process in its seat, which was taken, and leaves it then. The seat is taken again whenever
// its lease was lost, as in an outage of the registry, during which the process serves on; where another has
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
	if s.lease != nil {
		Release(s.Log, "lease", s.lease)
	}
	return err
}

// keep returns when ctx ends, or with an error when another has taken the seat.
func (s *Seat) keep(ctx context.Context) error {
	for {
		var lost <-chan struct{} // never, without a lease
		if s.lease != nil {
			lost = s.lease.Lost()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-lost:
			s.Log.Warn("lease lost: etcd was out of reach for longer than it lasts; taking it again",
				"lease", s.TTL)
			s.lease = nil
			if err := s.Take(ctx); err != nil && ctx.Err() == nil {
				return err
			}
			if ctx.Err() != nil {
				return nil
			}
		}
	}
}
