package prefix

import (
	"math/rand/v2"
	"testing"
)

// What is found by its hash is what a map would have, however hashes come and go and wherever they stand.
func TestHashed(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 5))
	x := entries(rng.Uint64())
	plain := map[uint64]holders{}
	for range 20_000 {
		key := uint64(rng.IntN(200)) << (8 * rng.IntN(2))
		switch _, in := plain[key]; {
		case rng.IntN(2) == 0:
			h := holders{n: uint16(1 + rng.IntN(9))}
			x.put(entry{key, h})
			plain[key] = h
		case in:
			x.remove(key)
			delete(plain, key)
		}
		if key ^= 1; x.all[x.at(key)].holders != plain[key] || x.n != len(plain) {
			t.Fatalf("%v stands for %d, of %d: want %v of %d", x.all[x.at(key)], key, x.n, plain[key], len(plain))
		}
	}
	if len(x.all) > 2*256 {
		t.Errorf("%d places, for 400 hashes at most", len(x.all))
	}
}
