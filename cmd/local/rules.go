package local

import (
	"errors"
	"fmt"

	"souk/agentd"
	"souk/bus/gateway"
	"souk/cmd/choices"
	"souk/hub"
	"souk/hub/tariff"
	"souk/ledger"
	"souk/ledger/treasury"
)

// Rule returns how a domain's rounds are priced and settled; c is valid.
func (c Config) Rule(d Domain) tariff.Rule {
	h, _ := c.hub(d)
	return h.Rule
}

// hub returns one domain's hub as the market's file configures it.
func (c Config) hub(d Domain) (hub.Config, error) {
	h := choices.Hub()
	h.Domain, h.Hub, h.Journal, h.Labels, h.General = d.Name, d.Name+"-1", d.Name, d.Labels, d.General
	if err := c.Hub.overHub(&h); err != nil {
		return h, fmt.Errorf("hub: %w", err)
	}
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
	if t.Journal != ledger.Treasury {
		return t, errors.New("treasury: journal is that of the market: leave it out")
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

// gateway is the gateway as the market's file wants it.
func (c Config) gateway() (gateway.Config, error) {
	g := gateway.Default()
	g.ID, g.Drain = "gateway", StopWithin/HTTPShare
	was := g
	if err := c.Gateway.over(&g); err != nil {
		return g, fmt.Errorf("gateway: %w", err)
	}
	if g.ID != was.ID || g.Drain != was.Drain {
		return g, errors.New("gateway: id and drain are those of the market: leave them out")
	}
	if err := g.Validate(); err != nil {
		return g, fmt.Errorf("gateway: %w", err)
	}
	return g, nil
}
