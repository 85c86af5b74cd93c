package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"souk/bus"
	"souk/hub"
	"souk/integration/fleet"
	"souk/market"
)

// everyPolicy has a fleet run every runtime policy that there is: in its first domain those that place tasks
// fairly and learn who comes back, in the second those that place by prompts and answers and compute ahead,
// and in both seats, touches and shadows, which the hubs' own clients pay, tolls that follow the regime, and
// patterns that are looked for in answers.
func everyPolicy(p *fleet.Plan) {
	p.Hub = `  seats: {sessions: true, touches: true}
  quality: {shadow: 0.02}
  regimes: {adapt: true}
  learn_tiers: true
`
	p.HubOf = map[string]string{p.Domains[0]: "  policies: {place: fair, keep: kvcache}\n",
		p.Domains[1]: "  policies: {place: pd, keep: ahead}\n"}
	p.Agentd = `  policies: {guard: patterns}
  patterns:
    - {name: cut, pattern: '(?i)market [a-z]{1,12}', action: cut}
    - {name: flag, pattern: '(?i)the', action: flag}
`
	p.AgentOf = func(n int) string {
		split := ""
		if n > p.Agents/2 {
			split = bus.Split
		}
		return fmt.Sprintf("      touches: true\n      features: [%s]\n", split)
	}
	p.Vanished = map[string]bool{}
	for _, d := range p.Domains {
		probe := hub.Config{Domain: d}.Prober()
		p.Clients[probe], p.Vanished[probe] = 100*market.Credit, true
	}
}

// hint has a client say what it does next: not always what it then does, and of sessions that are not its
// own.
func hint(t *bus.Task, random *rand.Rand) {
	roles := []string{"planner", "reader", "writer", "critic"}
	t.Role, t.Next = roles[random.IntN(4)], roles[random.IntN(4)]
	t.BackMS = random.Int64N(10_000)
	t.Parent = fmt.Sprintf("s-%d", random.IntN(500))
	t.SessionEnd = random.IntN(8) == 0
}

// policies notes what policies did. One that is off is an error.
func (r *Report) policies(ctx context.Context, f *fleet.Fleet, o Options) error {
	if !o.Policies {
		return nil
	}
	r.Effects = map[string]int64{}
	var errs []error
	for _, p := range f.Parts() {
		if !strings.HasPrefix(p.Name, "hub-") {
			continue
		}
		var s hub.Stats
		if err := p.Stats(ctx, &s); err != nil {
			errs = append(errs, err)
			continue
		}
		r.Effects["touches"] += s.Touches
		r.Effects["moved for a late first token"] += s.Hedged
		for _, x := range s.Policies {
			r.Effects[x.Policy+" scored"] += x.Scored
			r.Effects[x.Policy+" wanted"] += x.Wanted
			if !x.Off.IsZero() {
				errs = append(errs, fmt.Errorf("%s: policy %s is off: %s", p.Name, x.Policy, x.Why))
			}
		}
	}
	return errors.Join(errs...)
}
