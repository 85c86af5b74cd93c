package gateway

import (
	"sync"
	"time"

	"souk/bus/bounded"
)

// items are parts of answers that later requests of the same key may name: clients of /v1/responses send an
// item's id in place of what it said.
type items struct {
	keep  time.Duration
	taken func(bytes int) // told what they take more, or less

	mu  sync.Mutex
	all *bounded.Cache[string, itemOf, item] // by key; weighed in bytes
}

type itemOf struct{ key, id string }

type item struct {
	data  []byte
	until time.Time
}

// itemCost estimates the memory of an item beside its bytes.
const itemCost = 256

// newItems keeps items for a while, of so many bytes of one key's and of all.
func newItems(keep time.Duration, mostKey, most int, taken func(bytes int)) *items {
	return &items{keep: keep, taken: taken,
		all: bounded.New[string, itemOf, item](most, max(1, mostKey))}
}

// change has what is taken counted after what is done.
func (s *items) change(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.all.Weight()
	do()
	if now := s.all.Weight(); now != before {
		s.taken(now - before)
	}
}

// put keeps an item, if there is room; what is kept of its key, or of the key that has most, makes room.
func (s *items) put(now time.Time, key, id string, data []byte) {
	s.change(func() {
		if of := (itemOf{key, id}); s.all.Peek(of) == nil {
			s.all.Put(key, of, item{data, now.Add(s.keep)}, len(data)+itemCost)
		}
	})
}

// shrink makes them n bytes less, as far as there are so many.
func (s *items) shrink(n int) {
	s.change(func() { s.all.Shrink(s.all.Weight() - n) })
}

// get finds an item of a key.
func (s *items) get(now time.Time, key, id string) ([]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.all.Peek(itemOf{key, id})
	if x == nil || !now.Before(x.until) {
		return nil, false
	}
	return x.data, true
}

// expired drops what has been kept for long enough.
func (s *items) expired(now time.Time) {
	s.change(func() {
		for of, x := range s.all.All() {
			if !now.Before(x.until) {
				s.all.Drop(of)
			}
		}
	})
}

func (s *items) forget(key string) { s.change(func() { s.all.DropOwner(key) }) }
