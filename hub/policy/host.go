// Package policy hosts runtime policies in a hub: it tells them what becomes of sessions, asks them for bits
// and tolls before any bid is read, and takes what they want done, within bounds.
//
// What a policy is, bus/policy says. Here are the hooks that a hub has for them, and what is remembered of
// sessions so that events say more than messages do.
package policy

import (
	"errors"

	"souk/bus/policy"
)

// Hook is a place where a hub asks a policy.
type Hook int

// The hooks of a hub. Each has one policy, or none.
const (
	Place Hook = iota // which agents a task may go to, and what it is charged there: Score of pairs
	Keep              // what agents use again or compute ahead: Act
	hooks
)

func (h Hook) String() string { return [...]string{"place", "keep"}[h] }

// Params name the policy of each hook; "" is none.
type Params struct {
	Place string `yaml:"place"`
	Keep  string `yaml:"keep"`
}

func (p *Params) names() policy.Chosen[Hook] { return policy.Chosen[Hook]{&p.Place, &p.Keep} }

// Known are the policies that there are for each hook.
type Known [hooks]policy.Known

func (p Params) Validate(known *Known) error { return errors.Join(p.names().Faults(known[:])...) }
