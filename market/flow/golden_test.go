package flow

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"testing"

	"souk/bus/bustest/golden"
)

// Matching, prices and second prices are the same on every machine.
func TestSameMatchingOnEveryMachine(t *testing.T) {
	h := sha256.New()
	var s Solver
	for i, f := range families {
		for n := range 8 {
			p := f.make(rand.New(rand.NewPCG(uint64(i), uint64(n))), 10+20*n, 3+7*n, 0, 10+15*n)
			if err := s.Solve(&p, nil); err != nil {
				t.Fatal(err)
			}
			second := s.Settle(&p, func(k, a int32) uint64 { return mix(uint64(k)<<32 ^ uint64(a)) })
			fmt.Fprintln(h, f.name, s.Match, s.Price, second, s.Pivots)
		}
	}
	golden.Check(t, "matchings", fmt.Sprintf("%x", h.Sum(nil)))
}
