package bus

import (
	"time"

	"souk/market"
)

// Limits of what one answer about a quote says.
const (
	MaxQuoteHubs   = 4  // that are asked for one
	MaxQuoteModels = 64 // of one hub
)

// QuoteWithin is how long hubs are waited for that are asked for a quote.
const QuoteWithin = 100 * time.Millisecond

// Quote is what a door says to a client that asks what a task would be given, without buying it. It is an
// estimate: nothing is reserved, and what others send in the next moment changes it. The request is a [Task].
type Quote struct {
	Client string `json:"client" msgpack:"client,omitempty"`
	// the label under which a task like it is placed
	Domain string     `json:"domain,omitempty" msgpack:"domain,omitempty"`
	Hubs   []HubQuote `json:"hubs,omitempty" msgpack:"hubs,omitempty"` // as the door would ask them

	// why no hub says anything; empty: one does
	Code    Code   `json:"code,omitempty" msgpack:"code,omitempty"`
	Message string `json:"message,omitempty" msgpack:"message,omitempty"`
	RetryMS int64  `json:"retry_ms,omitempty" msgpack:"retry_ms,omitempty"`
}

// HubQuote is what one hub expects of a task if it came now, model by model, the best first. What is best,
// and every figure, is the same whatever the task's terms are; they decide [ModelQuote.WouldWin] alone.
type HubQuote struct {
	Hub     string       `json:"hub" msgpack:"hub,omitempty"`
	Round   uint64       `json:"round" msgpack:"round,omitempty"`       // the last that was held
	ValidMS int64        `json:"valid_ms" msgpack:"valid_ms,omitempty"` // ask again after so long
	Models  []ModelQuote `json:"models,omitempty" msgpack:"models,omitempty"`

	// why there is no model; empty: there is one
	Code    Code   `json:"code,omitempty" msgpack:"code,omitempty"`
	Message string `json:"message,omitempty" msgpack:"message,omitempty"`
	RetryMS int64  `json:"retry_ms,omitempty" msgpack:"retry_ms,omitempty"`
}

// ModelQuote is a task at the agent of a model that a task on the hub's own terms would go to.
type ModelQuote struct {
	Model  string  `json:"model" msgpack:"model"`
	TTFTMS float64 `json:"ttft_ms" msgpack:"ttft_ms"` // the wait for a slot included
	// until a slot is free; 0: one is
	WaitMS float64        `json:"wait_ms" msgpack:"wait_ms,omitempty"`
	Cost   market.Credits `json:"cost" msgpack:"cost,omitempty"`
	// beside the cost: slot price, charges and fee
	Premium   market.Credits `json:"premium" msgpack:"premium,omitempty"`
	SlotPrice market.Credits `json:"slot_price" msgpack:"slot_price,omitempty"` // of now
	// of the prompt, believed to be in the agent's cache, 0 to 1
	CachedShare float64 `json:"cached_share" msgpack:"cached_share,omitempty"`
	Quality     float64 `json:"quality" msgpack:"quality,omitempty"`
	// a round of now would give it a slot of this model, or have it wait for one, on its own terms
	WouldWin bool `json:"would_win" msgpack:"would_win,omitempty"`
}

func (*Quote) message()    {}
func (*HubQuote) message() {}

func (q *Quote) Validate() error {
	var p problems
	p.optionalID("client", q.Client)
	p.optionalID("domain", q.Domain)
	p.refusal(q.Code, q.Message, q.RetryMS)
	p.list("hubs", len(q.Hubs), MaxQuoteHubs)
	if q.Code == "" && len(q.Hubs) == 0 {
		p.add("hubs: a quote without a code has one at least")
	}
	for i := range q.Hubs {
		if p.err == nil {
			p.err = q.Hubs[i].Validate()
		}
	}
	return p.err
}

func (q *HubQuote) Validate() error {
	var p problems
	p.id("hub", q.Hub)
	p.number("round", q.Round)
	p.within("valid_ms", q.ValidMS, 0, MaxPatient)
	p.refusal(q.Code, q.Message, q.RetryMS)
	p.list("models", len(q.Models), MaxQuoteModels)
	if q.Code == "" && len(q.Models) == 0 {
		p.add("models: a quote without a code has one at least")
	}
	for i := range q.Models {
		m := &q.Models[i]
		p.name("models.model", m.Model, MaxName)
		p.millis("models.ttft_ms", m.TTFTMS)
		p.millis("models.wait_ms", m.WaitMS)
		p.credits("models.cost", m.Cost)
		p.signed("models.premium", m.Premium)
		p.credits("models.slot_price", m.SlotPrice)
		p.share("models.cached_share", m.CachedShare)
		p.share("models.quality", m.Quality)
	}
	return p.err
}

// refusal is why something is not had, if there is a code.
func (p *problems) refusal(code Code, message string, retryMS int64) {
	p.name("code", string(code), MaxID)
	p.text("message", len(message), MaxText)
	p.within("retry_ms", retryMS, 0, MaxPatient)
}

func (p *problems) millis(field string, x float64) {
	if !(x >= 0 && x <= maxMicros/1000) { // also refuses NaN
		p.add("%s: %v is not within 0 and %v", field, x, maxMicros/1000)
	}
}
