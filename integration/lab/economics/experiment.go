package economics

import (
	"context"
	"fmt"

	"souk/integration/lab/page"
	"souk/integration/lab/runs"
	"souk/integration/lab/virtual"
	"souk/market"
)

// Options say how large a run is.
type Options struct {
	Seed   uint64
	Rounds int // of one simulated market
	// simulated side by side, each from its own seed; their means are reported
	Markets int
	// called as markets end, one call at a time; nil: nobody watches
	Progress func(what string, done, total int)
}

// DefaultOptions returns the options of the committed results.
func DefaultOptions() Options { return Options{Seed: 1, Rounds: 300, Markets: 16} }

// Limits of a run: beyond them it would take hours and say nothing new.
const (
	MaxRounds  = 100_000
	MaxMarkets = 10_000
)

// Validate judges the options.
func (o Options) Validate() error {
	switch {
	case o.Rounds < 1 || o.Rounds > MaxRounds:
		return fmt.Errorf("rounds is %d, want 1 to %d", o.Rounds, MaxRounds)
	case o.Markets < 1 || o.Markets > MaxMarkets:
		return fmt.Errorf("markets is %d, want 1 to %d", o.Markets, MaxMarkets)
	}
	return nil
}

// Result holds the findings of an experiment.
type Result struct {
	Name     string
	Title    string
	About    []string // paragraphs: what was done
	Findings []string // sentences made from the figures
	Tables   []Table
	Plots    []page.Plot
}

// Experiment is one question and how it is answered.
type Experiment struct {
	Name, Title string
	run         func(ctx context.Context, src *source, o Options) (Result, error)
}

// Experiments lists every experiment, in the order in which they run.
var Experiments = []Experiment{
	{"truth", "Does lying about values pay? (iemas Fig. 5)", truth},
	{"lies", "Does a lie pay over many rounds?", manyRounds},
	{"settle", "Who bears the errors of prediction?", settlement},
	{"private", "Knowing more than the predictor: own lengths, dummy prefills", private},
	{"pricing", "Do agents gain by lying? Price cards, tariffs, posted prices", pricings},
	{"clusters", "How many clusters? (iemas Fig. 6)", clusters},
	{"schemes", "Which clusters? (iemas Fig. 7)", schemes},
}

// Run runs the named experiments, "all" being all of them. It ends early, with its error, when ctx does.
func Run(ctx context.Context, names []string, o Options) ([]Result, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	var chosen []Experiment
	for _, name := range names {
		n, known := len(chosen), ""
		for _, e := range Experiments {
			if e.Name == name || name == "all" {
				chosen = append(chosen, e)
			}
			known += ", " + e.Name
		}
		if len(chosen) == n {
			return nil, fmt.Errorf("experiment %q: there is none; use all, or some of %s", name, known[2:])
		}
	}
	src, err := load()
	if err != nil {
		return nil, err
	}
	var out []Result
	for _, e := range chosen {
		r, err := e.run(ctx, src, o)
		if err != nil {
			return nil, fmt.Errorf("experiment %s: %w", e.Name, err)
		}
		r.Name, r.Title = e.Name, e.Title
		out = append(out, r)
	}
	return out, nil
}

// each runs n markets on all processors and returns what they gave, in order. The first error ends it.
func each[T any](ctx context.Context, o Options, what string, n int, run func(i int) (T, error)) ([]T,
	error) {
	return runs.Each(ctx, n, 0, func(done int) {
		if o.Progress != nil {
			o.Progress(what, done, n)
		}
	}, run)
}

// over is a figure of each market: their mean, and how far it may be off.
func over[T any](markets []T, of func(m *T) float64) virtual.Estimate {
	var all []float64
	for i := range markets {
		all = append(all, of(&markets[i]))
	}
	return virtual.NewEstimate(all)
}

// seed returns the seed of market i.
func (o Options) seed(i int) uint64 { return o.Seed*1_000_003 + uint64(i) }

// micro is money in millionths of a credit, as tables show it.
func micro(c market.Credits) float64 { return float64(c) / 1000 }

// clear clears a round and has it checked: no figure of a page comes from an outcome that nobody checked.
func clear(r market.Round) ([]place, error) {
	o, err := market.Clear(r)
	if err == nil {
		err = market.Check(r, o)
	}
	return placed(&r, &o), err
}

// lies counts lies told for one round, and what they gained.
type lies struct {
	tried, pays int
	total, most market.Credits
}

func (l *lies) add(more market.Credits) {
	l.tried++
	l.total += more
	if more > 0 {
		l.pays++
	}
	l.most = max(l.most, more)
}

func sumLies(list []lies) (sum lies) {
	for _, l := range list {
		sum = lies{sum.tried + l.tried, sum.pays + l.pays, sum.total + l.total, max(sum.most, l.most)}
	}
	return sum
}
