package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"souk/agentd"
	"souk/bus"
	"souk/bus/policy"
	"souk/hub"
	"souk/integration/lab/fleet"
	"souk/market"
)

// everyPolicy has a fleet run every runtime policy that there is: in its first domain those that place tasks
// fairly and learn who comes back, in the second those that place by prompts and answers and compute ahead,
// and in both tolls follow the regime.
// Engines serve two adapters beside their model, of which one is ready at a time, and in answers patterns are
// looked for.
func everyPolicy(p *fleet.Plan) {
	p.Hub = "  regimes: {adapt: true}\n"
	p.HubOf = map[string]string{p.Domains[0]: "  policies: {place: fair, keep: kvcache}\n",
		p.Domains[1]: "  policies: {place: pd, keep: ahead}\n"}
	p.Adapters = []string{"law", "tax"}
	p.Agentd = `  policies: {guard: patterns, adapter: next}
  patterns:
    - {name: cut, pattern: '(?i)market [a-z]{1,12}', action: cut}
    - {name: flag, pattern: '(?i)the', action: flag}
`
	p.AgentOf = func(n int) string {
		split := ""
		if n > p.Agents/2 {
			split = bus.Split
		}
		return fmt.Sprintf("      features: [%s]\n", split)
	}
	p.Vanished = map[string]bool{}
	for _, d := range p.Domains {
		probe := bus.ProberOf(d)
		p.Clients[probe], p.Vanished[probe] = 100*market.Credit, true
	}
}

// hint has a client say what it does next: not always what it then does, and of sessions that are not its
// own.
func hint(t *bus.Task, random *rand.Rand) {
	roles := []string{"planner", "reader", "writer", "critic"}
	k := random.IntN(4)
	t.Role, t.Next = roles[k], sessionOf(random)
	if random.IntN(4) == 0 {
		t.Next = roles[random.IntN(4)] // no session
	}
	if random.IntN(8) > 0 { // a role has a model of its own, nearly always
		t.Model = []string{fleet.Model, "law", "tax", fleet.Model}[k]
	}
	t.BackMS = random.Int64N(10_000)
	t.Parent = sessionOf(random)
	t.SessionEnd = random.IntN(8) == 0
}

// policies notes what policies did, of hubs and of agents. One that is off is an error.
func (r *Report) policies(ctx context.Context, f *fleet.Fleet, o Options) error {
	if !o.Policies {
		return nil
	}
	r.Effects = map[string]int64{}
	count := func(what string, n int64) {
		if n > 0 {
			r.Effects[what] += n
		}
	}
	var errs []error
	for _, p := range f.Parts() {
		var all []policy.State
		switch kind, _, _ := strings.Cut(p.Name, "-"); kind {
		case "hub":
			var s hub.Stats
			errs = append(errs, p.Stats(ctx, &s))
			count("moved for a late first token", s.Hedged)
			all = s.Policies
		case "agentd":
			var s agentd.Stats
			errs = append(errs, p.Stats(ctx, &s))
			for _, a := range s.Agents {
				all = append(all, a.Policies...)
				count("adapters loaded", a.Loads)
			}
		}
		for _, x := range all {
			count(x.Policy+" scored", x.Scored)
			count(x.Policy+" wanted", x.Wanted)
			if !x.Off.IsZero() {
				errs = append(errs, fmt.Errorf("%s: policy %s is off: %s", p.Name, x.Policy, x.Why))
			}
		}
	}
	return errors.Join(errs...)
}
