package policy

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// OffFor is how long a policy stays off after a panic, or after asking for more than there was room for.
const OffFor = 60 * time.Second

// Guard runs one policy for its host: what it says is checked and counted, and if it panics or asks for more
// than there is room for, it is off for [OffFor]. The zero Guard has no policy and does nothing.
type Guard struct {
	name   string
	policy Policy
	off    time.Time // until then
	fault  error     // why
	fresh  bool      // nobody has asked for it yet
	counts Counts
	keep   []Effect
}

// Counts counts a policy's calls and faults since its start.
type Counts struct {
	Observed int64 // events
	Scored   int64 // items of which it had an opinion
	Wanted   int64 // effects that it asked for, within its room
	Panics   int64
	Overruns int64
}

// NewGuard guards a policy under its name.
func NewGuard(name string, p Policy) Guard { return Guard{name: name, policy: p} }

// Name is the policy's; "" without one.
func (g *Guard) Name() string { return g.name }

// On reports whether there is a policy, and it is not off.
func (g *Guard) On(now time.Time) bool { return g.policy != nil && !now.Before(g.off) }

// Off says until when the policy is off and why; nil: it is not.
func (g *Guard) Off(now time.Time) (until time.Time, why error) {
	if g.policy == nil || !now.Before(g.off) {
		return time.Time{}, nil
	}
	return g.off, g.fault
}

// Fault returns why the policy was turned off, once for each time; nil if it was not.
func (g *Guard) Fault() error {
	if !g.fresh {
		return nil
	}
	g.fresh = false
	return g.fault
}

// State describes the policy of a hook: its counts, and whether it is off.
type State struct {
	Hook, Policy string
	Counts
	Off time.Time // until then; zero: it is on
	Why string    // it is off
}

// State returns the state of the policy, for the hook of that name.
func (g *Guard) State(hook string, now time.Time) State {
	s := State{Hook: hook, Policy: g.name, Counts: g.counts}
	if until, why := g.Off(now); why != nil {
		s.Off, s.Why = until, why.Error()
	}
	return s
}

// Known are the policies that there are for a hook, by name.
type Known map[string]func() Policy

// Validate judges the name of a hook's policy; "" is none.
func (k Known) Validate(hook, name string) error {
	if name == "" || k[name] != nil {
		return nil
	}
	var all []string
	for name := range k {
		all = append(all, fmt.Sprintf("%q", name))
	}
	slices.Sort(all)
	return fmt.Errorf("%s: there is no policy %q here, only %s", hook, name,
		strings.Join(append(all, `"", which is none`), ", "))
}

// turnOff ends a policy for a while.
func (g *Guard) turnOff(now time.Time, format string, args ...any) {
	g.off, g.fresh = now.Add(OffFor), true
	g.fault = fmt.Errorf("policy %s is off until %s: %s", g.name, g.off.UTC().Format(time.RFC3339),
		fmt.Sprintf(format, args...))
}

// Call runs a method of the policy that its host knows, called what, where it is on. It reports whether the
// method came back. What it panics with is not passed on: it may hold anything.
func (g *Guard) Call(now time.Time, what string, f func()) bool {
	if !g.On(now) {
		return false
	}
	g.call(now, what, f)
	return g.On(now)
}

func (g *Guard) call(now time.Time, what string, f func()) {
	defer func() {
		if r := recover(); r != nil {
			g.counts.Panics++
			g.turnOff(now, "it panicked in %s (%T)", what, r)
		}
	}()
	f()
}

// Observe passes an event on.
func (g *Guard) Observe(e Event) {
	if !g.On(e.At) {
		return
	}
	g.counts.Observed++
	g.call(e.At, "Observe", func() { g.policy.Observe(e) })
}

// Score writes the policy's score of each item in order: 0 for no opinion, Never or Hold where that may be.
func (g *Guard) Score(now time.Time, items []Item, scores []float64) {
	clear(scores)
	if !g.On(now) || len(items) == 0 {
		return
	}
	g.call(now, "Score", func() {
		for i := range items {
			if s := g.policy.Score(now, items[i]); s == Never || s == Hold || s > 0 && !math.IsInf(s, 1) {
				scores[i] = s
				g.counts.Scored++
			}
		}
	})
	if !g.On(now) {
		clear(scores)
	}
}

// Act returns the effects that the policy wants. If it asks for more than there is room for, there are none,
// and it is off. The result is valid until the next call.
func (g *Guard) Act(now time.Time, r Room) []Effect {
	if !g.On(now) || r.Effects <= 0 {
		return nil
	}
	if r.Work == nil {
		r.Work = NewWork(0)
	}
	all := g.keep[:0]
	g.call(now, "Act", func() { all = g.policy.Act(now, r, all) })
	if !g.On(now) {
		return nil
	}
	g.keep = all
	switch tokens, bad := r.judge(all); {
	case bad != "":
		g.counts.Overruns++
		g.turnOff(now, "%s", bad)
	case len(all) > r.Effects:
		g.counts.Overruns++
		g.turnOff(now, "it asked for %d effects, and there is room for %d", len(all), r.Effects)
	case tokens > r.Tokens:
		g.counts.Overruns++
		g.turnOff(now, "its effects have %d tokens, and there is room for %d", tokens, r.Tokens)
	case r.Work.overrun():
		g.counts.Overruns++
		g.turnOff(now, "it went on looking after its steps were used up")
	default:
		g.counts.Wanted += int64(len(all))
		return all
	}
	return nil
}

// judge says how many tokens effects have, and what is none.
func (r Room) judge(all []Effect) (tokens int, bad string) {
	for _, e := range all {
		if e.Kind < 1 || e.Kind >= effectKinds {
			return 0, fmt.Sprintf("it asked for an effect of kind %d, and there is none", e.Kind)
		}
		if e.Tokens < 0 || e.Tokens > r.Tokens-tokens {
			return r.Tokens + 1, ""
		}
		tokens += e.Tokens
	}
	return tokens, ""
}
