package membus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"souk/bus"
)

// watchLimit bounds the changes that wait for a slow watcher before it is sent the whole state instead.
const watchLimit = 4096

// Registry is one part's connection to the registry. It implements bus.Registry.
type Registry struct {
	store *store

	// guarded by store.mu
	cut    bool
	online chan struct{} // closed by Heal, remade by Cut
	away   bool
	failed int64 // calls, while it is away
	leases []*lease
}

var _ bus.Registry = (*Registry)(nil)

// Cut takes the connection down: calls wait, watches are silent, and leases run out after their time.
func (r *Registry) Cut() {
	s := r.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.cut {
		return
	}
	r.cut, r.online = true, make(chan struct{})
	for _, w := range s.watchers {
		if w.registry == r {
			w.pending, w.resync = nil, true
		}
	}
	for _, l := range r.leases {
		l.runOut()
	}
}

// Heal connects again: leases that still live go on, watches send the whole state.
func (r *Registry) Heal() {
	s := r.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if !r.cut {
		return
	}
	r.cut = false
	close(r.online)
	for _, l := range r.leases {
		l.goOn()
	}
	for _, w := range s.watchers {
		if w.registry == r {
			w.wakeUp()
		}
	}
}

// Away has calls fail from now on, and watches end, or no more: unlike Cut, which has callers wait. Leases go
// on.
func (r *Registry) Away(away bool) {
	r.store.mu.Lock()
	defer r.store.mu.Unlock()
	r.away = away
	for _, w := range r.store.watchers {
		if away && w.registry == r {
			w.stop()
		}
	}
}

// Failed counts the calls that failed as it was away.
func (r *Registry) Failed() int64 {
	r.store.mu.Lock()
	defer r.store.mu.Unlock()
	return r.failed
}

var errAway = errors.New("etcdserver: no leader")

// do does something with a key, and perhaps a value, under the store's lock.
func (r *Registry) do(ctx context.Context, op, key string, value []byte, f func(s *store) error) error {
	return r.reach(ctx, op, key, value, func(s *store) error {
		if r.away {
			r.failed++
			return errAway
		}
		return f(s)
	})
}

// reach waits until the connection is up.
func (r *Registry) reach(ctx context.Context, op, key string, value []byte, f func(s *store) error) error {
	err := bus.CheckValue(value)
	for err == nil {
		if err = ctx.Err(); err != nil {
			break
		}
		r.store.mu.Lock()
		if !r.cut {
			err = f(r.store)
			r.store.mu.Unlock()
			break
		}
		online := r.online
		r.store.mu.Unlock()
		select {
		case <-online:
		case <-ctx.Done():
		}
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", op, key, err)
	}
	return nil
}

func (r *Registry) Register(ctx context.Context, key string, value []byte, ttl time.Duration) (bus.Lease,
	error) {
	var l *lease
	err := r.do(ctx, "register", key, value, func(s *store) error {
		if s.keys[key] != nil {
			return bus.ErrExists
		}
		l = r.grant(key, value, ttl)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

// grant makes a lease and puts its key.
func (r *Registry) grant(key string, value []byte, ttl time.Duration) *lease {
	l := &lease{registry: r, key: key, ttl: ttl, lost: make(chan struct{})}
	r.leases = slices.DeleteFunc(r.leases, func(l *lease) bool { return l.ended })
	r.leases = append(r.leases, l)
	l.epoch = r.store.put(key, value, l).Create
	return l
}

func (r *Registry) Put(ctx context.Context, key string, value []byte) error {
	return r.do(ctx, "put", key, value, func(s *store) error {
		if e := s.keys[key]; e != nil && e.lease != nil {
			return fmt.Errorf("it is under a lease: %w", bus.ErrExists)
		}
		s.put(key, value, nil)
		return nil
	})
}

func (r *Registry) PutFor(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	return r.do(ctx, "put", key, value, func(s *store) error {
		l := &lease{registry: r, key: key, ttl: ttl, lost: make(chan struct{})}
		if e := s.keys[key]; e != nil {
			if e.lease != nil {
				e.lease.goOn()
			}
			e.lease = l
		}
		s.put(key, value, l)
		l.runOut()
		return nil
	})
}

func (r *Registry) Swap(ctx context.Context, key string, rev int64, value []byte) error {
	return r.do(ctx, "swap", key, value, func(s *store) error {
		e, last := s.keys[key], int64(0)
		if e != nil {
			last = e.kv.Rev
		}
		switch {
		case last != rev || e != nil && e.lease != nil:
			return fmt.Errorf("it is not as it was at revision %d: %w", rev, bus.ErrExists)
		case value == nil:
			s.delete(key)
		default:
			s.put(key, value, nil)
		}
		return nil
	})
}

func (r *Registry) Get(ctx context.Context, key string) (kvs []bus.KV, err error) {
	err = r.do(ctx, "get", key, nil, func(s *store) error { kvs = s.under(key); return nil })
	return kvs, err
}

func (r *Registry) Delete(ctx context.Context, key string) error {
	return r.do(ctx, "delete", key, nil, func(s *store) error { s.delete(key); return nil })
}

func (r *Registry) Evict(ctx context.Context, key string, value []byte) error {
	return r.do(ctx, "evict", key, nil, func(s *store) error {
		e := s.keys[key]
		switch {
		case e == nil:
			return nil
		case e.lease == nil || !bytes.Equal(e.kv.Value, value):
			return bus.ErrExists
		}
		s.end(e.lease)
		return nil
	})
}

func (r *Registry) Watch(ctx context.Context, key string) (events <-chan bus.Event, err error) {
	err = r.do(ctx, "watch", key, nil, func(s *store) error {
		ctx, stop := context.WithCancel(ctx)
		w := &watcher{registry: r, prefix: key, out: make(chan bus.Event), wake: make(chan struct{}, 1),
			stop: stop, resync: true}
		s.watchers = append(s.watchers, w)
		go w.run(ctx)
		events = w.out
		return nil
	})
	return events, err
}

// Elect waits until key is free and takes it.
func (r *Registry) Elect(ctx context.Context, key string, value []byte, ttl time.Duration) (bus.Leadership,
	error) {
	for {
		var l *lease
		var changed chan struct{}
		err := r.do(ctx, "elect", key, value, func(s *store) error {
			if changed = s.changed; s.keys[key] == nil {
				l = r.grant(key, value, ttl)
			}
			return nil
		})
		switch {
		case err != nil:
			return nil, err
		case l != nil:
			return l, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// watcher sends one watch's events. It holds at most watchLimit of them.
type watcher struct {
	registry *Registry
	prefix   string
	out      chan bus.Event
	wake     chan struct{}
	stop     context.CancelFunc

	// guarded by store.mu
	pending []bus.Event
	resync  bool // send the whole state first
	there   map[string]bool
}

func (w *watcher) add(ev bus.Event) {
	if w.registry.cut || w.resync || !bus.Under(ev.Key, w.prefix) {
		return
	}
	if len(w.pending) >= watchLimit {
		w.pending, w.resync = nil, true
	} else {
		w.pending = append(w.pending, ev)
	}
	w.wakeUp()
}

func (w *watcher) wakeUp() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *watcher) run(ctx context.Context) {
	s := w.registry.store
	defer close(w.out)
	defer w.stop()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.watchers = slices.DeleteFunc(s.watchers, func(x *watcher) bool { return x == w })
	}()
	for {
		for _, ev := range w.take() {
			select {
			case w.out <- ev:
			case <-ctx.Done():
				return
			}
		}
		select {
		case <-w.wake:
		case <-ctx.Done():
			return
		}
	}
}

// take returns what is to be sent now.
func (w *watcher) take() []bus.Event {
	s := w.registry.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.registry.cut {
		return nil
	}
	if !w.resync {
		out := w.pending
		w.pending = nil
		for _, ev := range out {
			if w.there[ev.Key] = true; ev.Deleted {
				delete(w.there, ev.Key)
			}
		}
		return out
	}
	gone := w.there
	w.resync, w.pending, w.there = false, nil, map[string]bool{}
	var there, out []bus.Event
	for _, kv := range s.under(w.prefix) {
		w.there[kv.Key] = true
		delete(gone, kv.Key)
		there = append(there, bus.Event{KV: kv})
	}
	for _, key := range slices.Sorted(maps.Keys(gone)) {
		out = append(out, bus.Event{KV: bus.KV{Key: key}, Deleted: true})
	}
	w.wakeUp() // changes may have come before this was read
	return append(append(out, there...), bus.Event{Synced: true})
}
