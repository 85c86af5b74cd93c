package policy

import (
	"fmt"
	"time"
)

// Hook is a place where a host asks a policy. Hooks count from 0.
type Hook interface {
	~int
	String() string
}

// Chosen are the names of the policies for a host's hooks, as its configuration has them, in the order of the
// hooks; "" is none.
type Chosen[H Hook] []*string

// Faults says which names are not known. known has those of each hook.
func (c Chosen[H]) Faults(known []Known) (errs []error) {
	for i, name := range c {
		if err := known[i].Validate(H(i).String(), *name); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// Make makes the policies that are named, which are known.
func (c Chosen[H]) Make(known []Known, set func(hook H, name string, p Policy)) {
	for i, name := range c {
		if *name != "" {
			set(H(i), *name, known[i][*name]())
		}
	}
}

// Hosted are the policies of a host, one for each of its hooks at most. The zero Hosted has none.
type Hosted[H Hook] struct{ guards []Guard }

// none stands for hooks without a policy.
var none Guard

// Put gives a hook its policy.
func (h *Hosted[H]) Put(hook H, name string, p Policy) {
	for len(h.guards) <= int(hook) {
		h.guards = append(h.guards, Guard{})
	}
	h.guards[hook] = NewGuard(name, p)
}

// Of guards the policy of a hook; without one it does nothing.
func (h *Hosted[H]) Of(hook H) *Guard {
	if int(hook) >= len(h.guards) {
		return &none
	}
	return &h.guards[hook]
}

// Any reports whether there is any policy. Without one a host need not be told of anything.
func (h *Hosted[H]) Any() bool { return len(h.guards) > 0 }

// Observe passes an event on to all.
func (h *Hosted[H]) Observe(e Event) {
	for i := range h.guards {
		h.guards[i].Observe(e)
	}
}

// Faults returns why policies were turned off, each once.
func (h *Hosted[H]) Faults() (all []error) {
	for i := range h.guards {
		if err := h.guards[i].Fault(); err != nil {
			all = append(all, fmt.Errorf("%s: %w", H(i), err))
		}
	}
	return all
}

// States returns the state of every policy.
func (h *Hosted[H]) States(now time.Time) (all []State) {
	for i := range h.guards {
		if g := &h.guards[i]; g.Name() != "" {
			all = append(all, g.State(H(i).String(), now))
		}
	}
	return all
}
