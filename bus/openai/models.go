package openai

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"souk/bus"
	"souk/market"
)

// Model is one entry of GET /v1/models.
type Model struct {
	ID      string     `json:"id"`
	Object  string     `json:"object"`
	Created int64      `json:"created"`
	Owner   string     `json:"owned_by"`
	Longest int        `json:"max_model_len,omitempty"`
	Pricing *Pricing   `json:"pricing,omitempty"`
	Souk    *ModelDeal `json:"souk,omitempty"`
}

// Pricing has what a token costs at most at the price cards of a model, as OpenRouter writes it: credits in
// decimals, in a string, since numbers so small are lost in floats. Premiums are none of it.
type Pricing struct {
	Prompt     string `json:"prompt"`
	Completion string `json:"completion"`
	CacheRead  string `json:"input_cache_read,omitempty"` // none where nothing generates
}

// perToken writes an amount for a million tokens as that for one, exactly.
func perToken(million market.Credits) string {
	digits := fmt.Sprintf("%016d", int64(million)) // nano-credits of a million: 15 places of a credit
	whole, parts := digits[:len(digits)-15], strings.TrimRight(digits[len(digits)-15:], "0")
	if parts == "" {
		return whole
	}
	return whole + "." + parts
}

// ModelDeal shows the prices at which a model is sold now.
type ModelDeal struct {
	Routes    []string       `json:"routes"` // that it is served at
	Domains   []string       `json:"domains"`
	Agents    int            `json:"agents"`
	Free      int            `json:"free"`
	Price     Prices         `json:"price"`
	SlotPrice market.Credits `json:"slot_price"` // the least that a slot was last worth to others
	TTFTMS    float64        `json:"ttft_ms"`    // the least measured
}

// Prices are the least and the most of each part that the cards of a model ask.
type Prices struct {
	Miss [2]market.Credits  `json:"miss"`
	Hit  *[2]market.Credits `json:"hit,omitempty"`
	Out  [2]market.Credits  `json:"out"`
}

// Auto is the name of whatever model the market finds best.
const Auto = "auto"

// Models lists what hubs say that they sell, by name, behind auto; of the models that are allowed, where any
// are named.
func Models(hubs []bus.Status, allowed []string) []Model {
	slices.SortFunc(hubs, func(a, b bus.Status) int { return cmp.Compare(a.Domain, b.Domain) })
	by, cards := map[string]*Model{}, map[string]bus.Cards{}
	var out []Model
	if len(allowed) == 0 || slices.Contains(allowed, Auto) {
		out = append(out, Model{ID: Auto, Object: "model", Owner: "souk"})
	}
	var names []string
	for _, h := range hubs {
		for _, m := range h.Models {
			if m.Agents == 0 || len(allowed) > 0 && !slices.Contains(allowed, m.Model) {
				continue
			}
			ttft := float64(m.TTFTUS) / 1000
			to := by[m.Model]
			if to == nil {
				to = &Model{ID: m.Model, Object: "model", Owner: "souk",
					Souk: &ModelDeal{SlotPrice: m.SlotPrice, TTFTMS: ttft}}
				by[m.Model], cards[m.Model] = to, m.Cards
				names = append(names, m.Model)
			}
			d := to.Souk
			to.Longest = max(to.Longest, m.MaxModelLen)
			if !slices.Contains(d.Domains, h.Domain) {
				d.Domains = append(d.Domains, h.Domain)
			}
			for _, r := range strings.Split(bus.Routes(m.Pools), ", ") {
				if !slices.Contains(d.Routes, r) {
					d.Routes = append(d.Routes, r)
				}
			}
			d.Agents, d.Free = d.Agents+m.Agents, d.Free+m.Free
			cards[m.Model] = cards[m.Model].With(m.Cards)
			d.SlotPrice = min(d.SlotPrice, m.SlotPrice)
			if ttft > 0 && (d.TTFTMS == 0 || ttft < d.TTFTMS) {
				d.TTFTMS = ttft
			}
		}
	}
	slices.Sort(names)
	for _, name := range names {
		least, most := cards[name].Least, cards[name].Most
		by[name].Souk.Price = Prices{Miss: [2]market.Credits{least.Miss, most.Miss},
			Hit: &[2]market.Credits{least.Hit, most.Hit}, Out: [2]market.Credits{least.Out, most.Out}}
		by[name].Pricing = &Pricing{Prompt: perToken(most.Miss), Completion: perToken(most.Out),
			CacheRead: perToken(most.Hit)}
		if !slices.Contains(by[name].Souk.Routes, "/v1/chat/completions") { // nothing is billed as cached
			by[name].Pricing.CacheRead, by[name].Souk.Price.Hit = "", nil
		}
		out = append(out, *by[name])
	}
	return out
}
