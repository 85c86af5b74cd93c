package gpus

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"souk/integration/lab/runs"
)

// Options say what is played.
type Options struct {
	Seeds    []uint64
	Tasks    int   // of a run
	Most     int   // engines of the largest fleet
	Slots    []int // requests that an engine runs at once: an operator chooses one of these for a rule
	Prices   Prices
	Source   string // of the prices
	Worlds   []*World
	Progress func(done, total int)
}

// DefaultOptions returns the options of the committed page, without worlds and prices.
func DefaultOptions() Options {
	return Options{Seeds: []uint64{1, 2, 3, 4, 5}, Tasks: 800, Most: 24, Source: Source,
		Slots: []int{2, 4, 8, 16, 32}}
}

// Limits of options.
const (
	leastTasks, mostTasks = 100, 100_000
	mostEngines           = 256
)

// Validate judges the options.
func (o *Options) Validate() error {
	switch {
	case len(o.Seeds) == 0:
		return errors.New("a seed is needed")
	case o.Tasks < leastTasks || o.Tasks > mostTasks:
		return fmt.Errorf("%d tasks, want %d to %d: one in a hundred may be late", o.Tasks, leastTasks, mostTasks)
	case o.Most < len(unit) || o.Most > mostEngines:
		return fmt.Errorf("%d engines at most, want %d to %d", o.Most, len(unit), mostEngines)
	}
	return nil
}

// Search says what came of a rule on a trace from one seed.
type Search struct {
	Smallest int          `json:"smallest"` // engines; 0: no fleet that was looked at keeps the promise
	Looked   map[int]Kept `json:"looked"`   // by engines
}

// beyond is the number of larger and of smaller fleets that are looked at beside the smallest.
const beyond = 2

// search looks for the smallest fleet, from one unit on: up, one engine after the other, until one keeps the
// promise, or down, until several in a row do not. A larger fleet need not keep what a smaller one does, so
// the next ones are looked at, too.
func search(most int, play func(engines int) (Kept, error)) (s Search, err error) {
	s.Looked = map[int]Kept{}
	keeps := func(n int) (bool, error) {
		k, known := s.Looked[n]
		if !known {
			if k, err = play(n); err != nil {
				return false, err
			}
			s.Looked[n] = k
		}
		return k.Keeps(), nil
	}
	for n := len(unit); n <= most && s.Smallest == 0; n++ {
		ok, err := keeps(n)
		if err != nil {
			return s, err
		}
		if ok {
			s.Smallest = n
		}
	}
	if s.Smallest == 0 {
		return s, nil
	}
	for n := s.Smallest - 1; n >= max(1, s.Smallest-beyond); n-- {
		ok, err := keeps(n)
		if err != nil {
			return s, err
		}
		if ok {
			s.Smallest = n
		}
	}
	for n := s.Smallest + 1; n <= min(most, s.Smallest+beyond); n++ {
		if _, err := keeps(n); err != nil {
			return s, err
		}
	}
	return s, nil
}

// broken are the larger fleets that were looked at and do not keep what the smallest keeps.
func (s *Search) broken() (all []int) {
	for n, k := range s.Looked {
		if s.Smallest > 0 && n > s.Smallest && !k.Keeps() {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return all
}

// Cell is a rule on a trace, with a search from each seed.
type Cell struct {
	World    string        `json:"world"`
	Player   string        `json:"rule"`
	Slots    int           `json:"slots"` // those with which it did best
	Tried    map[int][]int `json:"tried"` // by slots: engines of the smallest fleet, of the first seeds
	Searches []Search      `json:"seeds"`
}

// Results holds what came of everything.
type Results struct {
	Options
	Fleet []Engine // the largest, and the engine by which the next is larger
	Cells []Cell
}

// judging is the number of seeds, of the first, from which the slots of a rule are chosen.
const judging = 2

// Play plays everything: of the first seeds with every number of slots, of the others with that which is best
// there.
func Play(ctx context.Context, o Options) (*Results, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	r := &Results{Options: o}
	var err error
	if r.Fleet, err = engines(o.Most+1, o.Prices); err != nil {
		return nil, err
	}
	type job struct {
		cell  int
		w     *World
		x     Player
		seed  int
		found Search
	}
	var first, rest []*job
	judged := min(judging, len(o.Seeds))
	for _, w := range o.Worlds {
		for _, x := range Players {
			for _, slots := range o.Slots {
				x.Slots = slots
				for i := range judged {
					first = append(first, &job{cell: len(r.Cells), w: w, x: x, seed: i})
				}
			}
			x.Slots = 0
			for i := judged; i < len(o.Seeds); i++ {
				rest = append(rest, &job{cell: len(r.Cells), w: w, x: x, seed: i})
			}
			r.Cells = append(r.Cells, Cell{World: w.Name, Player: x.Name, Tried: map[int][]int{},
				Searches: make([]Search, len(o.Seeds))})
		}
	}
	all := len(first) + len(rest)
	play := func(jobs []*job, before int) error {
		_, err := runs.Each(ctx, len(jobs), 0, func(done int) {
			if o.Progress != nil {
				o.Progress(before+done, all)
			}
		}, func(i int) (none struct{}, err error) {
			j := jobs[i]
			j.found, err = search(o.Most, func(n int) (Kept, error) {
				return j.w.play(j.x, o.Seeds[j.seed], r.Fleet[:n], o.Tasks)
			})
			return none, err
		})
		return err
	}
	if err := play(first, 0); err != nil {
		return nil, err
	}
	for _, j := range first {
		c := &r.Cells[j.cell]
		c.Tried[j.x.Slots] = append(c.Tried[j.x.Slots], j.found.Smallest)
	}
	for i := range r.Cells {
		c := &r.Cells[i]
		least := 0.0
		for _, slots := range o.Slots {
			if d := r.tried(c.Tried[slots]); c.Slots == 0 || d < least {
				c.Slots, least = slots, d
			}
		}
	}
	for _, j := range rest {
		j.x.Slots = r.Cells[j.cell].Slots
	}
	if err := play(rest, len(first)); err != nil {
		return nil, err
	}
	for _, j := range slices.Concat(first, rest) {
		if c := &r.Cells[j.cell]; j.x.Slots == c.Slots {
			c.Searches[j.seed] = j.found
		}
	}
	return r, nil
}

// dollars returns the price of a fleet an hour; of 0 engines, which stands for none that was looked at, that
// of the next larger one: the smallest that keeps the promise costs no less.
func (r *Results) dollars(engines int) (all float64) {
	if engines == 0 {
		engines = len(r.Fleet)
	}
	for _, e := range r.Fleet[:engines] {
		all += e.Dollars
	}
	return all
}

func (r *Results) tried(engines []int) (all float64) {
	for _, n := range engines {
		all += r.dollars(n)
	}
	return all
}
