package predict

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"
)

// The same history gives the same forecasts to the nanosecond, on machines that fuse a product into a sum and
// on those that do not: two hubs of different make assemble the same round.
func TestSameForecastsOnEveryMachine(t *testing.T) {
	const want = "ac7d545ae1687152d940dace15dd58456dd6d2792b5cbb1e342bdf4c1acd8b7a"
	rng := rand.New(rand.NewPCG(20, 28))
	h := sha256.New()
	for range 40 {
		m := NewMeans(DefaultPrior())
		m.Hint(time.Duration(rng.Int64N(int64(time.Second))))
		for range 250 {
			f := Features{Prompt: 1 + rng.IntN(4000), Cached: rng.IntN(3000), MaxTokens: 1 + rng.IntN(1000),
				InFlight: rng.IntN(16)}
			m.Learn(f, Observation{Prompt: 1 + rng.IntN(5000), Cached: rng.IntN(3000), Output: rng.IntN(1000),
				NoCacheReport: rng.IntN(5) == 0,
				Cut:           rng.IntN(6) == 0, TTFT: time.Duration(rng.Int64N(int64(3 * time.Second))),
				ITL: time.Duration(rng.Int64N(int64(time.Second / 4)))})
			f.InFlight = rng.IntN(16)
			fmt.Fprintf(h, "%x", m.class.coef)
			fmt.Fprintln(h, m.Tokens(f.Prompt), int64(m.Forecast(f).TTFT), m.Forecast(f).Output,
				int64(m.SlowestITL()))
		}
	}
	if got := fmt.Sprintf("%x", h.Sum(nil)); got != want {
		t.Errorf("%s: forecasts hash to %s, want %s", runtime.GOARCH, got, want)
	}
}
