// Package regime tells how full a domain is: by how many times as long first tokens take as on idle agents.
package regime

// State says how full a domain is.
type State uint8

// A domain goes from one state to the next, never past one.
const (
	Below      State = iota // the knee: tasks find slots and computing time as they come
	Transition              // first tokens take several times as long as on idle agents
	Saturated               // more comes than is served
)

func (s State) String() string { return [...]string{"below", "transition", "saturated"}[s] }
