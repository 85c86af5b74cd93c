package vllmsim

import (
	"fmt"
	"slices"
)

// Fault is something that goes wrong with a request.
type Fault struct {
	Kind FaultKind `json:"kind"`
	// output tokens that still come; for Stall, Reset, Broken and Abort
	After int `json:"after,omitempty"`
	Code  int `json:"code,omitempty"` // for Status: 500 to 599, default 500
	// requests it happens to, in order of arrival; 0 is all until it is cleared
	Times int `json:"times,omitempty"`
}

// FaultKind names a way to fail.
type FaultKind string

const (
	// Hang accepts the request and never says a word, not even a status line.
	Hang FaultKind = "hang"
	// Stall sends After tokens and then nothing, with the connection open, until the client leaves.
	Stall FaultKind = "stall"
	// Reset sends After tokens and then breaks the connection: the stream ends in the middle, as after kill
	// -9.
	Reset FaultKind = "reset"
	// Status refuses the request with Code.
	Status FaultKind = "status"
	// Broken sends After tokens, then an error event and [DONE] on a 200, as when the engine dies under the
	// API server.
	Broken FaultKind = "broken"
	// Abort sends After tokens and then ends cleanly with finish_reason "abort", as after SIGTERM.
	Abort FaultKind = "abort"
)

var faultKinds = []FaultKind{Hang, Stall, Reset, Status, Broken, Abort}

// Validate says what is wrong with a fault.
func (f Fault) Validate() error {
	switch {
	case !slices.Contains(faultKinds, f.Kind):
		return fmt.Errorf("fault kind %q is none of %v", f.Kind, faultKinds)
	case f.After < 0:
		return fmt.Errorf("fault after is %d; it must not be negative", f.After)
	case f.Times < 0:
		return fmt.Errorf("fault times is %d; it must not be negative", f.Times)
	case f.Kind == Status && f.Code != 0 && (f.Code < 500 || f.Code > 599):
		return fmt.Errorf("fault code is %d; it must be 500 to 599", f.Code)
	}
	return nil
}

// faults is the queue of what goes wrong next.
type faults struct{ list []Fault }

// take is the fault of the next request.
func (f *faults) take() Fault {
	if len(f.list) == 0 {
		return Fault{}
	}
	next := f.list[0]
	if next.Times > 0 {
		if f.list[0].Times--; f.list[0].Times == 0 {
			f.list = f.list[1:]
		}
	}
	return next
}
