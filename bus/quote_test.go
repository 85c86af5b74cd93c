package bus

import (
	"math"
	"strings"
	"testing"

	"souk/market"
)

// A quote that is out of any bound is none, whoever says it: the message names the field.
func TestQuotesAreBounded(t *testing.T) {
	model := ModelQuote{Model: "llama", TTFTMS: 40, Cost: 3, Quality: 1}
	for _, c := range []struct {
		field  string
		change func(*Quote, *HubQuote, *ModelQuote)
	}{
		{"", func(*Quote, *HubQuote, *ModelQuote) {}},
		{"", func(_ *Quote, h *HubQuote, _ *ModelQuote) { h.Code, h.Models = CodeNoRoom, nil }},
		{"", func(q *Quote, _ *HubQuote, _ *ModelQuote) { q.Code, q.Hubs = CodeNoHub, nil }},
		{"", func(_ *Quote, _ *HubQuote, m *ModelQuote) { m.Premium = -5 }},
		{"client", func(q *Quote, _ *HubQuote, _ *ModelQuote) { q.Client = "a.b" }},
		{"domain", func(q *Quote, _ *HubQuote, _ *ModelQuote) { q.Domain = "*" }},
		{"hubs", func(q *Quote, _ *HubQuote, _ *ModelQuote) { q.Hubs = nil }},
		{"hubs", func(q *Quote, h *HubQuote, _ *ModelQuote) { q.Hubs = []HubQuote{*h, *h, *h, *h, *h} }},
		{"hub", func(_ *Quote, h *HubQuote, _ *ModelQuote) { h.Hub = "" }},
		{"round", func(_ *Quote, h *HubQuote, _ *ModelQuote) { h.Round = 1<<63 - 1 }},
		{"valid_ms", func(_ *Quote, h *HubQuote, _ *ModelQuote) { h.ValidMS = -1 }},
		{"code", func(_ *Quote, h *HubQuote, _ *ModelQuote) { h.Code = Code(strings.Repeat("x", 65)) }},
		{"message", func(q *Quote, _ *HubQuote, _ *ModelQuote) {
			q.Message = strings.Repeat("x", MaxText+1)
		}},
		{"retry_ms", func(q *Quote, _ *HubQuote, _ *ModelQuote) { q.RetryMS = MaxPatient + 1 }},
		{"models", func(_ *Quote, h *HubQuote, _ *ModelQuote) { h.Models = nil }},
		{"models", func(_ *Quote, h *HubQuote, _ *ModelQuote) {
			h.Models = make([]ModelQuote, MaxQuoteModels+1)
		}},
		{"models.model", func(_ *Quote, _ *HubQuote, m *ModelQuote) { m.Model = "\x1b" }},
		{"models.ttft_ms", func(_ *Quote, _ *HubQuote, m *ModelQuote) { m.TTFTMS = math.NaN() }},
		{"models.ttft_ms", func(_ *Quote, _ *HubQuote, m *ModelQuote) { m.TTFTMS = -1 }},
		{"models.wait_ms", func(_ *Quote, _ *HubQuote, m *ModelQuote) { m.WaitMS = math.Inf(1) }},
		{"models.cost", func(_ *Quote, _ *HubQuote, m *ModelQuote) { m.Cost = -1 }},
		{"models.premium", func(_ *Quote, _ *HubQuote, m *ModelQuote) { m.Premium = market.MaxCredits + 1 }},
		{"models.slot_price", func(_ *Quote, _ *HubQuote, m *ModelQuote) { m.SlotPrice = -1 }},
		{"models.cached_share", func(_ *Quote, _ *HubQuote, m *ModelQuote) { m.CachedShare = 1.5 }},
		{"models.quality", func(_ *Quote, _ *HubQuote, m *ModelQuote) { m.Quality = math.NaN() }},
	} {
		q := Quote{Client: "ada", Hubs: []HubQuote{{Hub: "math", Models: []ModelQuote{model}}}}
		c.change(&q, &q.Hubs[0], &q.Hubs[0].Models[0])
		data, err := Encode(&q)
		if err != nil {
			t.Fatal(err)
		}
		err = Decode(data, new(Quote))
		if (err == nil) != (c.field == "") || err != nil && !strings.Contains(err.Error(), c.field+":") {
			t.Errorf("field %q: %v", c.field, err)
		}
	}
}
