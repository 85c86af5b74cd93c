package bench

import (
	"context"
	"fmt"

	"souk/integration/lab/games"
)

// regimeBars measures the regimes: how soon the hub sees that twice as much comes as is served, in virtual
// time.
func regimeBars(ctx context.Context, o Options) ([]Bar, error) {
	var seen []float64
	for i := range o.Runs {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		fmt.Fprintf(o.Progress, "measuring how soon twice the knee is seen, run %d of %d\n", i+1, o.Runs)
		after, err := games.Four.Detection(uint64(i + 1))
		if err != nil {
			return nil, err
		}
		seen = append(seen, after.Seconds())
	}
	return []Bar{{Name: "regime: twice the knee is seen", Asked: "at most 15 s", Limit: 15, Unit: "s",
		Measured: median(seen), Runs: seen,
		Note: "after half of it, in virtual time, by the slowdown of first tokens"}}, nil
}
