package gateway

import (
	"sync"
	"time"
)

// items are parts of answers that later requests of the same key may name: clients of /v1/responses send an
// item's id in place of what it said.
type items struct {
	keep    time.Duration
	mostKey int             // bytes of one key's
	most    int             // of all
	taken   func(bytes int) // told what they take more, or less

	mu   sync.Mutex
	keys map[string]*keyItems
	size int
}

// keyItems are those of one key, oldest first.
type keyItems struct {
	byID  map[string][]byte
	order []itemAt
	size  int
}

type itemAt struct {
	id    string
	until time.Time
}

// itemCost is what an item takes beside its bytes, about.
const itemCost = 256

// put keeps an item; the oldest of its key go for it, and of all keys those of the one that has most.
func (s *items) put(now time.Time, key, id string, item []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.keys[key]
	if k == nil {
		k = &keyItems{byID: map[string][]byte{}}
		s.keys[key] = k
	}
	if _, ok := k.byID[id]; ok {
		return
	}
	k.byID[id] = item
	k.order = append(k.order, itemAt{id, now.Add(s.keep)})
	k.size += len(item) + itemCost
	s.grow(len(item) + itemCost)
	for k.size > s.mostKey {
		s.dropOldest(key, k)
	}
	s.bound(s.most)
}

// bound drops items until all take no more than that. The lock is held.
func (s *items) bound(size int) {
	for s.size > size {
		most := ""
		for name, other := range s.keys {
			if m := s.keys[most]; m == nil || other.size > m.size || other.size == m.size && name < most {
				most = name
			}
		}
		s.dropOldest(most, s.keys[most])
	}
}

// shrink makes them n bytes less, as far as there are so many.
func (s *items) shrink(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bound(max(0, s.size-n))
}

func (s *items) grow(n int) {
	s.size += n
	s.taken(n)
}

// get finds an item of a key.
func (s *items) get(now time.Time, key, id string) (item []byte, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.keys[key]; k != nil {
		s.expire(now, key, k)
		item, ok = k.byID[id]
	}
	return item, ok
}

// expired drops what has been kept for long enough.
func (s *items) expired(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, k := range s.keys {
		s.expire(now, key, k)
	}
}

// forget drops all of a key.
func (s *items) forget(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.keys[key]; k != nil {
		s.grow(-k.size)
		delete(s.keys, key)
	}
}

func (s *items) expire(now time.Time, key string, k *keyItems) {
	for len(k.order) > 0 && !now.Before(k.order[0].until) {
		s.dropOldest(key, k)
	}
}

func (s *items) dropOldest(key string, k *keyItems) {
	id := k.order[0].id
	n := len(k.byID[id]) + itemCost
	delete(k.byID, id)
	k.order = k.order[1:]
	k.size -= n
	s.grow(-n)
	if len(k.order) == 0 {
		delete(s.keys, key)
	}
}
