package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"souk/hub/regime"
	"souk/integration/lab/games"
)

// regimeBars are of the regimes: how long the estimate of the price of anarchy takes, and how soon the hub
// sees that twice as much comes as is served, by each signal, in virtual time.
func regimeBars(ctx context.Context, o Options) ([]Bar, error) {
	rng := rand.New(rand.NewPCG(1, 1))
	w := regime.Window{}
	for range 8 {
		w.Slots = append(w.Slots, 64)
	}
	for range regime.MostDone {
		d := regime.Done{Agent: rng.IntN(8), Seconds: 1 + rng.Float64(), Beside: rng.IntN(64)}
		for k := range d.Shares {
			d.Shares[k] = regime.Share{Agent: int32(k), Of: rng.Float32()}
		}
		w.Done = append(w.Done, d)
	}
	reference := newReference()
	poa, err := repeat(o, "the price of anarchy", func() ([]float64, error) {
		call, _, err := reference.beside(200*time.Millisecond, func() error {
			w.PoA(regime.Theirs)
			w.PoA(w.Fit())
			return nil
		})
		return []float64{micros(call) / 1000}, err
	})
	if err != nil {
		return nil, err
	}
	bars := []Bar{{Name: "regime: price of anarchy, 512 x 8", Asked: "at most 50 ms", Limit: 50, Unit: "ms",
		Measured: median(poa[0]), Runs: poa[0],
		Note: "processor time, by the paper's constants and by fitted ones; beside the hub's loop, once a minute"}}
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
	return append(bars, Bar{Name: "regime: twice the knee is seen", Asked: "at most 15 s", Limit: 15, Unit: "s",
		Measured: median(seen), Runs: seen,
		Note: "after half of it, in virtual time, by the slowdown of first tokens"}), nil
}
