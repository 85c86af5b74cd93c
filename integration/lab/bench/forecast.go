package bench

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"souk/hub/predict/tree"
	"souk/integration/lab/forecast"
)

// Streams of which the bars are: lengths and arrivals were recorded, and no formula was chosen on them.
var recordedShort, recordedLong = []string{"azure"}, []string{"mooncake", "agents"}

// forecastBars hold what a hub expects against what came, on streams of tasks in virtual time, of which each
// run has a seed of its own. Beside them stand the line that hubs had before, and river's trees where there
// is a Python that has them; and streams of made-up lengths, whose rows have no bar: there chance alone
// leaves a cost more than is asked.
func forecastBars(ctx context.Context, o Options) ([]Bar, error) {
	options := forecast.DefaultOptions()
	recorded := slices.Concat(recordedShort, recordedLong)
	options.Streams, options.Seeds = slices.Concat(recorded, []string{"short", "long"}), nil
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
	// of is a figure of a way by seed, of the stream where it is the largest.
	of := func(streams []string, way string, figure func(forecast.Score) float64) (out []float64) {
		most := map[uint64]float64{}
		for _, r := range results {
			for _, s := range r.Scores {
				if slices.Contains(streams, r.Stream) && s.Name == way {
					most[r.Seed] = max(most[r.Seed], figure(s))
				}
			}
		}
		for _, seed := range options.Seeds {
			out = append(out, most[seed])
		}
		return out
	}
	ttft := func(s forecast.Score) float64 { return s.TTFT }
	cost := func(s forecast.Score) float64 { return s.Cost }
	bar := func(name string, limit float64, streams []string, figure func(forecast.Score) float64) Bar {
		runs := of(streams, forecast.Judged, figure)
		if options.Python != "" {
			river = fmt.Sprintf("river's trees %.3f", median(of(streams, "river", figure)))
		}
		b := Bar{Name: name, Limit: limit, Measured: median(runs), Runs: runs,
			Note: fmt.Sprintf("NMAE %.4f, %d tasks of %s; tasks in flight alone %.3f, %s", median(runs),
				options.Tasks, strings.Join(streams, ", of "), median(of(streams, "means", figure)), river)}
		if limit > 0 {
			b.Asked = fmt.Sprintf("at most %.2f", limit)
		}
		return b
	}
	covered := of(recorded, forecast.Judged,
		func(s forecast.Score) float64 { return 100 * math.Abs(s.OwnCovered-0.9) })
	missed := of(recorded, forecast.Judged,
		func(s forecast.Score) float64 { return 100 * (1 - s.OwnWindows) })
	var gaps []float64
	for _, r := range results {
		for _, g := range r.Gaps {
			if g.Name == forecast.Judged && slices.Contains(recorded, r.Stream) {
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
		bar("forecast: first token, short prompts", 0.12, recordedShort, ttft),
		bar("forecast: first token, long prompts", 0.15, recordedLong, ttft),
		bar("forecast: cost, short prompts", 0.09, recordedShort, cost),
		bar("forecast: cost, long prompts", 0.09, recordedLong, cost),
		{Name: "forecast: 90 % intervals, off by", Asked: "at most 2 points", Limit: 2, Unit: "points",
			Measured: slices.Max(covered), Runs: covered,
			Note: "as the hub says them; of the recorded stream where they were off most"},
		{Name: "forecast: windows of 500 beyond 86 to 94 %", Asked: "at most 5 %", Limit: 5, Unit: "%",
			Measured: median(missed), Runs: missed, Note: "of the recorded stream that has most of them"},
		{Name: "forecast: promised more by who is chosen", Asked: "at most 2 points", Limit: 2, Unit: "points",
			Measured: median(gaps), Runs: gaps, Note: "mean error of agents that it chose against all"},
		bar("forecast: first token, made-up short prompts", 0, []string{"short"}, ttft),
		bar("forecast: cost, made-up short prompts", 0, []string{"short"}, cost),
		bar("forecast: first token, made-up long prompts", 0, []string{"long"}, ttft),
		bar("forecast: cost, made-up long prompts", 0, []string{"long"}, cost),
		{Name: "forecast: all streams, all ways", Measured: took, Unit: "s", Runs: []float64{took},
			Note: "of a run, three of them placed by the forecasts themselves"},
		ratio("forecast: a tree's update", treeLimit, "loop", "us", update[0], update[1], "12 features"),
	}, nil
}

const (
	// treeLimit is the row's first measurement, and a fifth more.
	treeLimit = 0.4
	updated   = 16 // updates in a call
	young     = 8192
)

// updates returns a function that teaches a growing tree: a grown one is faster.
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
	return func() error {
		if at%young == 0 {
			t = tree.NewRegressor(tree.Default(), features)
		}
		for range updated {
			t.Learn(xs[at%len(xs)][:], ys[at%len(xs)], 1)
			at++
		}
		return nil
	}
}
