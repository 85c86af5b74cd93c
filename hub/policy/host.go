// Package policy hosts runtime policies in a hub: it tells them what becomes of sessions, asks them for bits
// and tolls before any bid is read, and takes what they want done, within bounds.
//
// What a policy is, bus/policy says. Here are the hooks that a hub has for them, what is remembered of
// sessions so that events say more than messages do, and how far a client's word about its pauses is
// believed.
package policy

import (
	"errors"
	"slices"
	"time"

	"souk/bus/policy"
	"souk/market"
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

// Without turns a policy off wherever it is named, and reports whether it was anywhere.
func (p *Params) Without(name string) (was bool) { return p.names().Without(name) }

// Known are the policies that there are for each hook.
type Known [hooks]policy.Known

func (p Params) Validate(known *Known) error { return errors.Join(p.names().Faults(known[:])...) }

// Host runs the policies of a hub. The zero Host has none and does nothing.
type Host struct {
	policy.Hosted[Hook]
	memory memory

	scores []float64
}

// New is a host with the policies of p, which are known. It remembers so many sessions.
func New(p Params, known *Known, sessions int) *Host {
	h := &Host{}
	p.names().Make(known[:], h.Put)
	if h.Any() {
		h.memory = newMemory(sessions)
	}
	return h
}

// Set gives a hook its policy.
func (h *Host) Set(hook Hook, name string, p policy.Policy) {
	if !h.Any() {
		h.memory = newMemory(1 << 16)
	}
	h.Put(hook, name, p)
}

// Verdict is a policy's judgement of a task on an agent.
type Verdict struct {
	Never bool    // or the task stays out of the round
	Lost  float64 // engine seconds, more than are lost on the agent that is best for all; 0: no opinion
}

// Pairs asks what is lost if a task does not go to each of some agents: those that are free, of which it
// writes what is said, and after them all others that it might wait for. A task that may go to none of them
// may go to any; one that is held may go to none.
func (h *Host) Pairs(now time.Time, items []policy.Item, to []Verdict) {
	clear(to)
	if len(items) < len(to) {
		panic("policy: fewer items than verdicts")
	}
	h.scores = slices.Grow(h.scores[:0], len(items))[:len(items)]
	h.Of(Place).Score(now, items, h.scores)
	best, left := 0.0, 0
	for _, s := range h.scores {
		if s == policy.Hold {
			for i := range to {
				to[i].Never = true
			}
			return
		}
		if s != policy.Never {
			best, left = max(best, s), left+1
		}
	}
	for i, s := range h.scores[:len(to)] {
		switch {
		case s != policy.Never:
			to[i].Lost = best - s
		case left > 0:
			to[i].Never = true
		}
	}
}

// MostLost bounds the engine seconds that one task is charged for.
const MostLost = 60.0

// Toll is the charge for engine seconds that others lose, at the price of a second: at most 0.
func Toll(lost float64, second market.Credits) market.Credits {
	if !(lost > 0) || second <= 0 {
		return 0
	}
	return -market.Credits(min(float64(min(lost, MostLost)*float64(second)), float64(market.MaxWorth)))
}

// Room for what policies want done at one tick of a hub.
const (
	mostEffects = 64
	mostTokens  = 1 << 20
	mostSteps   = 1 << 16
)

// Act returns the effects that the policy of [Keep] wants now.
func (h *Host) Act(now time.Time) []policy.Effect {
	return h.Of(Keep).Act(now, policy.Room{Effects: mostEffects, Tokens: mostTokens,
		Work: policy.NewWork(mostSteps)})
}
