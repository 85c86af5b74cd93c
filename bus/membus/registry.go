package membus

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"souk/bus"
)

// watchLimit is how many changes wait for a slow watcher before it is sent the whole state instead.
const watchLimit = 4096

// store is what all registries of a world share: the tree of keys at one revision.
type store struct {
	mu       sync.Mutex
	rev      int64
	keys     map[string]*entry
	watchers []*watcher
	changed  chan struct{} // closed at the next change
}

type entry struct {
	kv    bus.KV
	lease *lease // nil: none
}

func newStore() *store {
	return &store{rev: 1, keys: map[string]*entry{}, changed: make(chan struct{})}
}

// put writes a key; the caller holds mu and has checked that it may.
func (s *store) put(key string, value []byte, l *lease) bus.KV {
	s.rev++
	e := s.keys[key]
	if e == nil {
		e = &entry{kv: bus.KV{Key: key, Create: s.rev}, lease: l}
		s.keys[key] = e
	}
	e.kv.Value, e.kv.Rev = slices.Clone(value), s.rev
	s.tell(bus.Event{KV: e.kv})
	return e.kv
}

// delete removes a key, and with it the lease whose own key it is.
func (s *store) delete(key string) {
	e := s.keys[key]
	if e == nil {
		return
	}
	s.rev++
	delete(s.keys, key)
	s.tell(bus.Event{KV: bus.KV{Key: key, Rev: s.rev, Create: e.kv.Create}, Deleted: true})
	if e.lease != nil && e.lease.key == key {
		s.end(e.lease)
	}
}

// end closes a lease and removes everything under it.
func (s *store) end(l *lease) {
	if l.ended {
		return
	}
	l.ended = true
	close(l.lost)
	if l.expiry != nil {
		l.expiry.Stop()
	}
	var keys []string
	for key, e := range s.keys {
		if e.lease == l {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		s.delete(key)
	}
}

func (s *store) expire(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.keys[key]
	if e == nil || e.lease == nil {
		return false
	}
	s.end(e.lease)
	return true
}

func (s *store) tell(ev bus.Event) {
	close(s.changed)
	s.changed = make(chan struct{})
	for _, w := range s.watchers {
		w.add(ev)
	}
}

// under returns the keys with a prefix, sorted.
func (s *store) under(prefix string) []bus.KV {
	var out []bus.KV
	for key, e := range s.keys {
		if bus.Under(key, prefix) {
			out = append(out, e.kv)
		}
	}
	slices.SortFunc(out, func(a, b bus.KV) int { return strings.Compare(a.Key, b.Key) })
	return out
}

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
		l.expiry = time.AfterFunc(l.ttl, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.end(l)
		})
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
		if l.expiry != nil {
			l.expiry.Stop()
			l.expiry = nil
		}
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

// lock takes the store's lock, for what is to be done with a key, unless the registry is away.
func (r *Registry) lock(ctx context.Context, op, key string) error {
	if err := r.await(ctx, op, key); err != nil || !r.away {
		return err
	}
	defer r.store.mu.Unlock()
	r.failed++
	return fmt.Errorf("%s %s: etcdserver: no leader", op, key)
}

// await waits until the connection is up and takes the store's lock.
func (r *Registry) await(ctx context.Context, op, key string) error {
	for {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("%s %s: %w", op, key, err)
		}
		r.store.mu.Lock()
		if !r.cut {
			return nil
		}
		online := r.online
		r.store.mu.Unlock()
		select {
		case <-online:
		case <-ctx.Done():
		}
	}
}

// lockFor is lock for who writes a value.
func (r *Registry) lockFor(ctx context.Context, op, key string, value []byte) error {
	if err := bus.CheckValue(value); err != nil {
		return fmt.Errorf("%s %s: %w", op, key, err)
	}
	return r.lock(ctx, op, key)
}

func (r *Registry) Register(ctx context.Context, key string, value []byte, ttl time.Duration) (bus.Lease,
	error) {
	if err := r.lockFor(ctx, "register", key, value); err != nil {
		return nil, err
	}
	defer r.store.mu.Unlock()
	if r.store.keys[key] != nil {
		return nil, fmt.Errorf("register %s: %w", key, bus.ErrExists)
	}
	return r.grant(key, value, ttl), nil
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
	if err := r.lockFor(ctx, "put", key, value); err != nil {
		return err
	}
	defer r.store.mu.Unlock()
	if e := r.store.keys[key]; e != nil && e.lease != nil {
		return fmt.Errorf("put %s: it is under a lease: %w", key, bus.ErrExists)
	}
	r.store.put(key, value, nil)
	return nil
}

func (r *Registry) PutFor(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	if err := r.lockFor(ctx, "put", key, value); err != nil {
		return err
	}
	s := r.store
	defer s.mu.Unlock()
	l := &lease{registry: r, key: key, ttl: ttl, lost: make(chan struct{})}
	if e := s.keys[key]; e != nil {
		if e.lease != nil && e.lease.expiry != nil {
			e.lease.expiry.Stop()
		}
		e.lease = l
	}
	s.put(key, value, l)
	l.expiry = time.AfterFunc(ttl, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.end(l)
	})
	return nil
}

func (r *Registry) Swap(ctx context.Context, key string, rev int64, value []byte) error {
	if err := r.lockFor(ctx, "swap", key, value); err != nil {
		return err
	}
	defer r.store.mu.Unlock()
	e, last := r.store.keys[key], int64(0)
	if e != nil {
		last = e.kv.Rev
	}
	switch {
	case last != rev || e != nil && e.lease != nil:
		return fmt.Errorf("swap %s: it is not as it was at revision %d: %w", key, rev, bus.ErrExists)
	case value == nil:
		r.store.delete(key)
	default:
		r.store.put(key, value, nil)
	}
	return nil
}

func (r *Registry) Get(ctx context.Context, prefix string) ([]bus.KV, error) {
	if err := r.lock(ctx, "get", prefix); err != nil {
		return nil, err
	}
	defer r.store.mu.Unlock()
	return r.store.under(prefix), nil
}

func (r *Registry) Delete(ctx context.Context, key string) error {
	if err := r.lock(ctx, "delete", key); err != nil {
		return err
	}
	defer r.store.mu.Unlock()
	r.store.delete(key)
	return nil
}

func (r *Registry) Evict(ctx context.Context, key string, value []byte) error {
	if err := r.lock(ctx, "evict", key); err != nil {
		return err
	}
	defer r.store.mu.Unlock()
	e := r.store.keys[key]
	switch {
	case e == nil:
		return nil
	case e.lease == nil || !bytes.Equal(e.kv.Value, value):
		return fmt.Errorf("evict %s: %w", key, bus.ErrExists)
	}
	r.store.end(e.lease)
	return nil
}

func (r *Registry) Watch(ctx context.Context, prefix string) (<-chan bus.Event, error) {
	if err := r.lock(ctx, "watch", prefix); err != nil {
		return nil, err
	}
	defer r.store.mu.Unlock()
	ctx, stop := context.WithCancel(ctx)
	w := &watcher{registry: r, prefix: prefix, out: make(chan bus.Event), wake: make(chan struct{}, 1),
		stop: stop, resync: true}
	r.store.watchers = append(r.store.watchers, w)
	go w.run(ctx)
	return w.out, nil
}

// Elect waits until key is free and takes it.
func (r *Registry) Elect(ctx context.Context, key string, value []byte, ttl time.Duration) (bus.Leadership,
	error) {
	for {
		if err := r.lockFor(ctx, "elect", key, value); err != nil {
			return nil, err
		}
		if r.store.keys[key] == nil {
			l := r.grant(key, value, ttl)
			r.store.mu.Unlock()
			return l, nil
		}
		changed := r.store.changed
		r.store.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

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

func (l *lease) Epoch() int64          { return l.epoch }
func (l *lease) Lost() <-chan struct{} { return l.lost }

// lock takes the store's lock if the lease lives.
func (l *lease) lock(ctx context.Context, op, key string) error {
	select {
	case <-l.lost: // known without asking
		return fmt.Errorf("%s %s: %w", op, key, bus.ErrLost)
	default:
	}
	if err := l.registry.await(ctx, op, key); err != nil {
		return err
	}
	if l.ended {
		l.registry.store.mu.Unlock()
		return fmt.Errorf("%s %s: %w", op, key, bus.ErrLost)
	}
	return nil
}

func (l *lease) Update(ctx context.Context, value []byte) error {
	if err := bus.CheckValue(value); err != nil {
		return fmt.Errorf("update %s: %w", l.key, err)
	}
	if err := l.lock(ctx, "update", l.key); err != nil {
		return err
	}
	defer l.registry.store.mu.Unlock()
	l.registry.store.put(l.key, value, l)
	return nil
}

func (l *lease) Close(ctx context.Context) error {
	if err := l.registry.await(ctx, "close lease on", l.key); err != nil {
		return err
	}
	defer l.registry.store.mu.Unlock()
	l.registry.store.end(l)
	return nil
}

func (l *lease) Claim(ctx context.Context, key string, value []byte) (fence int64, err error) {
	if err := bus.CheckValue(value); err != nil {
		return 0, fmt.Errorf("claim %s: %w", key, err)
	}
	if err := l.lock(ctx, "claim", key); err != nil {
		return 0, err
	}
	s := l.registry.store
	defer s.mu.Unlock()
	if e := s.keys[key]; e != nil && e.lease != l {
		return 0, fmt.Errorf("claim %s: %w", key, bus.ErrExists)
	}
	return s.put(key, value, l).Create, nil
}

func (l *lease) Release(ctx context.Context, key string) error {
	if err := l.lock(ctx, "release", key); err != nil {
		return err
	}
	s := l.registry.store
	defer s.mu.Unlock()
	e := s.keys[key]
	switch {
	case e == nil:
		return nil
	case e.lease != l || key == l.key:
		return fmt.Errorf("release %s: %w", key, bus.ErrExists)
	}
	s.delete(key)
	return nil
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
			if ev.Deleted {
				delete(w.there, ev.Key)
			} else {
				w.there[ev.Key] = true
			}
		}
		return out
	}
	w.resync, w.pending = false, nil
	was := w.there
	w.there = map[string]bool{}
	var there, out []bus.Event
	for _, kv := range s.under(w.prefix) {
		w.there[kv.Key] = true
		there = append(there, bus.Event{KV: kv})
	}
	for _, key := range slices.Sorted(maps.Keys(was)) {
		if !w.there[key] {
			out = append(out, bus.Event{KV: bus.KV{Key: key}, Deleted: true})
		}
	}
	w.wakeUp() // changes may have come before this was read
	return append(append(out, there...), bus.Event{Synced: true})
}
