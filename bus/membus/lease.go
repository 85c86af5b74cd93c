package membus

import (
	"context"
	"fmt"
	"time"

	"souk/bus"
)

// lease is a Lease and, if it was won by election, a Leadership.
type lease struct {
	registry *Registry
	key      string
	ttl      time.Duration
	epoch    int64 // create revision of its key
	lost     chan struct{}

	// guarded by store.mu
	ended  bool
	expiry *time.Timer // runs while the connection is cut
}

// runOut has the lease end after its time, unless it goes on.
func (l *lease) runOut() {
	l.expiry = time.AfterFunc(l.ttl, func() {
		s := l.registry.store
		s.mu.Lock()
		defer s.mu.Unlock()
		s.end(l)
	})
}

func (l *lease) goOn() {
	if l.expiry != nil {
		l.expiry.Stop()
		l.expiry = nil
	}
}

func (l *lease) Epoch() int64 { return l.epoch }

func (l *lease) Lost() <-chan struct{} { return l.lost }

// do does something with a key, under the store's lock, if the lease lives.
func (l *lease) do(ctx context.Context, op, key string, value []byte, f func(s *store) error) error {
	select {
	case <-l.lost: // known without asking
		return fmt.Errorf("%s %s: %w", op, key, bus.ErrLost)
	default:
	}
	return l.registry.reach(ctx, op, key, value, func(s *store) error {
		if l.ended {
			return bus.ErrLost
		}
		return f(s)
	})
}

func (l *lease) Update(ctx context.Context, value []byte) error {
	return l.do(ctx, "update", l.key, value, func(s *store) error { s.put(l.key, value, l); return nil })
}

func (l *lease) Close(ctx context.Context) error {
	return l.registry.reach(ctx, "close lease on", l.key, nil, func(s *store) error { s.end(l); return nil })
}

func (l *lease) Claim(ctx context.Context, key string, value []byte) (fence int64, err error) {
	err = l.do(ctx, "claim", key, value, func(s *store) error {
		if e := s.keys[key]; e != nil && e.lease != l {
			return bus.ErrExists
		}
		fence = s.put(key, value, l).Create
		return nil
	})
	return fence, err
}

func (l *lease) Release(ctx context.Context, key string) error {
	return l.do(ctx, "release", key, nil, func(s *store) error {
		e := s.keys[key]
		switch {
		case e == nil:
			return nil
		case e.lease != l || key == l.key:
			return bus.ErrExists
		}
		s.delete(key)
		return nil
	})
}
