package tariff

import (
	"strings"
	"testing"

	"souk/bus"
	"souk/market"
)

func TestRulesThatMeanNothing(t *testing.T) {
	amounts := map[string]market.Credits{"h200": 5}
	for want, change := range map[string]func(*Rule){
		`pricing: "auction" is none of vcg, tariff, posted`:                               func(r *Rule) { r.Pricing = "auction" },
		`clarke: "nobody" is none of client, task`:                                        func(r *Rule) { r.Clarke = "nobody" },
		`ceiling: pricing "tariff" needs one above`:                                       func(r *Rule) { r.Pricing = market.PricingTariff },
		"ceiling: -0.000000001 is not from":                                               func(r *Rule) { r.Ceiling = -1 },
		`tariffs: they mean something under pricing "posted" alone, and pricing is "vcg"`: func(r *Rule) { r.Tariffs = amounts },
		`ceilings: they mean something under pricing "tariff" alone`:                      func(r *Rule) { r.Ceilings = amounts },
		"tariffs.h200: -0.000000005 is not from 0":                                        func(r *Rule) { r.Pricing, r.Tariffs = market.PricingPosted, map[string]market.Credits{"h200": -5} },
	} {
		c := Rule{Rule: market.DefaultRule}
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
	c := Rule{Rule: market.DefaultRule}
	c.Pricing, c.Ceiling, c.Ceilings = market.PricingTariff, market.Credit, amounts
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	// Another pricing than the file's leaves the file's amounts out, and brings its own.
	if r := c.Overlay(&bus.MarketConfig{Pricing: market.PricingPosted,
		Tariffs: amounts}); r.Validate() != nil || r.Ceilings != nil || r.Tariffs["h200"] != 5 {
		t.Errorf("%+v, %v", r, r.Validate())
	}
	if r := c.Overlay(&bus.MarketConfig{Settle: market.SettleQuoted}); r.Validate() != nil ||
		r.Ceilings["h200"] != 5 || r.Settle != market.SettleQuoted {
		t.Errorf("%+v, %v", r, r.Validate())
	}
}
