package openai_test

import (
	"encoding/json"
	"strings"
	"testing"

	"souk/bus"
	"souk/bus/openai"
	"souk/market"
)

// What a token costs at most is written exactly, in strings, as OpenRouter's clients read it.
func TestPricesOfATokenAreStrings(t *testing.T) {
	status := func(p market.Price) bus.Status {
		return bus.Status{Domain: "general", Models: []bus.ModelStatus{{Model: "m", Agents: 1,
			Cards: bus.Cards{Least: p, Most: p}}}}
	}
	for _, c := range []struct {
		card market.Price
		want string
	}{
		{market.Price{Miss: 75_000_000, Hit: 37_500_000, Out: 300_000_000},
			`{"prompt":"0.000000075","completion":"0.0000003","input_cache_read":"0.0000000375"}`},
		{market.Price{Miss: 1, Hit: 0, Out: market.Credit},
			`{"prompt":"0.000000000000001","completion":"0.000001","input_cache_read":"0"}`},
		{market.Price{Miss: 2_500_000 * market.Credit, Hit: 1, Out: 10_000_000 * market.Credit},
			`{"prompt":"2.5","completion":"10","input_cache_read":"0.000000000000001"}`},
	} {
		cheap := status(market.Price{})
		cheap.Domain = "other"
		got, err := json.Marshal(openai.Models([]bus.Status{status(c.card), cheap}, nil))
		if err != nil || !strings.Contains(string(got), `"pricing":`+c.want) ||
			strings.Count(string(got), "pricing") != 1 {
			t.Errorf("%+v: %s, %v", c.card, got, err)
		}
	}
}

// A model that makes vectors alone has no price for what is cached, as nothing is billed so.
func TestAPoolingModelHasNoHitPrice(t *testing.T) {
	card := market.Price{Miss: 3, Hit: 2, Out: 1}
	for pools, want := range map[string]bool{"": true, "embedding": false, "embedding rerank": false} {
		got, err := json.Marshal(openai.Models([]bus.Status{{Domain: "d", Models: []bus.ModelStatus{
			{Model: "m", Agents: 1, Pools: pools, Cards: bus.Cards{Least: card, Most: card}}}}}, nil))
		if text := string(got); err != nil || strings.Contains(text, "input_cache_read") != want ||
			strings.Contains(text, `"hit":`) != want || !strings.Contains(text, `"miss":[`) {
			t.Errorf("pools %q: %s, %v", pools, got, err)
		}
	}
}
