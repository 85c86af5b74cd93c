package forecast

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"souk/integration/lab/runs"
)

// Options say what is judged.
type Options struct {
	Streams []string
	Seeds   []uint64
	Agents  int
	Tasks   int // of a stream
	// share of tasks that go to an agent by lot
	Explore float64
	Gap     bool   // play each stream's first seed again, placed by each way whose gap is shown
	Python  string // that has river; "": it is left out
	Script  string // river's
	// called as runs end, one call at a time
	Progress func(done, total int)
}

// DefaultOptions returns the options of the committed page.
func DefaultOptions() Options {
	return Options{Streams: StreamNames(), Seeds: []uint64{1, 2}, Agents: 4, Tasks: 24_000, Explore: 0.05,
		Gap: true, Script: "integration/lab/forecast/river/eq5.py"}
}

// Validate judges the options.
func (o Options) Validate() error {
	var errs []error
	for _, name := range o.Streams {
		if !slices.Contains(StreamNames(), name) {
			errs = append(errs, fmt.Errorf("stream %q is none of %s", name, strings.Join(StreamNames(),
				", ")))
		}
	}
	if len(o.Streams) == 0 || len(o.Seeds) == 0 {
		errs = append(errs, errors.New("a stream and a seed are needed"))
	}
	if o.Agents < 1 || o.Agents > 1000 || o.Tasks < window || o.Tasks > 10_000_000 {
		errs = append(errs, fmt.Errorf("%d agents and %d tasks, want 1 to 1000, and %d to 10 million", o.Agents,
			o.Tasks, window))
	}
	if !(o.Explore >= 0 && o.Explore < 1) {
		errs = append(errs, fmt.Errorf("explore is %v, want 0 to below 1", o.Explore))
	}
	return errors.Join(errs...)
}

// Result holds the results of a stream.
type Result struct {
	Stream string  `json:"stream"`
	Seed   uint64  `json:"seed"`
	Tuned  bool    `json:"tuned"`
	TTFT   float64 `json:"ttft_mean"`    // seconds
	Prompt float64 `json:"prompt_mean"`  // tokens
	Cached float64 `json:"cached_share"` // of prompt tokens
	// what the hub believed cached was off by, in tokens of a task; and what the engine held when the task
	// was sent to it
	Belief float64 `json:"belief_error"`
	Held   float64 `json:"held_error"`
	// NMAE of first tokens by whoever knows all of an engine but where its step stands; where that computes a
	// prompt, nothing is counted; and of cost by whoever knows what was cached and how lengths of answers are
	// drawn, 0 where they are recorded
	LeastTTFT float64 `json:"least_ttft_nmae"`
	LeastCost float64 `json:"least_cost_nmae,omitempty"`
	// NMAE of cost by a hub's forecast of the answer's length, had it known what was cached
	ToldCost float64 `json:"told_cost_nmae"`
	Scores   []Score `json:"scores"`
	Gaps     []Gap   `json:"gaps,omitempty"`
}

// Gap compares a forecast's error at the agents that it chose itself with that at all.
type Gap struct {
	Name    string  `json:"name"`
	Awarded float64 `json:"awarded"` // mean error by the mean of what came, of agents that it chose
	All     float64 `json:"all"`     // and of those that a lot chose
}

// Points is the gap in points of a hundred.
func (g Gap) Points() float64 { return 100 * (g.Awarded - g.All) }

// chosen are the ways whose gap is shown.
var chosen = []string{"means", Baseline, asHub, "gated"}

// lots is the share of tasks that go by lot where a gap is looked for.
const lots = 0.2

// Judge has every way forecast every stream, and says how each did.
func Judge(ctx context.Context, o Options) ([]Result, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	n := len(o.Streams) * len(o.Seeds)
	ended := func(runs int) {
		if o.Progress != nil {
			o.Progress(runs, n)
		}
	}
	const most = 2 // streams keep much in memory
	return runs.Each(ctx, n, most, ended, func(i int) (Result, error) {
		stream := Streams[slices.Index(StreamNames(), o.Streams[i/len(o.Seeds)])]
		seed := o.Seeds[i%len(o.Seeds)]
		own := o
		own.Gap = o.Gap && seed == o.Seeds[0]
		result, err := own.judge(ctx, stream, seed)
		if err != nil {
			err = fmt.Errorf("stream %s, seed %d: %w", stream.Name, seed, err)
		}
		return result, err
	})
}

// judge plays one stream.
func (o Options) judge(ctx context.Context, stream Stream, seed uint64) (Result, error) {
	out := Result{Stream: stream.Name, Seed: seed, Tuned: stream.Tuned}
	r := Run{Stream: stream, Seed: seed, Agents: o.Agents, Tasks: o.Tasks, Explore: o.Explore}
	var judges []*judge
	for _, w := range Ways {
		r.All, judges = append(r.All, w.make(o.Agents)), append(judges, newJudge())
	}
	var river *river
	if o.Python != "" {
		var err error
		if river, err = startRiver(ctx, o.Python, o.Script); err != nil {
			return out, err
		}
		defer river.stop()
		r.All = append(r.All, river)
	}
	r.Sent = func(t *Task, expects []Expected) {
		for i, j := range judges {
			j.sent(t, expects[i])
		}
	}
	cost, off, told := 0.0, 0.0, 0.0
	hub := slices.IndexFunc(Ways, func(w Way) bool { return w.Name == asHub })
	r.Ended = func(t *Task, expects []Expected) {
		for i, j := range judges {
			j.ended(t, expects[i])
		}
		cost += t.Cost
		told += math.Abs(price(t, t.Cached, expects[hub].Output) - t.Cost)
		out.LeastTTFT += t.chance
		if t.least > 0 {
			off += math.Abs(t.least - t.Cost)
		}
		out.TTFT += t.TTFT
		out.Prompt += float64(t.Prompt)
		out.Cached += float64(t.Cached)
		out.Belief += math.Abs(float64(t.Believed - t.Cached))
		out.Held += math.Abs(float64(t.Held - t.Cached))
	}
	if err := r.Play(ctx); err != nil {
		return out, err
	}
	out.Cached /= out.Prompt
	out.LeastTTFT /= out.TTFT
	out.LeastCost, out.ToldCost = off/cost, told/cost
	for _, v := range []*float64{&out.TTFT, &out.Prompt, &out.Belief, &out.Held} {
		*v /= float64(o.Tasks)
	}
	for i, w := range Ways {
		out.Scores = append(out.Scores, judges[i].score(w.Name, r.All[i]))
	}
	if river != nil {
		s, err := river.score()
		if err != nil {
			return out, err
		}
		out.Scores = append(out.Scores, s)
	}
	for _, w := range Ways {
		if o.Gap && slices.Contains(chosen, w.Name) {
			g, err := o.gap(ctx, stream, seed, w)
			if err != nil {
				return out, err
			}
			out.Gaps = append(out.Gaps, g)
		}
	}
	return out, nil
}

// gap plays a stream that is placed by a way itself: an auction picks who is over-estimated.
func (o Options) gap(ctx context.Context, stream Stream, seed uint64, w Way) (Gap, error) {
	f := w.make(o.Agents)
	var off, came [2]float64
	r := Run{Stream: stream, Seed: seed, Agents: o.Agents, Tasks: o.Tasks, Explore: lots, Place: f,
		All: []Forecaster{f}}
	r.Ended = func(t *Task, expects []Expected) {
		k := 0
		if t.Explored {
			k = 1
		}
		off[k] += expects[0].TTFT - t.TTFT
		came[k] += t.TTFT
	}
	err := r.Play(ctx)
	return Gap{w.Name, off[0] / came[0], off[1] / came[1]}, err
}

// Figure is a figure of a way on a stream, over all seeds: their mean.
func Figure(results []Result, stream, way string, of func(Score) float64) (mean float64, ok bool) {
	n := 0
	for _, r := range results {
		for _, s := range r.Scores {
			if r.Stream == stream && s.Name == way {
				mean += of(s)
				n++
			}
		}
	}
	return mean / float64(max(1, n)), n > 0
}
