package virtual

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Engines that are all alike end with like work, whatever the seed: none has fewer than half as many tasks as
// the mean, where slots are short and where they are not.
func TestEqualEnginesHaveEqualWork(t *testing.T) {
	for _, trace := range []string{"crowd", "rag"} {
		seed := rand.Uint64()
		s, err := Traces[slices.Index(TraceNames(), trace)].setting(8)
		if err != nil {
			t.Fatal(err)
		}
		s.Seed, s.Tasks = seed, 600
		m, err := NewMarket(NewMarketOptions(s))
		if err != nil {
			t.Fatal(err)
		}
		all, engines, err := Run(s, m)
		if err == nil {
			_, err = m.Close()
		}
		if err != nil {
			t.Fatalf("%s, seed %d: %v", trace, seed, err)
		}
		if f := Measure(all, len(engines)); f.Fewest < 0.5 || f.Refused > 0 {
			t.Errorf("%s, seed %d: an engine has %.2f times the mean of tasks, %v are refused", trace, seed,
				f.Fewest, f.Refused)
		}
	}
}
