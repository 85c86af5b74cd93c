package bench

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"souk/integration/lab/virtual"
)

// An hour of sixteen engines in virtual time is to take some sixty seconds of a processor. So long is played
// of it, and the rest taken to be as dear.
const (
	hourOf16     = 60
	playedOfHour = 4 * time.Minute
)

// virtualBars measure what it takes to play engines and markets in virtual time.
func virtualBars(ctx context.Context, o Options) ([]Bar, error) {
	defer debug.SetGCPercent(debug.SetGCPercent(1000)) // as `lab crowd` has it
	hour := func(rule, trace string) func() ([]float64, error) {
		return func() ([]float64, error) {
			begun := cpu()
			_, err := virtual.Crowd(ctx, virtual.CrowdOptions{Traces: []string{trace}, Rules: []string{rule},
				Seeds: []uint64{1}, World: virtual.World{Engines: 16, Length: playedOfHour},
				Progress: func(int, int) {}})
			used := cpu() - begun
			return []float64{used.Seconds() * float64(time.Hour/playedOfHour)}, err
		}
	}
	var bars []Bar
	for _, c := range []struct {
		name, rule, trace string
		limit             float64
	}{
		{"virtual time: an hour of 16 engines, a rule", "two-block", "crowd", hourOf16},
		{"virtual time: the same, the market", virtual.MarketName, "tau", hourOf16},
		{"virtual time: the same, in a crowd", virtual.MarketName, "crowd", hourOf16},
	} {
		x, err := repeat(o, c.name, hour(c.rule, c.trace))
		if err != nil {
			return nil, err
		}
		bars = append(bars, Bar{Name: c.name, Asked: fmt.Sprintf("some %.0f s", c.limit), Limit: c.limit,
			Measured: median(x[0]), Unit: "s", Runs: x[0],
			Note: fmt.Sprintf("of a processor, by %v of the trace %q; the journal's audit is in it",
				playedOfHour, c.trace)})
	}
	return bars, nil
}
