package regime

import "fmt"

// State says how full a domain is.
type State uint8

// A domain goes from one state to the next, never past one.
const (
	Below      State = iota // the knee: tasks find slots and computing time as they come
	Transition              // first tokens take several times as long as on idle agents
	Saturated               // more comes than is served
)

func (s State) String() string { return [...]string{"below", "transition", "saturated"}[s] }

// Control says what a regime does.
type Control struct {
	// has the tolls of later rounds follow the regime; else it is said to whoever asks, and does nothing
	Adapt      bool   `yaml:"adapt"`
	Transition Params `yaml:"transition"`
	Saturated  Params `yaml:"saturated"`
}

// DefaultControl watches and changes nothing. The parameters are those of the paper (Table 2), whose last row
// its authors never saw at work.
func DefaultControl() Control {
	return Control{Transition: Params{Temperature: 0.7, Overlap: 1},
		Saturated: Params{Temperature: 0.8, Overlap: 0.1}}
}

// Validate judges a control.
func (c Control) Validate() error {
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
