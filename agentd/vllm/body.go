package vllm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"souk/agentd"
	"souk/bus/openai"
)

// rewrite appends to dst the body as the engine shall get it: our model, a forced stream, with usage and
// token ids, our limit on tokens, our salt, as far as the server knows these, and without the member "souk".
// Everything else stays byte for byte, in its order, so that a prompt's cached prefix never depends on who
// re-encoded it. asks lists the features that the body needs of an engine.
func rewrite(dst, body []byte, r agentd.Request, to *server) (out []byte, asks kinds, err error) {
	dst = append(dst, `{"model":`...)
	model, err := json.Marshal(r.Model)
	if err != nil {
		return nil, 0, err
	}
	dst = append(dst, model...)
	dst = append(dst, `,"stream":true`...)
	if to.options {
		dst = append(dst, `,"stream_options":{"include_usage":true}`...)
	}
	if to.vllm() {
		dst = append(dst, `,"return_token_ids":true`...)
	}
	if r.MaxTokens > 0 {
		// Chat prefers max_completion_tokens, completions know max_tokens alone; both take this one.
		dst = append(dst, `,"max_tokens":`...)
		dst = strconv.AppendInt(dst, int64(r.MaxTokens), 10)
	}
	if r.Salt != "" && to.salts {
		dst = append(append(append(dst, `,"cache_salt":"`...), r.Salt...), '"') // an id: nothing to escape
	}
	s := openai.Scan(body)
	s.NotNumbers = true // for the engine to judge
	ok := s.Object(func(key openai.Span) bool {
		value, ok := s.Value()
		if name := s.Name(key); ok && !ours(name) {
			asks |= kindOf(name, s.Text(value))
			dst = append(append(dst, ','), s.Text(openai.Span{From: key.From, To: value.To})...)
		}
		return ok
	})
	if !ok || !s.End() {
		return nil, 0, fmt.Errorf("the body is not a JSON object: %w", s.Err())
	}
	return append(dst, '}'), asks, nil
}

// kinds are features that requests need of an engine beside plain text. At the first request of a kind an
// engine loads and compiles code, and does nothing else for seconds: vLLM 0.32 on a CPU is silent for 2.6 s
// at the first logprobs.
type kinds uint8

const (
	kindLogprobs kinds = 1 << iota
	kindGrammar
	kindTools
	kindChoice // of tools, by a grammar
	kindTop
	kindPenalty
	kindBias
	kindSeed
)

// kindsOf are the members of a body that ask for a kind.
var kindsOf = map[string]kinds{
	"logprobs": kindLogprobs, "top_logprobs": kindLogprobs, "prompt_logprobs": kindLogprobs,
	"response_format": kindGrammar, "structured_outputs": kindGrammar,
	"tools": kindTools, "tool_choice": kindChoice,
	"top_p": kindTop, "top_k": kindTop, "min_p": kindTop,
	"frequency_penalty": kindPenalty, "presence_penalty": kindPenalty, "repetition_penalty": kindPenalty,
	"logit_bias": kindBias, "bad_words": kindBias, "allowed_token_ids": kindBias,
	"seed": kindSeed,
}

// kindOf is the kind that a member of a body asks for, if any.
func kindOf(name, value []byte) kinds {
	k := kindsOf[string(name)]
	switch string(value) { // what clients write who ask for nothing
	case "null", "false", "[]", "{}", "0", "0.0", "1", "1.0", `"auto"`, `"none"`:
		// of completions "logprobs": 1, and 0, are numbers of tokens
		if number := value[0] <= '9' && value[0] >= '0'; !number || k != kindSeed && k != kindLogprobs {
			return 0
		}
	}
	if string(name) == "response_format" && !bytes.Contains(value, []byte("json")) {
		return 0
	}
	return k
}

// ours reports whether a member is replaced or dropped.
func ours(name []byte) bool {
	switch string(name) {
	case "model", "stream", "stream_options", "max_tokens", "max_completion_tokens", "return_token_ids",
		"cache_salt", "souk":
		return true
	}
	return false
}
