package membus

import (
	"slices"
	"strings"
	"sync"

	"souk/bus"
)

// store is the tree of keys at one revision, which all registries of a world share.
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
	l.goOn()
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
