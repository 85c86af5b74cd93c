package bus

import (
	"time"

	"souk/market"
)

// Limits of one quote.
const (
	MaxQuoteHubs   = 4  // that are asked for one
	MaxQuoteModels = 64 // of one hub
)

// QuoteWithin bounds the wait for hubs that are asked for a quote.
const QuoteWithin = 100 * time.Millisecond

// Quote is a door's answer to a client that asks what a task would get, without buying it. It is an estimate:
// nothing is reserved, and other tasks in the next moment change it. The request is a [Task].
type Quote struct {
	Client string `json:"client" msgpack:"client,omitempty" want:"id?"`
	// the label under which a task like it is placed
	Domain string `json:"domain,omitempty" msgpack:"domain,omitempty" want:"id?"`
	// as the door would ask them
	Hubs []HubQuote `json:"hubs,omitempty" msgpack:"hubs,omitempty" want:"most:4"`

	// why no hub has a quote; empty: one has
	Code    Code   `json:"code,omitempty" msgpack:"code,omitempty"`
	Message string `json:"message,omitempty" msgpack:"message,omitempty" want:"text"`
	RetryMS int64  `json:"retry_ms,omitempty" msgpack:"retry_ms,omitempty" want:"ms"`
}

// HubQuote is one hub's estimate for a task if it came now, model by model, the best first. The order and
// every figure are independent of the task's terms; these decide only [ModelQuote.WouldWin] and the most that
// it may be charged alone.
type HubQuote struct {
	Hub     string       `json:"hub" msgpack:"hub,omitempty" want:"id"`
	Round   uint64       `json:"round" msgpack:"round,omitempty"`                 // the last that was held
	ValidMS int64        `json:"valid_ms" msgpack:"valid_ms,omitempty" want:"ms"` // ask again after so long
	Models  []ModelQuote `json:"models,omitempty" msgpack:"models,omitempty" want:"most:64"`

	// why there is no model; empty: there is one
	Code    Code   `json:"code,omitempty" msgpack:"code,omitempty"`
	Message string `json:"message,omitempty" msgpack:"message,omitempty" want:"text"`
	RetryMS int64  `json:"retry_ms,omitempty" msgpack:"retry_ms,omitempty" want:"ms"`
}

// ModelQuote is a quote for the agent of a model that a task on the hub's own terms would go to.
type ModelQuote struct {
	Model string `json:"model" msgpack:"model"`
	// in money, all in all
	Price  QuotePrice `json:"price" msgpack:"price"`
	TTFTMS float64    `json:"ttft_ms" msgpack:"ttft_ms" want:"ms"` // the wait for a slot included
	// until a slot is free; 0: one is
	WaitMS float64        `json:"wait_ms" msgpack:"wait_ms,omitempty" want:"ms"`
	Cost   market.Credits `json:"cost" msgpack:"cost,omitempty"`
	// beside the cost: slot price, charges and fee
	Premium   market.Credits `json:"premium" msgpack:"premium,omitempty" want:"signed"`
	SlotPrice market.Credits `json:"slot_price" msgpack:"slot_price,omitempty"` // of now
	// of the prompt, believed to be in the agent's cache, 0 to 1
	CachedShare float64 `json:"cached_share" msgpack:"cached_share,omitempty"`
	Quality     float64 `json:"quality" msgpack:"quality,omitempty"`
	// a round of now would give it a slot of this model, or have it wait for one, on its own terms
	WouldWin bool `json:"would_win" msgpack:"would_win,omitempty"`
}

// QuotePrice estimates what a task would be charged, Min <= Expected <= Max. Only Max is certain: a hold
// would bound it if the task were given its slot now. If the task offers less than Expected, and would get no
// slot, Max is Expected.
type QuotePrice struct {
	Min      market.Credits `json:"min" msgpack:"min,omitempty"`           // for one token of answer, nobody else there
	Expected market.Credits `json:"expected" msgpack:"expected,omitempty"` // for an answer as long as is expected
	// for one that is as long as it may be, where all that the task is worth is wanted by others
	Max market.Credits `json:"max" msgpack:"max,omitempty"`
}
