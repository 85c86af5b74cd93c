package main

import (
	"strings"
	"testing"

	"souk/bus"
)

// A quote is a table with a word that it is an estimate; a hub that has none says why.
func TestShowQuote(t *testing.T) {
	var out strings.Builder
	showQuote(&out, &bus.Quote{Hubs: []bus.HubQuote{
		{Hub: "math", ValidMS: 1000, Models: []bus.ModelQuote{{Model: "llama", TTFTMS: 1240.4, WaitMS: 1200,
			Price: bus.QuotePrice{Min: 900_000, Expected: 2_500_100, Max: 9_000_000},
			Cost:  2_500_000, Premium: 100, SlotPrice: 70, CachedShare: 0.5, Quality: 0.75, WouldWin: true}}},
		{Hub: "code", ValidMS: 500, Models: []bus.ModelQuote{{Model: "qwen", TTFTMS: 40}}},
		{Hub: "law", Code: bus.CodeNoRoom, Message: "no agent"},
	}})
	text := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{"math llama 1.24 s 1.20 s 0.0025001 0.0009 0.009 0.0025 0.0000001 50 % 0.75 yes",
		"code qwen 40 ms 0.00 ms 0 0 0 0 0 0 % 0.00 no", "An estimate, of use for 500 ms: nothing is bought or reserved.",
		"hub law: no_room: no agent"} {
		if !strings.Contains(strings.ReplaceAll(text, "│ ", ""), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	out.Reset()
	showQuote(&out, &bus.Quote{Code: bus.CodeNoRoom, Hubs: []bus.HubQuote{
		{Hub: "law", Code: bus.CodeNoRoom, Message: "no agent"}}})
	if out.String() != "hub law: no_room: no agent\n" {
		t.Errorf("%q", out.String())
	}
}
