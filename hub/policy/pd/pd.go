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

	"souk/bus/policy"
)

// Params say where the line is.
type Params struct {
	// tokens of a prompt that are not cached, for each of an answer, from which on a role is of prompts
	Ratio float64
	// and as many of them at least: fewer make nobody wait
	Tokens float64
}

// Default is from measurement: see the page of policies.
func Default() Params { return Params{Ratio: 8, Tokens: 512} }

// PD is the policy.
type PD struct {
	Params
	roles policy.Kept[role]
}

// role is what a role needed of late, in 24 bytes.
type role struct {
	uncached, output float64 // tokens, means that fade
	seen             uint32
	prompts          bool // it is of prompts; once it is, it takes clearly less not to be
}

const (
	mostRoles = 1 << 14
	enough    = 4    // turns, before anything is said of a role
	fade      = 0.05 // of what was, for each turn
	clearly   = 0.7  // of the line, below which a role is of prompts no more
)

// New knows no roles.
func New(p Params) *PD { return &PD{Params: p, roles: policy.NewKept[role](mostRoles)} }

// Observe implements policy.Policy.
func (p *PD) Observe(e policy.Event) {
	if e.Kind != policy.Served || e.Role == 0 || e.Usage.Prompt <= 0 || e.Usage.Output <= 0 ||
		e.Usage.Cached < 0 || e.Usage.Cached > e.Usage.Prompt {
		return
	}
	r, made := p.roles.Add(e.Client, e.Role)
	u, o := float64(e.Usage.Prompt-e.Usage.Cached), float64(e.Usage.Output)
	if made {
		r.uncached, r.output = u, o
	}
	r.uncached += float64(fade * (u - r.uncached))
	r.output += float64(fade * (o - r.output))
	r.seen = min(r.seen+1, 1<<30)
	line := 1.0
	if r.prompts {
		line = clearly
	}
	r.prompts = r.uncached >= line*p.Tokens && r.uncached >= float64(line*p.Ratio)*r.output
}

// Score implements policy.Policy: of a pair of a role and an engine of the other kind it says never.
func (p *PD) Score(_ time.Time, i policy.Item) float64 {
	r := p.roles.Get(i.Role, false)
	if i.Kind != policy.Pair || r == nil || r.seen < enough || r.prompts == i.Split {
		return 0
	}
	return policy.Never
}

// Predict implements policy.Policy: nothing.
func (p *PD) Predict(_ time.Time, _ time.Duration, to []policy.Forecast) []policy.Forecast { return to }

// Act implements policy.Policy: nothing.
func (p *PD) Act(_ time.Time, _ policy.Room, to []policy.Effect) []policy.Effect { return to }
