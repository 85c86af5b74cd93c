package local

import (
	"errors"
	"fmt"
	"time"

	"souk/agentd"
	"souk/bus"
	"souk/cmd/choices"
	"souk/hub"
	"souk/ledger"
	"souk/ledger/treasury"
	"souk/market"
)

// Rules are the hubs' settings. Zero values take the hub's own defaults.
type Rules struct {
	MaxBatch int            `yaml:"max_batch"`
	MaxWait  time.Duration  `yaml:"max_wait"`
	Eager    *bool          `yaml:"eager"`
	Fee      market.Credits `yaml:"fee"` // flat, of every award

	Pricing    string                    `yaml:"pricing"` // vcg, tariff or posted
	Settle     string                    `yaml:"settle"`  // metered or quoted
	Clarke     string                    `yaml:"clarke"`  // client or task
	SolveLimit time.Duration             `yaml:"solve_limit"`
	Tariffs    map[string]market.Credits `yaml:"tariffs"`  // under posted, by class
	Ceiling    market.Credits            `yaml:"ceiling"`  // under tariff
	Ceilings   map[string]market.Credits `yaml:"ceilings"` // by class
	Judges     []string                  `yaml:"judges"`   // clients whose gold is believed
}

// apply sets what the rules say of a hub.
func (r Rules) apply(h *hub.Config) {
	if r.MaxBatch > 0 {
		h.Batch.MaxBatch = r.MaxBatch
	}
	if r.MaxWait > 0 {
		h.Batch.MaxWait = r.MaxWait
	}
	if r.Eager != nil {
		h.Batch.Eager = *r.Eager
	}
	if r.Fee > 0 {
		h.Fee = r.Fee
	}
	if r.SolveLimit != 0 {
		h.SolveLimit = r.SolveLimit
	}
	if r.Judges != nil {
		h.Quality.Judges = r.Judges
	}
	m := bus.MarketConfig{Pricing: r.Pricing, Settle: r.Settle, Clarke: r.Clarke, Tariffs: r.Tariffs,
		Ceilings: r.Ceilings}
	if r.Ceiling != 0 {
		m.Ceiling = &r.Ceiling
	}
	h.Rule = h.Rule.Overlay(&m)
}

// Rule is how a domain's rounds are priced and settled; c is valid.
func (c Config) Rule(d Domain) hub.Rule {
	h, _ := c.hub(d)
	return h.Rule
}

// hub is one domain's hub as the market's file wants it.
func (c Config) hub(d Domain) (hub.Config, error) {
	h := choices.Hub()
	h.Domain, h.Hub, h.Journal, h.Labels, h.General = d.Name, d.Name+"-1", d.Name, d.Labels, d.General
	c.Market.apply(&h)
	if err := c.Hub.overHub(&h); err != nil {
		return h, fmt.Errorf("hub: %w", err)
	}
	d.Market.apply(&h)
	if err := d.Hub.overHub(&h); err != nil {
		return h, fmt.Errorf("domain %s: hub: %w", d.Name, err)
	}
	return h, nil
}

// treasury is the treasury as the market's file wants it; the domains are valid.
func (c Config) treasury() (treasury.Config, error) {
	t := treasury.Default()
	if err := c.Treasury.over(&t); err != nil {
		return t, fmt.Errorf("treasury: %w", err)
	}
	if t.Journal != ledger.Treasury || t.Probers != nil {
		return t, errors.New("treasury: journal and probers are those of the market: leave them out")
	}
	t.Probers = map[string]string{}
	for _, d := range c.Domains {
		h, err := c.hub(d)
		if err != nil {
			return t, err
		}
		t.Probers[d.Name] = h.Prober()
	}
	return t, t.Validate()
}

// node is the node of all agents as the market's file wants it, without them.
func (c Config) node() (agentd.Config, error) {
	n := agentd.Default()
	if err := c.Agentd.over(&n); err != nil {
		return n, fmt.Errorf("agentd: %w", err)
	}
	if len(n.Agents) > 0 || n.Node != "" {
		return n, errors.New("agentd: node and agents stand beside this block: leave them out of it")
	}
	return n, nil
}
