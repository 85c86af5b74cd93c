package gateway

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// However many items are kept, no key has more than its bytes, and all together no more than theirs; what is
// kept is found by its own key alone, and for its time.
func TestItemsAreBounded(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	taken := 0
	s := items{keep: time.Hour, mostKey: 8 << 10, most: 20 << 10, keys: map[string]*keyItems{},
		taken: func(n int) { taken += n }}
	now := time.Unix(1000, 0)
	for n := range 5000 {
		key, id := fmt.Sprint("k", rng.IntN(6)), fmt.Sprint("i", rng.IntN(400))
		switch rng.IntN(8) {
		case 0:
			s.get(now, key, id)
		case 1:
			s.expired(now)
		case 2:
			s.forget(key)
		case 3:
			now = now.Add(time.Duration(rng.IntN(600)) * time.Second)
		default:
			s.put(now, key, id, make([]byte, rng.IntN(3000)))
		}
		sum := 0
		for name, k := range s.keys {
			size := 0
			for _, item := range k.byID {
				size += len(item) + itemCost
			}
			if size != k.size || size > s.mostKey || len(k.byID) != len(k.order) || len(k.order) == 0 {
				t.Fatalf("step %d: key %s has %d bytes in %d items, counted as %d", n, name, size,
					len(k.byID), k.size)
			}
			sum += size
		}
		if sum != s.size || sum > s.most || sum != taken {
			t.Fatalf("step %d: %d bytes, counted as %d", n, sum, s.size)
		}
	}

	s = items{keep: time.Hour, mostKey: 1 << 20, most: 1 << 20, keys: map[string]*keyItems{},
		taken: func(int) {}}
	s.put(now, "a", "x", []byte("said"))
	if v, ok := s.get(now.Add(time.Hour-1), "a", "x"); !ok || string(v) != "said" {
		t.Errorf("%q, %v", v, ok)
	}
	if _, ok := s.get(now, "b", "x"); ok {
		t.Error("another key's item is found")
	}
	if _, ok := s.get(now.Add(time.Hour), "a", "x"); ok {
		t.Error("it is found after its time")
	}
	s = items{keys: map[string]*keyItems{}, taken: func(int) {}, keep: time.Hour}
	s.put(now, "a", "x", nil)
	if len(s.keys) != 0 {
		t.Error("with no room something is kept")
	}
}
