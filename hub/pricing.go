package hub

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"souk/bus"
	"souk/market"
)

// Rule says how a domain's rounds are priced and settled. An operator may change it while the hub runs.
type Rule struct {
	Pricing string `yaml:"pricing"` // market.PricingVCG, PricingTariff or PricingPosted
	Settle  string `yaml:"settle"`  // market.SettleMetered or market.SettleQuoted
	Clarke  string `yaml:"clarke"`  // market.ClarkeClient or market.ClarkeTask

	// under posted: what agents of a class are paid for a task beside its cost; 0 for a class that is not
	// named
	Tariffs map[string]market.Credits `yaml:"tariffs"`
	// under tariff: the highest ask for a task that counts, and the tariff where nobody lost
	Ceiling  market.Credits            `yaml:"ceiling"`
	Ceilings map[string]market.Credits `yaml:"ceilings"` // the same of classes that have one of their own
}

// Validate judges a rule and changes nothing. It names every field that is wrong.
func (r Rule) Validate() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, f := range []struct {
		name, v string
		known   []string
	}{
		{"pricing", r.Pricing, []string{market.PricingVCG, market.PricingTariff, market.PricingPosted}},
		{"settle", r.Settle, []string{market.SettleMetered, market.SettleQuoted}},
		{"clarke", r.Clarke, []string{market.ClarkeClient, market.ClarkeTask}},
	} {
		if !slices.Contains(f.known, f.v) {
			wrong("%s: %q is none of %s", f.name, f.v, strings.Join(f.known, ", "))
		}
	}
	if r.Pricing == market.PricingTariff && r.Ceiling <= 0 {
		wrong("ceiling: pricing %q needs one above 0, in credits for a task: higher asks do not count, and "+
			"where nobody lost it is the tariff", market.PricingTariff)
	}
	if r.Ceiling < 0 || r.Ceiling > market.MaxWorth {
		wrong("ceiling: %s is not from 0 to %s credits", r.Ceiling, market.MaxWorth)
	}
	for _, m := range []struct {
		name    string
		amounts map[string]market.Credits
		pricing string
	}{{"tariffs", r.Tariffs, market.PricingPosted}, {"ceilings", r.Ceilings, market.PricingTariff}} {
		if len(m.amounts) > 0 && r.Pricing != m.pricing {
			wrong("%s: they mean something under pricing %q alone, and pricing is %q",
				m.name, m.pricing, r.Pricing)
		}
		if len(m.amounts) > bus.MaxClasses {
			wrong("%s: %d classes, at most %d are taken", m.name, len(m.amounts), bus.MaxClasses)
		}
		for _, class := range slices.Sorted(maps.Keys(m.amounts)) {
			if a := m.amounts[class]; a < 0 || a > market.MaxWorth {
				wrong("%s.%s: %s is not from 0 to %s credits", m.name, class, a, market.MaxWorth)
			}
		}
	}
	return errors.Join(errs...)
}

func (r Rule) market() market.Rule {
	return market.Rule{Pricing: r.Pricing, Settle: r.Settle, Clarke: r.Clarke}
}

// Overlay is the rule with what a domain's entry in the registry says of it. Amounts by class are for one
// pricing: under another than the file's, the file's are left out.
func (r Rule) Overlay(m *bus.MarketConfig) Rule {
	for _, s := range []struct {
		to   *string
		from string
	}{{&r.Settle, m.Settle}, {&r.Clarke, m.Clarke}} {
		if s.from != "" {
			*s.to = s.from
		}
	}
	if m.Pricing != "" && m.Pricing != r.Pricing {
		r.Pricing, r.Tariffs, r.Ceilings = m.Pricing, nil, nil
	}
	if m.Tariffs != nil {
		r.Tariffs = m.Tariffs
	}
	if m.Ceiling != nil {
		r.Ceiling = *m.Ceiling
	}
	if m.Ceilings != nil {
		r.Ceilings = m.Ceilings
	}
	return r
}

// ceiling is R of a class.
func (r Rule) ceiling(class string) market.Credits {
	if c, ok := r.Ceilings[class]; ok {
		return c
	}
	return r.Ceiling
}

// tariffs gives every agent the tariff that it is paid, and says whether it sells: after a change of the
// rule, of the roster, or of an epoch.
func (n *Node) tariffs() {
	for _, a := range n.roster {
		n.tariff(a)
	}
}

func (n *Node) tariff(a *agent) {
	a.owner, a.class = a.reg.Seller()
	a.alike = n.classOf(a.model + "/" + a.class)
	a.tariff, a.sells, a.kind = 0, true, nil
	switch n.cfg.Pricing {
	case market.PricingPosted:
		a.tariff = n.cfg.Tariffs[a.class]
	case market.PricingTariff:
		_, t, ok := n.book.Epoch(a.class)
		if a.tariff = t.Amount; !ok {
			a.tariff = n.cfg.ceiling(a.class) // what it may come to
		}
		a.sells = slices.Contains(t.Winners, a.owner)
	}
}

// sellers returns who sells each of a round's agents, nil where there are no tariffs.
func (n *Node) sellers(agents []*agent) []market.Seller {
	if n.cfg.Pricing == market.PricingVCG || n.cfg.Pricing == market.PricingPosted &&
		len(n.cfg.Tariffs) == 0 {
		return nil
	}
	list := make([]market.Seller, len(agents))
	for i, a := range agents {
		list[i] = market.Seller{Owner: a.owner, Class: a.class, Tariff: a.tariff}
	}
	return list
}
