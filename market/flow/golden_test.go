package flow

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
)

// Matching, prices and second prices are the same on every machine.
func TestSameMatchingOnEveryMachine(t *testing.T) {
	const want = "4765936de8b0c219b4e4c750f8042bff0b0064409d3be84797eb01d8a49bd6ab"
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
	if got := fmt.Sprintf("%x", h.Sum(nil)); got != want {
		t.Errorf("%s: matchings hash to %s, want %s", runtime.GOARCH, got, want)
	}
}
