package bench

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"souk/hub/predict/tree"
	"souk/integration/forecast"
)

// forecastBars hold what a hub expects against what came, on streams of tasks in virtual time, of which each
// run has a seed of its own. Beside them stand the line that hubs had before, and river's trees where there
// is a Python that has them.
func forecastBars(ctx context.Context, o Options) ([]Bar, error) {
	options := forecast.DefaultOptions()
	options.Streams, options.Seeds = []string{"short", "long"}, nil
	for i := range o.Runs {
		options.Seeds = append(options.Seeds, uint64(i+1))
	}
	river := "no river here"
	if python, err := forecast.FindRiver(ctx, ""); err == nil {
		options.Python = python
	}
	fmt.Fprintf(o.Progress, "measuring forecasts on %d streams\n", len(options.Streams)*len(options.Seeds))
	begun := time.Now()
	results, err := forecast.Judge(ctx, options)
	if err != nil {
		return nil, err
	}
	took := time.Since(begun).Seconds()
	of := func(stream, way string, figure func(forecast.Score) float64) (out []float64) {
		for _, r := range results {
			for _, s := range r.Scores {
				if (stream == "" || r.Stream == stream) && s.Name == way {
					out = append(out, figure(s))
				}
			}
		}
		return out
	}
	ttft := func(s forecast.Score) float64 { return s.TTFT }
	cost := func(s forecast.Score) float64 { return s.Cost }
	bar := func(name string, limit float64, stream string, figure func(forecast.Score) float64) Bar {
		runs := of(stream, forecast.Judged, figure)
		if options.Python != "" {
			river = fmt.Sprintf("river's trees %.3f", median(of(stream, "river", figure)))
		}
		return Bar{Name: name, Asked: fmt.Sprintf("at most %.2f", limit), Limit: limit,
			Measured: median(runs), Runs: runs,
			Note: fmt.Sprintf("NMAE %.4f, %d tasks; tasks in flight alone %.3f, %s", median(runs),
				options.Tasks, median(of(stream, "means", figure)), river)}
	}
	covered := of("", forecast.Judged,
		func(s forecast.Score) float64 { return 100 * math.Abs(s.Covered-0.9) })
	windows := of("", forecast.Judged, func(s forecast.Score) float64 { return 100 * s.Windows })
	var gaps []float64
	for _, r := range results {
		for _, g := range r.Gaps {
			if g.Name == forecast.Judged {
				gaps = append(gaps, math.Abs(g.Points()))
			}
		}
	}
	loops := newReference()
	update, err := repeat(o, "a tree's update", func() ([]float64, error) {
		call, loop, err := loops.beside(200*time.Millisecond, updates())
		return []float64{micros(call) / updated, micros(loop)}, err
	})
	if err != nil {
		return nil, err
	}
	return []Bar{
		bar("forecast: first token, short prompts", 0.10, "short", ttft),
		bar("forecast: first token, long prompts", 0.15, "long", ttft),
		bar("forecast: cost, short prompts", 0.09, "short", cost),
		bar("forecast: cost, long prompts", 0.09, "long", cost),
		{Name: "forecast: 90 % intervals, off by", Asked: "at most 2 points", Limit: 2, Unit: "points",
			Measured: slices.Max(covered), Runs: covered, Note: "of the stream where they were off most"},
		{Name: "forecast: windows of 500 with 86 to 94 % covered", Asked: "at least 95 %", Limit: 95,
			AtLeast: true, Unit: "%", Measured: median(windows), Runs: windows},
		{Name: "forecast: promised more by who is chosen", Asked: "at most 2 points", Limit: 2, Unit: "points",
			Measured: median(gaps), Runs: gaps, Note: "mean error of agents that it chose against all"},
		{Name: "forecast: both streams, all ways", Measured: took, Unit: "s", Runs: []float64{took},
			Note: "of a run, three of them placed by the forecasts themselves"},
		ratio("forecast: a tree's update", treeLimit, "loop", "us", update[0], update[1], "12 features"),
	}, nil
}

const (
	// treeLimit is what the row measured when it was written, and a fifth more.
	treeLimit = 0.4
	updated   = 16 // updates in a call
	young     = 8192
)

// updates is what teaches a tree that still grows: one that has is faster.
func updates() func() error {
	const features = 12
	var t *tree.Regressor
	rng := rand.New(rand.NewPCG(1, 1))
	var xs [1024][features]float64
	var ys [1024]float64
	for i := range xs {
		for f := range features {
			xs[i][f] = rng.Float64()
		}
		ys[i] = 3*xs[i][0] + math.Floor(2*xs[i][1]) + rng.NormFloat64()
	}
	at := 0
	return func() (err error) {
		if at%young == 0 {
			if t, err = tree.NewRegressor(tree.Default(), features); err != nil {
				return err
			}
		}
		for range updated {
			t.Learn(xs[at%len(xs)][:], ys[at%len(xs)], 1)
			at++
		}
		return nil
	}
}
