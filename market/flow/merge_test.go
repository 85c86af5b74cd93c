package flow

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// Seats that are the same to every task are one where ties are broken: what is found is the best of all tight
// edges solved one by one, and each seat's second price is theirs.
func TestSeatsThatAreTheSame(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 3))
	var s, plain Solver
	merged := 0
	for n := range 2000 {
		f := families[[]int{2, 3, 9}[n%3]] // equal, binary, column
		tasks, seats := 1+rng.IntN(30), 1+rng.IntN(12)
		p := f.make(rng, tasks, seats, 0, 1+rng.IntN(3*tasks))
		salt, wide := rng.Uint64(), int32(1+rng.IntN(4))
		where := fmt.Sprintf("seed %d, round %d, %s, %d x %d", seed, n, f.name, tasks, seats)
		if err := s.Solve(&p, nil); err != nil {
			t.Fatal(err)
		}
		rank := s.Settle(&p, func(k, a int32) uint64 { return mix(salt ^ uint64(k)<<32 ^ uint64(a/wide)) })
		if rank == nil {
			continue
		}
		merged += seats - len(s.tie.merged.Slots)
		q := &s.tie.problem
		if _, err := plain.Insert(q, -1, nil); err != nil {
			t.Fatal(err)
		}
		sum, left := int64(0), append([]int32(nil), p.Slots...)
		for k, a := range s.Match {
			if a < 0 {
				continue
			}
			if left[a]--; left[a] < 0 {
				t.Fatalf("%s: seat %d has more tasks than slots", where, a)
			}
			sum += q.weightOf(int32(k), a)
		}
		if sum != plain.Welfare() {
			t.Fatalf("%s: %d among equals, seat by seat %d", where, sum, plain.Welfare())
		}
		for a, price := range plain.Price {
			duty := int64(0)
			if s.Price[a] > 0 {
				duty = 2 * int64(seats+2) << TieBits(seats)
			}
			if rank[a]+duty != price {
				t.Fatalf("%s: seat %d has second price %d, seat by seat %d", where, a, rank[a]+duty, price)
			}
		}
	}
	if merged == 0 {
		t.Error("no seats were ever one: the test sees nothing")
	}
}
