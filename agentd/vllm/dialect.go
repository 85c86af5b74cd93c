package vllm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"souk/agentd"
)

// A dialect is what one kind of server has beside what all of them have: /v1/models, and streams of chats and
// completions as OpenAI's. What a server lacks is told once, with what that costs, and it is sold.
type dialect struct {
	kind     string
	owner    string   // of its models, by its own /v1/models
	about    []string // where it says its version, and some their context
	counters []string // of output tokens, at /metrics
	counting string   // how it is made to serve these
	idle     bool     // its /health is no question to ask every other second
}

// dialects have their facts from the sources named, of August to November 2026, and of SGLang 0.5.23 as it is
// installed; a llama.cpp server was asked, too.
var dialects = []dialect{
	{kind: agentd.KindVLLM, owner: "vllm", about: []string{"/version"},
		counters: []string{"vllm:generation_tokens_total"}, counting: "without --disable-log-stats"},
	// github.com/sgl-project/sglang, python/sglang/srt/entrypoints: http_server.py and openai/protocol.py.
	// /health has the model make a token: that takes a second, and up to twenty behind a long prompt. Chunks
	// of a chat have no token ids. Its counter moves when an answer ends. Members that it does not know it
	// leaves unread; cache_salt also where it declares it, before pull request 23300 of April 2026.
	{kind: agentd.KindSGLang, owner: "sglang", about: []string{"/server_info", "/get_server_info"},
		counters: []string{"sglang:generation_tokens_total"}, counting: "with --enable-metrics", idle: true},
	// github.com/ggml-org/llama.cpp, tools/server. /health is 503 while the model loads, /metrics 501 without
	// its flag, and what it counts moves when an answer ends. One event may hold several tokens. A slot takes
	// over what a like prompt left there, whosever it was. Members that it does not know it leaves unread.
	{kind: agentd.KindLlamaCpp, owner: "llamacpp", about: []string{"/props"},
		counters: []string{"llamacpp:tokens_predicted_total"}, counting: "with --metrics"},
	// All others. github.com/ollama/ollama, server/routes.go: no /health and no /metrics, /api/version.
	// github.com/huggingface/text-generation-inference, router/src/server.rs: /info.
	// github.com/InternLM/lmdeploy, lmdeploy/serve/openai: /metrics, unless it is turned off.
	// github.com/NVIDIA/TensorRT-LLM, tensorrt_llm/serve/openai_protocol.py: it refuses members that it does
	// not know, so they all get OpenAI's own alone.
	{kind: agentd.KindOpenAI, about: []string{"/api/version", "/info", "/version"},
		counters: []string{"lmdeploy:generation_tokens_total", "tgi_request_generated_tokens_sum"},
		counting: "or count under a name that is known here"},
}

// server holds what the server at hand was found to have.
type server struct {
	*dialect
	health  bool
	metrics bool
	salts   bool // it says that it reads cache_salt
	options bool // and stream_options
}

func dialectOf(kind string) *dialect {
	return &dialects[max(0, slices.IndexFunc(dialects, func(d dialect) bool { return d.kind == kind }))]
}

// whole is a server that has everything: vLLM, until it was asked.
func whole(kind string) *server {
	d := dialectOf(kind)
	return &server{dialect: d, health: true, metrics: true, salts: d.vllm(), options: true}
}

// vllm reports whether it has what vLLM alone has: token ids, its tokenizer, its parsers, adapters to load.
func (d *dialect) vllm() bool { return d.kind == agentd.KindVLLM }

// generated is the count of output tokens on a page of metrics; nil where it has none by exactly these names.
func (d *dialect) generated(page []byte) *int64 {
	for _, name := range d.counters {
		if n, there := total(page, name); there {
			return new(int64(n))
		}
	}
	return nil
}

// models holds the answer of /v1/models.
type models struct {
	Data []struct {
		ID          string `json:"id"`
		Owner       string `json:"owned_by"`
		MaxModelLen int    `json:"max_model_len"`
		Parent      string `json:"parent"` // of an adapter: the model that it is for
		Meta        struct {
			Context int `json:"n_ctx"` // of one slot
		} `json:"meta"`
	} `json:"data"`
}

func (e *Engine) models(ctx context.Context) (m models, err error) {
	body, err := e.get(ctx, "/v1/models")
	if err == nil {
		if err = json.Unmarshal(body, &m); err == nil && len(m.Data) == 0 {
			err = errors.New("the engine serves no model")
		}
		if err != nil {
			err = fmt.Errorf("/v1/models: %w", err)
		}
	}
	return m, err
}

// kind is the kind of the server that lists these models, where the configuration names none.
func (m *models) kind(versioned bool) (string, error) {
	switch owner := m.Data[0].Owner; {
	case owner == "souk":
		return "", errors.New("/v1/models: this is the gateway of a market, and no engine")
	case owner == "" && versioned:
		return agentd.KindVLLM, nil
	default:
		for _, d := range dialects {
			if d.owner == owner && owner != "" {
				return d.kind, nil
			}
		}
	}
	return agentd.KindOpenAI, nil
}

// about holds what servers say of themselves, each in its own words.
type about struct {
	Version string `json:"version"`
	Build   string `json:"build_info"`
	Most    int    `json:"max_total_tokens"`
	Default struct {
		Context int `json:"n_ctx"`
	} `json:"default_generation_settings"`
}

// describe asks a server of a kind what it has. /health was asked before.
func (e *Engine) describe(ctx context.Context, kind string, health bool) (s *server, a about, page []byte) {
	s = whole(kind)
	s.health = health
	for _, path := range s.about {
		if body, err := e.get(ctx, path); err == nil && json.Unmarshal(body, &a) == nil {
			break
		}
	}
	page, err := e.get(ctx, "/metrics")
	s.metrics = err == nil && (!s.vllm() || bytes.Contains(page, []byte("vllm:")))
	if s.vllm() {
		return s, a, page
	}
	if asks := e.declared(ctx); asks != nil {
		s.salts, s.options = asks["cache_salt"], asks["stream_options"]
	}
	return s, a, page
}

// declared lists the members of a chat that a server says it reads, and of a completion as well; nil: it does
// not say.
func (e *Engine) declared(ctx context.Context) map[string]bool {
	var doc struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]json.RawMessage `json:"properties"`
			} `json:"schemas"`
		} `json:"components"`
	}
	body, err := e.get(ctx, "/openapi.json")
	if err != nil || json.Unmarshal(body, &doc) != nil {
		return nil
	}
	chat := doc.Components.Schemas["ChatCompletionRequest"].Properties
	if chat["messages"] == nil {
		return nil
	}
	both := map[string]bool{}
	for name := range chat {
		_, both[name] = doc.Components.Schemas["CompletionRequest"].Properties[name]
	}
	return both
}

// alive asks for a sign of life, and for the output tokens so far: nil where the server does not count.
func (e *Engine) alive(ctx context.Context) (*int64, []byte, error) {
	s := e.server.Load()
	switch {
	case s.metrics:
		page, err := e.get(ctx, "/metrics")
		return s.generated(page), page, err
	case s.health && !s.idle:
		_, err := e.get(ctx, "/health")
		return nil, nil, err
	}
	_, err := e.models(ctx)
	return nil, nil, err
}

// same lists what the server serves now, as adapters come and go. It returns an error where another kind of
// server has the address: it is to be looked at anew.
func (e *Engine) same(ctx context.Context, page []byte) (names []string, err error) {
	s := e.server.Load()
	plain := s.vllm() && s.metrics
	if plain && !bytes.Contains(page, []byte("vllm:")) {
		return nil, fmt.Errorf("%w: /metrics is no vLLM's", agentd.ErrAnother)
	}
	m, err := e.models(ctx)
	for _, served := range m.Data {
		names = append(names, served.ID)
	}
	if err != nil || plain || e.cfg.Kind != "" {
		return names, err
	}
	if kind, err := m.kind(s.vllm()); err != nil || kind != s.kind {
		return nil, errors.Join(err, fmt.Errorf("%w: it was of kind %s, and is %s now", agentd.ErrAnother,
			s.kind, kind))
	}
	return names, nil
}

// lacks says what a server lacks, and what that costs.
func (s *server) lacks(info *agentd.Info) (said []string) {
	lack := func(has bool, format string, args ...any) {
		if !has {
			said = append(said, fmt.Sprintf(format, args...))
		}
	}
	lack(s.health, "no /health: that it lists its models is all that shows it alive")
	lack(s.metrics, "no /metrics (start it %s): its load is the agent's own count, and a restart that takes "+
		"less than two looks is not seen", s.counting)
	lack(s.vllm() && s.metrics, "no counter that moves with each token: a hang is found by silence alone "+
		"(engine.first_event, engine.progress)")
	lack(s.vllm(), "no token ids: an answer that breaks off begins anew at another engine only if nothing of it "+
		"was shown, none goes on here, and the engine is asked for a token before it is trusted again")
	lack(s.vllm(), "no cache_salt that is sure to be heeded: what is believed, quoted and billed as cached "+
		"stays within a client's cache group, but how soon a first token comes may tell of the prompts of others")
	lack(s.options, "no stream_options: it reports no usage, and events are counted for tokens")
	lack(info.MaxModelLen > 0, "no context length: a prompt that is too long is refused by the engine itself")
	return said
}

// missing reports whether an answer says that the server has no such path.
func missing(status int) bool {
	return status == http.StatusNotFound || status == http.StatusMethodNotAllowed ||
		status == http.StatusNotImplemented
}
