// Package pd says which tasks go to engines that have their prompts computed elsewhere, where a hub has such
// and others: a runtime policy, by what the role of a task is known to need, and by no bid.
//
// An engine that does both makes everybody's tokens wait while it computes a prompt. So roles whose prompts
// are long for what they answer, as far as no cache has them, go to those where prompts are computed apart,
// and the others to the engines that then have few long prompts to compute. Who is new to a hub, and every
// role where there is one kind of engines alone, goes anywhere.
package pd

import (
	"time"

	"souk/bus/bounded"
	"souk/bus/policy"
)

// Where the line is, as was measured best: see the page of policies.
const (
	// tokens of a prompt that are not cached, for each of an answer, from which on a role is of prompts; and
	// as many of them at least: fewer make nobody wait
	ratio, tokens = 8.0, 512.0
	// a role whose first tokens come later than that on the mean goes anywhere, and so does a task that has
	// waited for as long: there are too few engines of the kind that it wants
	late = time.Second
)

// PD is the policy.
type PD struct {
	policy.Silent
	roles *bounded.Cache[policy.ID, policy.ID, role]
}

// role holds a role's recent need, in 16 bytes.
type role struct {
	uncached, output float32 // tokens, means that fade
	first            float32 // seconds to its first tokens, likewise
	seen             uint16
	prompts, late    bool // once it is, it takes clearly less not to be
}

const (
	mostRoles = 1 << 14
	enough    = 4    // turns, before anything is said of a role
	fade      = 0.05 // of what was, for each turn
	clearly   = 0.7  // of the line, below which a role is of prompts no more
)

// New knows no roles.
func New() *PD { return &PD{roles: bounded.New[policy.ID, policy.ID, role](mostRoles, 0)} }

// Observe implements policy.Policy.
func (p *PD) Observe(e policy.Event) {
	if e.Kind != policy.Served || e.Role == 0 || e.Usage.Prompt <= 0 || e.Usage.Output <= 0 ||
		e.Usage.Cached < 0 || e.Usage.Cached > e.Usage.Prompt {
		return
	}
	r, made := p.roles.Add(e.Client, e.Role)
	for _, x := range []struct {
		mean *float32
		now  float64
	}{{&r.uncached, float64(e.Usage.Prompt - e.Usage.Cached)}, {&r.output, float64(e.Usage.Output)},
		{&r.first, max(0, e.TTFT.Seconds())}} {
		if made {
			*x.mean = float32(x.now)
		}
		*x.mean = float32(float64(*x.mean) + float64(fade*(x.now-float64(*x.mean))))
	}
	r.seen = min(r.seen+1, 1<<15)
	line := func(was bool) float64 {
		if was {
			return clearly
		}
		return 1
	}
	u, at := float64(r.uncached), line(r.prompts)
	r.prompts = u >= at*tokens && u >= float64(at*ratio)*float64(r.output)
	r.late = float64(r.first) > line(r.late)*late.Seconds()
}

// Score implements policy.Policy: of a pair of a role and an engine of the other kind it says never.
func (p *PD) Score(_ time.Time, i policy.Item) float64 {
	r := p.roles.Peek(i.Role)
	if i.Kind != policy.Pair || r == nil || r.seen < enough || r.late || i.Age >= late ||
		r.prompts == i.Split {
		return 0
	}
	return policy.Never
}
