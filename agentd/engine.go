// Package agentd is one GPU node's side of the market, values in and values out: an agent accepts or refuses
// each dispatch, meters what its engine says, keeps what its reader may have missed, and accounts for it.
// Package agentd/serve runs it.
package agentd

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"souk/agentd/kvevent"
	"souk/bus"
	"souk/market"
)

// Engine is a server as its agent uses it; made by agentd/vllm.
//
// Complete asks for an answer to r. That to a pooling task comes whole, and is handed on in pieces. Anything
// else it sends with stream: true, calls token for every read of the engine's socket that held at least
// one event, in order, from one goroutine, and returns when the answer has ended. If ctx ends, or token
// returns an error, the connection is closed, so that the engine frees the slot, and Complete returns what
// was relayed until then together with that error (the cause of ctx, if it has one). An answer that the
// engine broke off (abort, error chunk, end of stream without a finish) is an error too. A fault of the
// engine comes as an *EngineError.
type Engine interface {
	Complete(ctx context.Context, r Request, token func(Chunk) error) (Answer, error)
	// Load asks for the engine's counters. It fails where the engine is not healthy.
	Load(ctx context.Context) (Load, error)
	// Info says what the engine is. It fails while the engine boots.
	Info(ctx context.Context) (Info, error)
	// Events delivers what the engine publishes of its prefix cache, in order and from one goroutine, until
	// ctx ends; nothing, where it publishes nothing.
	Events(ctx context.Context, deliver func(kvevent.Update))
}

// ErrAnother says of a look at an engine that another kind of server has the address, or one that lacks what
// it had: it is to be asked anew what it is.
var ErrAnother = errors.New("another server has the engine's address")

// Load holds an engine's counters since it started.
type Load struct {
	Generated *int64   // tokens; nil: not reported
	Models    []string // that it serves now; nil: not asked
}

// Request is a completion, chat or load to be sent to an engine.
type Request struct {
	ID        string // becomes X-Request-Id
	Kind      string // bus.KindChat and so on
	Body      json.RawMessage
	Model     string
	MaxTokens int // 0: as many as the context has room for
	Trace     bus.Trace
	Prompt    int // tokens, as estimated: how long the first token may take
	// from now, as its hub forecasts it: later the first token does not come; 0: two minutes
	First   time.Duration
	Count   bool    // before anything is computed, a chunk says how long the prompt is
	Context int     // with Count: tokens of prompt and answer, by which MaxTokens is lowered; 0: it is not
	Resume  *Resume // nil: from the beginning
	// separates the engine's cache, whatever Body says: prompts of one salt find nothing of another. "": the
	// hub's
	Salt string
}

// Resume holds the delivered part of an answer that broke off at another engine of the same model. The engine
// gets it as the end of the prompt and goes on; Complete's chunks hold only the new part.
type Resume struct {
	Tokens    []uint32 // output so far, at least one
	Text      string   // the delivered part of their text
	Reasoning string   // and of their reasoning, which is no part of Text
	Calls     []string // ids of the tool calls that have begun
	Whole     int      // max_tokens of the whole answer
}

// Chunk holds the content of one read of the engine's socket. Slices and strings are the receiver's to keep.
type Chunk struct {
	Text   string
	Tokens []uint32 // nil if the engine reports no ids
	Prompt int      // prompt tokens, by the ids that came with the first event; 0 in all other chunks
	// these ids
	PromptIDs []uint32
	Count     int         // output tokens: by ids where reported, else one an event with content
	Thought   int         // of Tokens, the first ones, which are reasoning or end it
	Extra     []bus.Extra // events that say more than plain text
	Events    int
	Finish    bool // the answer ends with this

	Counted int // prompt tokens, in a first chunk of its own before the engine computes; else 0

	// Of a resumed answer, in its first chunk: the tokens of the prompt itself, and how many of those
	// delivered were taken over. Prompt is then their sum.
	Base, Kept int
}

// Answer describes how an answer ended.
type Answer struct {
	Finish string          // stop, length, tool_calls, ...
	Stop   json.RawMessage // vLLM's stop_reason, nil if null
	Usage  market.Usage
	// no usage came: Usage.Output counts what was relayed, Usage.Prompt the prompt ids reported (0: none
	// were)
	Unmetered     bool
	Said          *market.Usage // the engine's usage, where its ids say otherwise: Usage has theirs
	NoCacheReport bool          // cached_tokens was absent: Usage.Cached is 0 and means nothing
	TTFT          time.Duration // from the request's first byte to the first event with content
	ITL           time.Duration // mean between tokens; 0 with fewer than two
}

// Info is an engine's identity.
type Info struct {
	Kind        string // KindVLLM, ...
	Models      []string
	Adapters    []string // those of Models that are LoRA adapters of another one
	Version     string
	MaxModelLen int
	BlockSize   int    // tokens; 0 if unknown
	KVTokens    int    // capacity; 0 if unknown
	Pools       string // the kinds of pooling tasks that it serves; "": it generates
	Parsers     bool   // it reads tool calls and reasoning out of tokens that it is given

	Template *bus.Template // tokens that its chat template adds to a prompt; nil: not known
	Forgets  bool          // its chat template leaves reasoning out of later prompts

	Shared bool     // prompts find in its cache what was computed for others, whatever their salts
	Lacks  []string // what the market would use of it, and what it costs that it is not there
}

// Kinds of servers, by what they have beside OpenAI's API.
const (
	KindVLLM     = "vllm"
	KindSGLang   = "sglang"
	KindLlamaCpp = "llamacpp"
	KindOpenAI   = "openai" // Ollama, TGI, LMDeploy, and whatever else speaks it
)

// adapter returns the LoRA adapter that a model is; empty: none.
func (i *Info) adapter(model string) string {
	if slices.Contains(i.Adapters, model) {
		return model
	}
	return ""
}

// EngineConfig says where an engine is and how long it may be silent. Zero fields take the values of
// [EngineConfig.WithDefaults].
type EngineConfig struct {
	// http://host:port, without /v1; empty: vLLM's usual port on this machine
	URL string `yaml:"url"`
	// KindVLLM, ...; empty: as it says itself, and again when it comes back
	Kind   string `yaml:"kind"`
	APIKey string `yaml:"api_key"` // sent as a bearer token; empty = none
	// most silence from the request to the first event: queueing and prefill, and whatever the engine loads
	// first. 0: as its hub says by what was seen of it, see fleet.Room.Within; and longer while its counters
	// say that it is at it
	FirstEvent time.Duration `yaml:"first_event"`
	Progress   time.Duration `yaml:"progress"` // most time between two events after that
	// least silence after which an engine hangs whose counters stand still, too
	Suspect time.Duration `yaml:"suspect"`
	Probe   time.Duration `yaml:"probe"` // most time for /health, /metrics, /v1/models
	// of a busy engine, a stream that is faster than this is read so often; 1ns: as it comes
	RelayEvery time.Duration `yaml:"relay_every"`
	// LoRA adapters that it keeps ready (--max-cpu-loras), where it serves more: for the policy of adapters
	Adapters int `yaml:"adapters"`
	// the LoRA adapter that is the agent's model, to be loaded where the engine does not serve it: one that
	// runs with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING
	Adapter Adapter `yaml:"adapter"`
	// where the engine publishes its cache; empty: where it reports that it does
	KVEvents kvevent.Source `yaml:"kv_events"`
}

// Adapter is a LoRA adapter, and where its engine finds it.
type Adapter struct {
	Name string `yaml:"name"`
	Path string `yaml:"path"` // on the engine's machine, or a name that it knows; empty: none is loaded
}

// WithDefaults fills what is left zero.
func (c EngineConfig) WithDefaults() EngineConfig {
	return filled(c, EngineConfig{
		URL:        "http://127.0.0.1:8000",
		Progress:   30 * time.Second, // a preempted stream waits for others to finish; a dead engine for ever
		Suspect:    2 * time.Second,  // gaps of a live engine stay below 0.2 s
		Probe:      5 * time.Second,
		RelayEvery: 20 * time.Millisecond, // fifty times a second: smoother than anybody reads
	})
}

// EngineError describes an engine's fault, or why it refused.
type EngineError struct {
	// CodeEngineFailed; CodeEngineRefused: its own 4xx; CodeNoSlot: full, an award lost and no fault;
	// CodeUnknownModel: it has lost the model; CodeUnavailable: out of reach; CodeBadRequest: never sent
	Code    bus.Code
	Message string
	Said    string        // the engine's own words, which may be its prompt's: for the client alone
	Status  int           // HTTP status, also one that came as an event of a stream; 0 if there was none
	Stalled bool          // it said nothing for too long: it may hang, whatever /health says
	Missing bool          // it has no such endpoint
	Again   time.Duration // it says that it may be asked again after so long (Retry-After); 0: it does not
	Err     error         // beneath, may be nil
}

// Error returns the whole error, with what the engine said: the task's client may read that.
func (e *EngineError) Error() string {
	if e.Said != "" {
		return e.Plain() + ": " + e.Said
	}
	return e.Plain()
}

// Plain returns the error without what the engine said, for logs.
func (e *EngineError) Plain() string {
	if e.Err != nil {
		return e.Message + ": " + e.Err.Error()
	}
	return e.Message
}

func (e *EngineError) Unwrap() error { return e.Err }
