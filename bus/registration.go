package bus

import (
	"cmp"

	"souk/market"
)

// Agent states.
const (
	StateReady     = "ready"
	StateDraining  = "draining"
	StateUnhealthy = "unhealthy"
)

// Parsers is the feature of an agent whose engine reads tool calls and reasoning out of tokens that it is
// given (vLLM's /v1/chat/completions/derender, there with --enable-scale-out).
const Parsers = "parsers"

// Split is the feature of an agent whose engine has the prompts of its tasks computed by others, which hand
// over keys and values.
const Split = "split"

// Text is the feature of an agent whose engine reads text alone: tasks with pictures or sound go to others.
const Text = "text"

// Opaque is the feature of an agent whose engine takes no token ids over: no answer goes on there that
// another engine began.
const Opaque = "opaque"

// Without is the feature of an agent whose engine has no endpoint for a kind of task.
func Without(kind string) string {
	if kind == KindCompletion {
		return "no_completions"
	}
	return "no_chats"
}

// Registration is an agent's entry in the registry (JSON), under its lease.
type Registration struct {
	Agent string `json:"agent" want:"id"`
	// names this start of the agentd: its time, but clocks may be set back
	Boot  int64   `json:"boot"`
	Node  string  `json:"node,omitempty"`
	Model string  `json:"model" want:"needed"`        // as clients and the engine name it
	Scale float64 `json:"scale,omitempty" want:"any"` // parameters, in billions
	// the first decides which hub the agent joins
	Domains     []DomainScore `json:"domains"`
	MaxModelLen int           `json:"max_model_len"`        // tokens
	BlockSize   int           `json:"block_size"`           // tokens per KV block
	KVTokens    int           `json:"kv_tokens" want:"any"` // KV capacity, tokens
	Slots       int           `json:"slots" want:"slots"`
	Price       market.Price  `json:"price"`
	// the owner: asks of one owner count as one. Empty: Node
	Owner string `json:"owner,omitempty"`
	// model, precision, hardware: agents of one class are paid one tariff. Empty: Model
	Class    string   `json:"class,omitempty"`
	Features []string `json:"features,omitempty"`
	// kinds of pooling tasks that its engine serves, of KindEmbedding and KindRerank; "": it generates
	Pools string `json:"pools,omitempty"`
	State string `json:"state" want:"state"`
	// that its engine may say nothing before an answer, as its operator says: see EngineConfig.FirstEvent
	FirstMS int64  `json:"first_ms,omitempty" want:"ms"`
	Engine  string `json:"engine,omitempty"` // version
	// tokens that its chat template adds to a prompt; nil: not measured
	Template *Template `json:"template,omitempty"`
	// boots of earlier lives of which completions are still to come
	Former []int64 `json:"former,omitempty"`
	// boots of the lives that its node's directory has had, this one's among them: others may have served
	// tasks unknown to it. None: the node has no directory, and other lives' completions are lost
	Lives []int64 `json:"lives,omitempty"`
	// names the process: who holds its node's directory now knows the names of those that did
	Life  string `json:"life,omitempty"`
	Fence int64  `json:"-"` // set by the hub: of its claim
}

// DomainScore is an agent's benchmark score in a domain, 0 to 1: Q until something is learned.
type DomainScore struct {
	Domain string  `json:"domain" want:"id"`
	Score  float64 `json:"score"`
}

// Claim says which hub sells an agent's slots (JSON). Its Fence is the create revision of its key, which is
// higher with every claim of the agent, whichever hub makes it; the agent obeys no hub whose fence is lower
// than the highest it has seen. For a hub without fences it compares epochs, within the domain.
type Claim struct {
	Agent  string `json:"agent" want:"id"`
	Domain string `json:"domain" want:"id"`
	Hub    string `json:"hub"`
	Epoch  int64  `json:"epoch"`
	Fence  int64  `json:"-"` // set by the reader, see above
}

// Call asks an agent for its ask in an epoch of its class: sealed first, and open once the sealing is on
// record.
type Call struct {
	Agent string `msgpack:"agent" want:"id"`
	Class string `msgpack:"class"`
	Epoch uint64 `msgpack:"epoch"` // of the class
	// epoch of the hub's leadership: an agent tells its ask only to the hub that has claimed it
	Lead int64 `msgpack:"lead"`
	Open bool  `msgpack:"open,omitempty"` // ask for the open one
}

// Ask is an agent's answer to a Call, on its hub's subject: its owner's price for a task beside the metered
// cost.
type Ask struct {
	Agent  string         `msgpack:"agent" want:"id"` // from the subject
	Class  string         `msgpack:"class"`
	Epoch  uint64         `msgpack:"epoch"`
	Seal   []byte         `msgpack:"seal,omitempty"` // market.Ask.Seal, while it is sealed
	Amount market.Credits `msgpack:"amount"`         // these two once it is open
	Nonce  []byte         `msgpack:"nonce,omitempty"`
}

// Seller returns the owner who sells an agent's slots, and their class.
func (r *Registration) Seller() (owner, class string) {
	return cmp.Or(r.Owner, r.Node, r.Agent), cmp.Or(r.Class, r.Model)
}
