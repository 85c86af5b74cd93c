package bus

import "souk/market"

// HubEntry is the live hub of a domain (JSON, election value). Epoch is the create revision of its key.
type HubEntry struct {
	Domain  string   `json:"domain" want:"id"`
	Labels  []string `json:"labels" want:"id"` // classifier labels it serves
	Hub     string   `json:"hub"`              // instance
	Journal string   `json:"journal"`
	General bool     `json:"general,omitempty"` // takes tasks of low confidence
	// names the process: who holds its journal now knows the names of those that did
	Life string `json:"life,omitempty"`
}

// TreasuryEntry is the market's treasury (JSON, election value). Epoch is the create revision of its key.
type TreasuryEntry struct {
	Journal string `json:"journal" want:"id"`
	Host    string `json:"host,omitempty"`
	PID     int    `json:"pid,omitempty"`
	Life    string `json:"life,omitempty"` // as HubEntry's
}

// Status is a hub's public state: sent on change, at most every 50 ms, at least every second.
type Status struct {
	Domain  string   `json:"domain" msgpack:"domain" want:"id"`
	Labels  []string `json:"labels" msgpack:"labels" want:"id"`
	General bool     `json:"general" msgpack:"general"`
	Epoch   int64    `json:"epoch" msgpack:"epoch"`
	Seq     uint64   `json:"seq" msgpack:"seq"`
	Agents  int      `json:"agents" msgpack:"agents"`
	Slots   int      `json:"slots" msgpack:"slots"`
	Free    int      `json:"free" msgpack:"free"`
	Waiting int      `json:"waiting" msgpack:"waiting"` // tasks not yet placed
	Room    int      `json:"room" msgpack:"room"`       // tasks it would still admit
	// why it admits none however few wait; "": it admits
	Closed string `json:"closed,omitempty" msgpack:"closed,omitempty" want:"text"`
	// after so many milliseconds it may admit some again; 0: it does not say
	ClosedMS int64         `json:"closed_ms,omitempty" msgpack:"closed_ms,omitempty" want:"ms"`
	Models   []ModelStatus `json:"models" msgpack:"models"`
	// runtime policies that are on, or would be
	Policies []PolicyStatus `json:"policies,omitempty" msgpack:"policies,omitempty"`
	// how full it is: below the knee, in transition or saturated; "": it does not say
	Regime string `json:"regime,omitempty" msgpack:"regime,omitempty"`
}

// PolicyStatus is the state of a runtime policy.
type PolicyStatus struct {
	Hook   string `json:"hook" msgpack:"hook"` // where it is asked
	Policy string `json:"policy" msgpack:"policy"`
	// for so long it stays off; 0: it is on
	OffMS int64  `json:"off_ms,omitempty" msgpack:"off_ms,omitempty" want:"ms"`
	Why   string `json:"why,omitempty" msgpack:"why,omitempty" want:"text"`
}

// ModelStatus sums up the agents of one model in a hub.
type ModelStatus struct {
	Model       string         `json:"model" msgpack:"model"`
	Agents      int            `json:"agents" msgpack:"agents"`
	Free        int            `json:"free" msgpack:"free"`
	Quality     float64        `json:"quality" msgpack:"quality"`           // best, as quotes have it
	Price       market.Price   `json:"price" msgpack:"price"`               // cheapest card
	TTFTUS      int64          `json:"ttft_us" msgpack:"ttft_us" want:"us"` // least measured
	SlotPrice   market.Credits `json:"slot_price" msgpack:"slot_price"`     // last round's least
	MaxModelLen int            `json:"max_model_len" msgpack:"max_model_len"`
	Cards       Cards          `json:"cards" msgpack:"cards"`
	// what its agents pool, see [Registration]: models of one name that differ in it stand apart
	Pools string `json:"pools,omitempty" msgpack:"pools,omitempty"`
}

// Cards holds the least and the most of the prices of several cards, each part by itself.
type Cards struct {
	Least market.Price `json:"least" msgpack:"least"`
	Most  market.Price `json:"most" msgpack:"most"`
}

// With widens the range by another.
func (c Cards) With(o Cards) Cards {
	return Cards{
		Least: market.Price{Miss: min(c.Least.Miss, o.Least.Miss), Hit: min(c.Least.Hit, o.Least.Hit),
			Out: min(c.Least.Out, o.Least.Out)},
		Most: market.Price{Miss: max(c.Most.Miss, o.Most.Miss), Hit: max(c.Most.Hit, o.Most.Hit),
			Out: max(c.Most.Out, o.Most.Out)},
	}
}

// MarketConfig is a domain's settings in the registry (JSON), in force until changed. What is left out is as
// the hub's own file says.
type MarketConfig struct {
	Domain    string `json:"domain" want:"id"`
	MaxBatch  int    `json:"max_batch,omitempty" want:"slots"`
	MaxWaitMS *int64 `json:"max_wait_ms,omitempty" want:"minute"`
	Eager     *bool  `json:"eager,omitempty"`
	Pricing   string `json:"pricing,omitempty" want:"pricing"`
	Settle    string `json:"settle,omitempty" want:"settle"`
	Clarke    string `json:"clarke,omitempty" want:"clarke"`

	Tariffs  map[string]market.Credits `json:"tariffs,omitempty"` // under pricing posted, by class
	Ceiling  *market.Credits           `json:"ceiling,omitempty"` // under pricing tariff
	Ceilings map[string]market.Credits `json:"ceilings,omitempty"`
}
