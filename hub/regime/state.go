package regime

import (
	"fmt"
	"strings"
)

// State is how full a domain is.
type State uint8

// A domain goes from one state to the next, never past one.
const (
	Below      State = iota // the knee: tasks find slots and computing time as they come
	Transition              // first tokens take several times as long as on idle agents
	Saturated               // more comes than is served
)

func (s State) String() string { return [...]string{"below", "transition", "saturated"}[s] }

// Signal is what tells the states apart.
type Signal uint8

// Every signal is watched; one of them acts.
const (
	Slowdown Signal = iota // time to first tokens, by that quoted on idle agents
	TTFT                   // time to first tokens, by that of the quietest tenth of an hour
	// slot prices by the mean cost of a task. It alone follows bids, those of earlier rounds: who lies about
	// what tasks are worth moves it.
	Price
	Backlog // seconds that a task which comes now waits at the rate at which tasks end
	signals
)

var signalNames = [signals]string{"slowdown", "ttft", "price", "backlog"}

func (s Signal) String() string { return signalNames[s] }

// signal finds one by its name.
func signal(name string) (Signal, bool) {
	for i, n := range signalNames {
		if n == name {
			return Signal(i), true
		}
	}
	return 0, false
}

// Control says which signal acts, and what it does.
type Control struct {
	Signal string `yaml:"signal"`
	// has the tolls of later rounds follow the regime; else it is said to whoever asks, and does nothing
	Adapt      bool   `yaml:"adapt"`
	Transition Params `yaml:"transition"`
	Saturated  Params `yaml:"saturated"`
}

// DefaultControl watches and changes nothing. The parameters are those of the paper (Table 2), whose last row
// its authors never saw at work.
func DefaultControl() Control {
	return Control{Signal: Slowdown.String(), Transition: Params{Temperature: 0.7, Overlap: 1},
		Saturated: Params{Temperature: 0.8, Overlap: 0.1}}
}

// Validate judges a control.
func (c Control) Validate() error {
	if _, ok := signal(c.Signal); !ok {
		return fmt.Errorf("signal: %q is none of %s", c.Signal, strings.Join(signalNames[:], ", "))
	}
	for s, p := range map[State]Params{Transition: c.Transition, Saturated: c.Saturated} {
		if err := p.Validate(); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	return nil
}

// Params returns the parameters of a state, given those that hold below the knee.
func (c Control) Params(s State, below Params) Params {
	switch {
	case !c.Adapt || s == Below:
		return below
	case s == Transition:
		return c.Transition
	}
	return c.Saturated
}
