package thousand

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"souk/integration/lab/runs"
	"souk/integration/lab/virtual"
)

// Options say what is played.
type Options struct {
	Engines int
	Load    float64 // of what the engines can serve
	Length  time.Duration
	Thought int // tokens of reasoning before each answer
	Seed    uint64
	Plays   []string // of [Plays]
	// begins to count what the goroutine at hand takes of a processor; nil: nobody asks
	Clock    func() (processor func() time.Duration)
	Progress func(done int)
}

// Plays lists what can be played: as many hubs, and rules.
var Plays = []string{oneHub, threeHubs, "6-hubs", "20-hubs", "power-of-two", "greedy"}

const (
	oneHub    = "1-hub"
	threeHubs = "3-hubs"
)

// DefaultOptions returns the options of the committed page, but for its clock.
func DefaultOptions() Options {
	return Options{Engines: 1000, Load: 0.8, Length: 10 * time.Minute, Thought: 300, Seed: 1, Plays: Plays,
		Progress: func(int) {}}
}

// Validate judges the options.
func (o *Options) Validate() error {
	var errs []error
	if o.Engines < few || o.Engines > most {
		errs = append(errs, fmt.Errorf("%d engines, want %d to %d", o.Engines, few, most))
	}
	if !(o.Load > 0 && o.Load <= 2) {
		errs = append(errs, fmt.Errorf("a load of %v, want above 0 and at most 2", o.Load))
	}
	if o.Length < parts*time.Second || o.Length > time.Hour {
		errs = append(errs, fmt.Errorf("%v to play, want %v to an hour", o.Length, parts*time.Second))
	}
	if o.Thought < 0 || o.Thought > 4000 {
		errs = append(errs, fmt.Errorf("%d tokens of reasoning, want 0 to 4000", o.Thought))
	}
	for _, play := range o.Plays {
		if n, ok := hubs(play); ok && n > o.Engines {
			errs = append(errs, fmt.Errorf("%s for %d engines", play, o.Engines))
		}
	}
	return errors.Join(errs...)
}

// hubs is the number of hubs of a play; false: it is a rule.
func hubs(play string) (n int, ok bool) {
	number, _, ok := strings.Cut(play, "-hub")
	n, err := strconv.Atoi(number)
	return n, ok && err == nil
}

const (
	slots = 4       // that an engine has
	few   = 8       // engines, whose capacity is soon known
	most  = 1024    // that a hub has as it is delivered
	trace = "mtrag" // what is asked
)

// fleet is the fleet mixed, as often as it takes.
func fleet(engines int) (f virtual.Fleet, err error) {
	mixed, err := virtual.FleetNamed("mixed")
	if err != nil {
		return f, err
	}
	f.Name, f.About = mixed.Name, mixed.About
	for i := range engines {
		e := mixed.Engines[i%len(mixed.Engines)]
		e.Name, e.Slots = fmt.Sprintf("%s-%d", e.Name, i/len(mixed.Engines)+1), slots
		f.Engines = append(f.Engines, e)
	}
	return f, nil
}

// setting makes the world. As many dialogues are under way when it begins as the engines then run at that
// load.
func (o *Options) setting() (s virtual.Setting, err error) {
	w := virtual.World{Terms: virtual.Tempers, Seed: o.Seed, Length: o.Length, Thought: o.Thought}
	if w.Trace, err = virtual.TraceNamed(trace); err != nil {
		return s, err
	}
	if w.Fleet, err = fleet(few); err != nil {
		return s, err
	}
	each, err := w.Capacity()
	if err != nil {
		return s, err
	}
	w.Rate = o.Load * each * float64(o.Engines) / few
	if w.Fleet, err = fleet(o.Engines); err != nil {
		return s, err
	}
	s, err = w.Setting()
	s.Already = int(o.Load * float64(slots*o.Engines))
	return s, err
}

// Play plays what is asked for; where there is a clock, one after the other.
func Play(ctx context.Context, o Options) (*Results, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	s, err := o.setting()
	if err != nil {
		return nil, err
	}
	side := 0
	if o.Clock != nil {
		side = 1
	}
	rows, err := runs.Each(ctx, len(o.Plays), side, o.Progress, func(i int) (Row, error) {
		row, err := o.play(s, o.Plays[i])
		if err != nil {
			err = fmt.Errorf("%s: %w", o.Plays[i], err)
		}
		return row, err
	})
	w := World{o.Engines, o.Load, o.Length, o.Thought, o.Seed, short(s.Rate)}
	return &Results{World: w, Rows: rows}, err
}
