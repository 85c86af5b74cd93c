package truth

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"souk/integration/lab/runs"
	"souk/integration/lab/virtual"
)

// Options say what is played.
type Options struct {
	Seeds    []uint64
	Epochs   int // of learning
	Measured int // epochs behind them
	Loads    []float64
	Progress func(done, total int)
}

// DefaultOptions returns the options of the committed page.
func DefaultOptions() Options {
	return Options{Seeds: []uint64{1, 2, 3, 4, 5}, Epochs: 1000, Measured: 300, Loads: []float64{1}}
}

// Validate judges the options.
func (o Options) Validate() error {
	switch {
	case len(o.Seeds) == 0 || len(o.Loads) == 0:
		return fmt.Errorf("truth: a seed and a load are needed")
	case o.Epochs < judges || o.Epochs%judges > 0 || o.Measured < judges || o.Measured%judges > 0 ||
		o.Epochs+o.Measured > 1_000_000:
		return fmt.Errorf("truth: %d epochs and %d measured: each a multiple of %d above 0", o.Epochs,
			o.Measured, judges)
	}
	for _, x := range o.Loads {
		if !(x > 0 && x <= 4) {
			return fmt.Errorf("truth: a load of %v, want one above 0 and at most 4", x)
		}
	}
	return nil
}

// Shares says who lies in the plays of a page; nobody in the first.
var Shares = []Share{{"nobody", 0, 0}, {"a tenth", 10, 8}, {"a third", 3, 3}, {"all", 1, 1},
	{"callers alone", 1, 0}, {"owners alone", 0, 1}}

// Ways of a market, as they are played.
var markets = []Way{
	{Name: "vcg", About: "the market as it is delivered: slot prices, and cards as owners say them"},
	{Name: "first price", About: "the same market, but who is served pays what it says that its answer was worth, " +
		"as it was served", first: true},
	{Name: "tariff", About: "the market's pricing `tariff`: a class has its card, and owners hand in sealed asks " +
		"beside it, for two seconds at a time", asks: true},
}

// families are the rules of the table that believe what they are told: terms, prices or scores.
var families = []string{"posted", "greedy-first", "two-block-first", "greedy", "best", "cheapest"}

// cell holds the outcomes of a way in a world, by seed.
type cell struct {
	load  float64
	way   Way
	share Share
	all   []*Outcome
}

// Results holds the figures of a page.
type Results struct {
	Options
	believers []cell // told the truth, of each rule and load
	cells     []cell
}

// shares lists who lies in the plays of a way at a load. Markets other than the first are played at the first
// load alone, as a market takes most of the time.
func (o *Options) shares(w *Way, load float64) []Share {
	switch {
	case w.rule == "" && w.Name != markets[0].Name && load != o.Loads[0]:
		return nil
	case w.rule == "" && w.Name != markets[0].Name:
		return Shares[:4]
	case w.rule == "" && load != o.Loads[0]:
		return []Share{Shares[0], Shares[3]}
	}
	return Shares
}

// Play plays everything: first the rules that believe, told the truth, and then the best of each family and
// the markets with liars.
func Play(ctx context.Context, o Options) (*Results, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	all, err := worlds(o.Loads)
	if err != nil {
		return nil, err
	}
	out := &Results{Options: o}
	out.list()
	if err := out.fill(ctx, out.believers, all); err != nil {
		return nil, err
	}
	out.plan()
	return out, out.fill(ctx, out.cells, all)
}

// list lists the rules that believe, at each load.
func (r *Results) list() {
	for _, load := range r.Loads {
		for _, x := range virtual.Rules() {
			if !slices.Contains(families, x.Name) {
				continue
			}
			for _, name := range x.Turned() {
				w := Way{Name: name, About: x.About, rule: name}
				r.believers = append(r.believers, cell{load: load, way: w, share: Shares[0]})
			}
		}
	}
}

// plan lists what is played with liars, once it is known which rules are best.
func (r *Results) plan() {
	for _, load := range r.Loads {
		for _, w := range slices.Concat(markets, r.best(load)) {
			for _, s := range r.shares(&w, load) {
				r.cells = append(r.cells, cell{load: load, way: w, share: s})
			}
		}
	}
}

// fill plays cells, from each seed.
func (r *Results) fill(ctx context.Context, cells []cell, all []virtual.World) error {
	n := len(r.Seeds)
	got, err := runs.Each(ctx, len(cells)*n, 0, func(done int) {
		if r.Progress != nil {
			r.Progress(done, len(cells)*n)
		}
	}, func(i int) (*Outcome, error) {
		c := &cells[i/n]
		w := all[slices.Index(r.Loads, c.load)]
		return c.way.play(w, c.share, r.Seeds[i%n], r.Epochs, r.Measured)
	})
	for i, o := range got {
		cells[i/n].all = append(cells[i/n].all, o)
	}
	return err
}

// best returns the best of each of the first three families at a load, told the truth, the best of all first.
func (r *Results) best(load float64) (ways []Way) {
	for _, family := range families[:3] {
		var first *cell
		for i := range r.believers {
			c := &r.believers[i]
			if base, _, _ := strings.Cut(c.way.Name, ":"); c.load == load && base == family &&
				(first == nil || c.mean(whole) > first.mean(whole)) {
				first = c
			}
		}
		ways = append(ways, first.way)
	}
	return ways
}

// believer is the rule of greatest welfare at a load, told the truth.
func (r *Results) believer(load float64) *cell {
	var first *cell
	for i := range r.believers {
		c := &r.believers[i]
		if c.load == load && (first == nil || c.mean(whole) > first.mean(whole)) {
			first = c
		}
	}
	return first
}

func welfare(o *Outcome) float64 { return o.Welfare }

// of are a figure's values by seed.
func (c *cell) of(figure func(*Outcome) float64) (x []float64) {
	for _, o := range c.all {
		x = append(x, figure(o))
	}
	return x
}

func (c *cell) mean(figure func(*Outcome) float64) float64 {
	return virtual.NewEstimate(c.of(figure)).Mean
}

// find is the cell of a way, and of who lies; nil: it was not played.
func (r *Results) find(load float64, way, share string) *cell {
	for i := range r.cells {
		if c := &r.cells[i]; c.load == load && c.way.Name == way && c.share.Name == share {
			return c
		}
	}
	return nil
}

// against are the differences in per cent of a figure beside another cell's, by seed.
func (c *cell) against(other *cell, figure func(*Outcome) float64) (x []float64) {
	a, b := c.of(figure), other.of(figure)
	for i := range a {
		x = append(x, 100*(a[i]/b[i]-1))
	}
	return x
}
