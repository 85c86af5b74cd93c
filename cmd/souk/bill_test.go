package main

import (
	"strings"
	"testing"

	"souk/bus"
	"souk/market"
)

// A new key's bill is in money, by the cards of the agents that serve its models, and has a bound.
func TestTheBillOfANewKey(t *testing.T) {
	cheap := market.Price{Miss: market.Credit / 10, Hit: market.Credit / 100, Out: 4 * market.Credit / 10}
	dear := market.Price{Miss: market.Credit, Hit: market.Credit / 10, Out: 4 * market.Credit}
	cards := map[string]bus.Cards{"small": {Least: cheap, Most: cheap}, "large": {Least: dear, Most: dear}}
	most, worth := market.Credit/2, market.Credit
	for _, c := range []struct {
		name string
		key  bus.APIKey
		has  map[string]bus.Cards
		says []string
	}{
		{"all models", bus.APIKey{MaxPrice: &most}, cards,
			[]string{"0.00022 to 0.0022 credits", "at most 0.5 credits"}},
		{"one model", bus.APIKey{Models: []string{"small"}, MaxPrice: &most}, cards,
			[]string{" 0.00022 credits, where"}},
		{"auto", bus.APIKey{Models: []string{"auto", "x"}}, cards,
			[]string{"0.00022 to 0.0022", "it has no max_price"}},
		{"no agent", bus.APIKey{Models: []string{"other"}, MaxPrice: &most}, cards,
			[]string{"as the price card"}},
		{"nobody heard", bus.APIKey{Terms: bus.Terms{Worth: &worth}}, nil,
			[]string{"the price card", "the 1 credits"}},
	} {
		var out strings.Builder
		tellBill(&out, &c.key, c.has)
		for _, says := range c.says {
			if !strings.Contains(out.String(), says) {
				t.Errorf("%s: %q does not say %q", c.name, out.String(), says)
			}
		}
	}
}
