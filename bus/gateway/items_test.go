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
	const mostKey, most = 8 << 10, 20 << 10
	s := newItems(time.Hour, mostKey, most, func(n int) { taken += n })
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
		sum, of := 0, map[string]int{}
		for k, x := range s.all.All() {
			sum, of[k.key] = sum+len(x.data)+itemCost, of[k.key]+len(x.data)+itemCost
		}
		for key, size := range of {
			if size > mostKey {
				t.Fatalf("step %d: key %s has %d bytes", n, key, size)
			}
		}
		if sum != s.all.Weight() || sum > most || sum != taken {
			t.Fatalf("step %d: %d bytes, counted as %d, %d taken", n, sum, s.all.Weight(), taken)
		}
	}

	s = newItems(time.Hour, 1<<20, 1<<20, func(int) {})
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
	s = newItems(time.Hour, 0, 0, func(int) {})
	s.put(now, "a", "x", nil)
	if s.all.Len() != 0 {
		t.Error("with no room something is kept")
	}
}
