// Package policy hosts runtime policies at an agent: it tells them what becomes of tasks there, has them look
// at answers while these are streamed, and takes what they want done, within bounds.
//
// What a policy is, bus/policy says. Events hold no text; who looks at an answer sees it and keeps no more of
// it than may be the beginning of what is looked for.
package policy

import (
	"time"

	"souk/agentd/policy/guard"
	"souk/bus/policy"
)

// Hook is a place where an agent asks a policy.
type Hook int

// The hooks of an agent. Each has one policy, or none.
const (
	Guard   Hook = iota // what of an answer is passed on: a Looker
	Adapter             // which adapter the engine is to have ready: Act
	hooks
)

func (h Hook) String() string { return [...]string{"guard", "adapter"}[h] }

// Params name the policy of each hook; "" is none.
type Params struct {
	Guard   string `yaml:"guard"`
	Adapter string `yaml:"adapter"`
}

func (p *Params) names() policy.Chosen[Hook] { return policy.Chosen[Hook]{&p.Guard, &p.Adapter} }

// Known are the policies that there are for each hook.
type Known [hooks]policy.Known

// Faults says which names are not known.
func (p Params) Faults(known *Known) []error { return p.names().Faults(known[:]) }

// Looker is a policy of [Guard]: it looks at answers.
type Looker interface {
	policy.Policy
	Begin(domain string) *guard.Look // nil: there is nothing to look for
}

// Host runs the policies of an agent. The zero Host has none and does nothing.
type Host struct {
	policy.Hosted[Hook]
	looker Looker
	acted  time.Time
	news   bool // something has happened since
}

// New is a host with the policies of p, which are known.
func New(p Params, known *Known) *Host {
	h := &Host{}
	p.names().Make(known[:], h.Set)
	return h
}

// Set gives a hook its policy; that of [Guard] is a [Looker].
func (h *Host) Set(hook Hook, name string, p policy.Policy) {
	h.Put(hook, name, p)
	if hook == Guard {
		h.looker = p.(Looker)
	}
}

// Observe tells all policies.
func (h *Host) Observe(e policy.Event) {
	h.news = true
	h.Hosted.Observe(e)
}

// Overhear tells the policy of [Adapter] what another agent of the engine has heard.
func (h *Host) Overhear(e policy.Event) {
	h.news = true
	h.Of(Adapter).Observe(e)
}

// Room for what a policy wants done at once, and how often it is asked.
const (
	mostEffects = 16
	mostTokens  = 1 << 16
	mostSteps   = 1 << 12
	actEvery    = 50 * time.Millisecond
	actAnyway   = time.Second // where nothing happens
)

// Wake returns when the policy of [Adapter] is to be asked again; zero if there is none.
func (h *Host) Wake() time.Time {
	switch {
	case h.Of(Adapter).Name() == "":
		return time.Time{}
	case h.news:
		return h.acted.Add(actEvery)
	}
	return h.acted.Add(actAnyway)
}

// Act returns the effects that the policy of [Adapter] wants now. Before [Host.Wake] it returns nothing.
func (h *Host) Act(now time.Time) []policy.Effect {
	wake := h.Wake()
	if wake.IsZero() || now.Before(wake) && !now.Before(h.acted) {
		return nil
	}
	h.acted, h.news = now, false
	return h.Of(Adapter).Act(now, policy.Room{Effects: mostEffects, Tokens: mostTokens,
		Work: policy.NewWork(mostSteps)})
}

// Watch looks at one answer, for the policy of [Guard].
type Watch struct {
	guard *policy.Guard
	look  *guard.Look // nil: no more
}

// Watch begins to look at an answer of a domain; nil if there is nothing to look for.
func (h *Host) Watch(now time.Time, domain string) (w *Watch) {
	h.Of(Guard).Call(now, "Begin", func() {
		if look := h.looker.Begin(domain); look != nil {
			w = &Watch{h.Of(Guard), look}
		}
	})
	return w
}

// Add reads on, as [guard.Look.Add] does. An answer of which the policy has missed a piece, as it was off, is
// not looked at any more.
func (w *Watch) Add(now time.Time, of guard.Lane, text string) (held int, cut bool) {
	return w.read(now, "Add", func() (int, bool) { return w.look.Add(of, text) })
}

// End says that there is no more.
func (w *Watch) End(now time.Time, of guard.Lane) (held int, cut bool) {
	return w.read(now, "End", func() (int, bool) { return w.look.End(of) })
}

func (w *Watch) read(now time.Time, what string, read func() (int, bool)) (held int, cut bool) {
	if w.look == nil {
		return 0, false
	}
	if !w.guard.Call(now, what, func() { held, cut = read() }) {
		w.look = nil
		return 0, false
	}
	return held, cut
}

// Caught are the names of what was found.
func (w *Watch) Caught() []string {
	if w.look == nil {
		return nil
	}
	return w.look.Caught()
}
