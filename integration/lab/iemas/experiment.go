package iemas

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"souk/integration/lab/runs"
	"souk/integration/lab/virtual"
)

// Options say what is played.
type Options struct {
	Seeds []uint64
	Tasks int // of a run of a router
	// of a stream before predictors: they learn as tasks end
	Stream   int
	Progress func(done, total int)
}

// DefaultOptions returns the options of the committed page.
func DefaultOptions() Options {
	return Options{Seeds: []uint64{1, 2, 3, 4, 5}, Tasks: 1500, Stream: 3000}
}

// Validate judges the options.
func (o Options) Validate() error {
	if len(o.Seeds) == 0 {
		return errors.New("a seed is needed")
	}
	for _, n := range []int{o.Tasks, o.Stream} {
		if n < 2*turns || n > 1_000_000 {
			return fmt.Errorf("%d tasks, want %d to a million", n, 2*turns)
		}
	}
	return nil
}

// Loads lists numbers of callers that ask at once: the paper's twelve, half of the slots, and half as many
// again as there are slots.
var Loads = []int{slots, slots * each * 3 / 2, slots * each * 3 * 3 / 2}

// Placers are the routers that place the streams on which predictors are judged.
var Placers = []string{"iemas", virtual.MarketName, "random"}

// cell holds the figures of a router in a world under a load, by seed.
type cell struct {
	set, router string
	callers     int
	figures     []Figures
}

// stream holds the errors of all ways on a stream, by seed.
type stream struct {
	set, placer string
	callers     int
	errors      [][]Errors
}

// Results holds the figures of a page.
type Results struct {
	Options
	Worlds  []*World
	cells   []cell
	streams []stream
}

// Play plays everything.
func Play(ctx context.Context, o Options) (*Results, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	out := &Results{Options: o}
	var jobs []func(i int, seed uint64) error
	for _, set := range Sets {
		w, err := NewWorld(set)
		if err != nil {
			return nil, err
		}
		out.Worlds = append(out.Worlds, w)
		for _, callers := range Loads {
			for _, r := range Routers {
				out.cells = append(out.cells, cell{set.Name, r.Name, callers, make([]Figures, len(o.Seeds))})
			}
			for _, p := range Placers {
				out.streams = append(out.streams, stream{set.Name, p, callers,
					make([][]Errors, len(o.Seeds))})
			}
		}
	}
	for i := range out.cells {
		c := &out.cells[i]
		jobs = append(jobs, func(i int, seed uint64) (err error) {
			c.figures[i], err = out.world(c.set).play(c.router, seed, c.callers, o.Tasks)
			return err
		})
	}
	for i := range out.streams {
		s := &out.streams[i]
		jobs = append(jobs, func(i int, seed uint64) (err error) {
			s.errors[i], err = out.world(s.set).expectAll(s.placer, seed, s.callers, o.Stream)
			return err
		})
	}
	n := len(jobs) * len(o.Seeds)
	_, err := runs.Each(ctx, n, 0, func(done int) { o.Progress(done, n) }, func(i int) (struct{}, error) {
		k := i % len(o.Seeds)
		return struct{}{}, jobs[i/len(o.Seeds)](k, o.Seeds[k])
	})
	return out, err
}

func (r *Results) world(set string) *World {
	return r.Worlds[slices.IndexFunc(r.Worlds, func(w *World) bool { return w.Name == set })]
}

// of are the figures of a router in a world under a load, by seed; none: it was not played.
func (r *Results) of(set, router string, callers int, figure func(*Figures) float64) (all []float64) {
	for _, c := range r.cells {
		if c.set == set && c.router == router && c.callers == callers {
			for i := range c.figures {
				all = append(all, figure(&c.figures[i]))
			}
		}
	}
	return all
}

// errs are the errors of a way on a stream, by seed.
func (r *Results) errs(set, placer string, callers, way int, of func(*Errors) float64) (all []float64) {
	for _, s := range r.streams {
		if s.set == set && s.placer == placer && s.callers == callers {
			for i := range s.errors {
				all = append(all, of(&s.errors[i][way]))
			}
		}
	}
	return all
}
