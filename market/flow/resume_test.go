package flow

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Whatever is guessed, a solve that begins with it gives the answer that one gives which begins with nothing,
// and begins with a sound basis: guesses by lot, and those of a problem whose weights differ little.
func TestResume(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 8))
	var a, b Solver
	for n := range 3000 {
		f := families[n%len(families)]
		tasks, seats := 1+rng.IntN(40), 1+rng.IntN(12)
		p := f.make(rng, tasks, seats, rng.IntN(seats+1), 1+rng.IntN(2*tasks))
		match, under := make([]int32, tasks), make([]int32, seats)
		if n%2 == 0 {
			for k := range match {
				match[k] = int32(rng.IntN(seats+2)) - 1
			}
			for a := range under {
				under[a] = int32(rng.IntN(seats+2)) - 1
			}
		} else {
			if done, _ := a.Simplex(&p, 64*tasks+10_000, nil); !done {
				t.Fatal("not solved")
			}
			copy(match, a.Match)
			under, _ = a.Hangs(under)
			for e := range p.Weight {
				p.Weight[e] = max(0, p.Weight[e]+rng.Int64N(5)-2)
			}
		}
		a.begin(&p, match, under)
		if a.relieved() {
			if err := a.sound(&p); err != nil {
				t.Fatalf("round %d, %s: begun with %v under %v: %v", n, f.name, match, under, err)
			}
		}
		if err := a.Resume(&p, match, under, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Insert(&p, -1, nil); err != nil {
			t.Fatal(err)
		}
		if a.Welfare() != b.Welfare() || !slices.Equal(a.Price, b.Price) {
			t.Fatalf("round %d, %s: resumed %d %v, want %d %v", n, f.name, a.Welfare(), a.Price, b.Welfare(),
				b.Price)
		}
		salt := rng.Uint64()
		hash := func(k, s int32) uint64 { return mix(salt ^ uint64(k)<<32 ^ uint64(s)) }
		if !slices.Equal(a.Settle(&p, hash), b.Settle(&p, hash)) || !slices.Equal(a.Match, b.Match) {
			t.Fatalf("round %d, %s: resumed %v, want %v", n, f.name, a.Match, b.Match)
		}
	}
}

// Of a problem that hardly differs from one that was solved, few pivots are left.
func TestResumeIsShort(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	var s Solver
	for _, f := range families[:2] {
		p := f.make(rng, 400, 80, 0, 300)
		if done, _ := s.Simplex(&p, 1<<20, nil); !done {
			t.Fatal("not solved")
		}
		cold, match := s.Pivots, slices.Clone(s.Match)
		under, _ := s.Hangs(nil)
		if err := s.Resume(&p, match, under, nil); err != nil || s.Pivots > 0 {
			t.Errorf("%s: %d pivots of a problem that is solved, %v", f.name, s.Pivots, err)
		}
		for range 5 {
			p.Weight[rng.IntN(len(p.Weight))] += 10
		}
		if err := s.Resume(&p, match, under, nil); err != nil || s.Pivots > cold/8 {
			t.Errorf("%s: %d pivots where five of the weights changed, %d from nothing", f.name, s.Pivots, cold)
		}
	}
}
