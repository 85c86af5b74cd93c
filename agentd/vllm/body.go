package vllm

import (
	"encoding/json"
	"fmt"
	"strconv"

	"souk/agentd"
	"souk/bus/openai"
)

// rewrite appends to dst the body as the engine shall get it: our model, a forced stream with usage and token
// ids, our limit on tokens, and without the member "souk". Everything else stays byte for byte, in
// its order, so that a prompt's cached prefix never depends on who re-encoded it.
func rewrite(dst, body []byte, r agentd.Request) ([]byte, error) {
	dst = append(dst, `{"model":`...)
	model, err := json.Marshal(r.Model)
	if err != nil {
		return nil, err
	}
	dst = append(dst, model...)
	dst = append(dst, `,"stream":true,"stream_options":{"include_usage":true},"return_token_ids":true`...)
	if r.MaxTokens > 0 {
		// Chat prefers max_completion_tokens, completions know max_tokens alone; both take this one.
		dst = append(dst, `,"max_tokens":`...)
		dst = strconv.AppendInt(dst, int64(r.MaxTokens), 10)
	}
	s := openai.Scan(body)
	s.NotNumbers = true // for the engine to judge
	ok := s.Object(func(key openai.Span) bool {
		value, ok := s.Value()
		if ok && !ours(s.Name(key)) {
			dst = append(append(dst, ','), s.Text(openai.Span{From: key.From, To: value.To})...)
		}
		return ok
	})
	if !ok || !s.End() {
		return nil, fmt.Errorf("the body is not a JSON object: %w", s.Err())
	}
	return append(dst, '}'), nil
}

// ours reports whether a member is replaced or dropped.
func ours(name []byte) bool {
	switch string(name) {
	case "model", "stream", "stream_options", "max_tokens", "max_completion_tokens", "return_token_ids",
		"souk":
		return true
	}
	return false
}

// promptOf is the body of a completion whose prompt is tokens.
func promptOf(r agentd.Request) ([]byte, error) {
	return json.Marshal(struct {
		Model     string          `json:"model"`
		Prompt    []uint32        `json:"prompt"`
		MaxTokens int             `json:"max_tokens"`
		Stream    bool            `json:"stream"`
		Options   map[string]bool `json:"stream_options"`
		Salt      json.RawMessage `json:"cache_salt,omitempty"`
	}{r.Model, r.IDs, r.MaxTokens, true, map[string]bool{"include_usage": true}, r.Salt})
}
