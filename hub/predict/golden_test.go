package predict

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"souk/bus/bustest/golden"
)

// The same history gives the same forecasts to the nanosecond, on machines that fuse a product into a sum and
// on those that do not: two hubs of different make assemble the same round.
func TestSameForecastsOnEveryMachine(t *testing.T) {
	rng := rand.New(rand.NewPCG(20, 28))
	h := sha256.New()
	for range 40 {
		cs := NewClasses(trees)
		var all []*Means
		for range 1 + rng.IntN(6) {
			m := NewMeans()
			cs.Enter(Key{}, m)
			all = append(all, m)
		}
		for range 250 {
			m := all[rng.IntN(len(all))]
			if rng.IntN(20) == 0 {
				cs.Enter(Key{Context: rng.IntN(3)}, m)
			}
			f := Features{Prompt: 1 + rng.IntN(4000), Cached: rng.IntN(3000), MaxTokens: 1 + rng.IntN(1000),
				Load: Load{Left: time.Duration(rng.Int64N(int64(time.Second))), Decoding: rng.IntN(16),
					Resident: rng.IntN(50_000)}}
			m.Learn(f, Observation{Prompt: 1 + rng.IntN(5000), Cached: rng.IntN(3000), Output: rng.IntN(1000),
				NoCacheReport: rng.IntN(5) == 0,
				Cut:           rng.IntN(6) == 0, TTFT: time.Duration(rng.Int64N(int64(3 * time.Second))),
				ITL: time.Duration(rng.Int64N(int64(time.Second / 4)))})
			f.Load = Load{Left: time.Duration(rng.Int64N(int64(time.Second))), Decoding: rng.IntN(16),
				Resident: rng.IntN(50_000)}
			fmt.Fprintf(h, "%x%x", m.class.Coef, m.Own)
			fmt.Fprintln(h, m.Line().Tokens(f.Prompt), int64(m.Forecast(f).TTFT), m.Forecast(f).Output,
				int64(m.SlowestITL()), int64(m.Line().ITL()), int64(m.Forecast(f).Low),
				int64(m.Forecast(f).High), int64(m.Token(f.Load)))
		}
	}
	golden.Check(t, "forecasts", fmt.Sprintf("%x", h.Sum(nil)))
}
