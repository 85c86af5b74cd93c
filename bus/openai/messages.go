package openai

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"souk/bus"
)

// meant are members of a request to /v1/messages that mean the same to a chat.
var meant = []string{"model", "stream", "temperature", "top_p", "top_k", "souk", "cache_salt", "seed",
	"prompt_cache_key"}

// heard are all members that are known. Of the last four nothing changes an answer here: engines decide
// themselves what they keep, and who goes first is settled by the terms.
var heard = slices.Concat(meant, []string{"messages", "system", "max_tokens", "stop_sequences", "metadata",
	"tools", "tool_choice", "thinking", "output_config", "output_format", "context_management",
	"cache_control", "service_tier", "diagnostics", "user_profile_id"})

// instead names, of members of OpenAI's APIs, those that are meant here.
var instead = map[string]string{"max_completion_tokens": "max_tokens", "max_output_tokens": "max_tokens",
	"stop": "stop_sequences", "response_format": "output_config.format", "text": "output_config.format",
	"reasoning_effort": "output_config.effort", "reasoning": "output_config.effort",
	"user": "metadata.user_id", "parallel_tool_calls": "tool_choice.disable_parallel_tool_use", "functions": "tools", "input": "messages",
	"function_call": "tool_choice", "prompt": "messages", "instructions": "system"}

// ReadMessages reads the body of a request to /v1/messages, Anthropic's API, as the body of a chat that asks
// the same; the answer is written by [Message]. What no model but Anthropic's own would understand, or their
// servers would run, is CodeUnsupportedField.
func ReadMessages(data []byte) (chat []byte, no *bus.Error) {
	chat, err := readMessages(data)
	if err != nil {
		return nil, asError(err)
	}
	return chat, nil
}

// CountTokens estimates the tokens of the prompt of a request to /v1/messages: see [bus.Prompt].
func CountTokens(data []byte) (int, *bus.Error) {
	chat, no := ReadMessages(data)
	if no != nil {
		return 0, no
	}
	p, err := Measure(chat)
	if err != nil {
		return 0, asError(err)
	}
	return p.Tokens, nil
}

func readMessages(data []byte) ([]byte, error) {
	in, again, err := readMembers(data, heard, `{"model": "auto", "max_tokens": 100, `+
		`"messages": [{"role": "user", "content": "Hello"}]}`)
	switch {
	case err != nil:
		return nil, err
	case again != "":
		return nil, bad("%s: the member stands twice: send it once", again)
	}
	for _, name := range slices.Sorted(maps.Keys(in)) {
		switch other := instead[name]; {
		case slices.Contains(heard, name):
		case other != "":
			return nil, unsupported("%s: /v1/messages has no such member: send %s", name, other)
		default:
			return nil, unsupported("%.60s: /v1/messages does not know it: leave it out", name)
		}
	}
	messages, err := turnsOf(in["system"], in["messages"])
	if err != nil {
		return nil, err
	}
	out := map[string]any{"messages": messages}
	for _, name := range meant {
		if v, ok := in[name]; ok {
			out[name] = v
		}
	}
	for _, read := range []func(in map[string]json.RawMessage, out map[string]any) error{
		func(in map[string]json.RawMessage, out map[string]any) error {
			return mostTokens("max_tokens", in, out)
		},
		scalars, edits, ownTools.read, ownChoice, thinking, outputConfig,
	} {
		if err := read(in, out); err != nil {
			return nil, err
		}
	}
	chat, err := encodeJSON(out)
	if err != nil {
		return nil, bad("the body: %v", err)
	}
	return chat, nil
}

// scalars reads what is said otherwise to a chat, but for tools and thinking.
func scalars(in map[string]json.RawMessage, out map[string]any) error {
	var (
		stops    []string
		metadata struct {
			User string `json:"user_id"`
		}
	)
	for _, m := range []struct {
		name string
		to   any
		want string
	}{{"stop_sequences", &stops, "a list of texts"}, {"metadata", &metadata, "an object with a user_id"}} {
		if v, ok := in[m.name]; ok && json.Unmarshal(v, m.to) != nil {
			return bad("%s: %s is expected", m.name, m.want)
		}
	}
	if slices.Contains(stops, "") {
		return bad("stop_sequences: one of them is empty: leave it out")
	}
	if len(stops) > 0 {
		out["stop"] = stops
	}
	if metadata.User != "" {
		out["user"] = metadata.User
	}
	return nil
}

// edits refuses all edits but those of thoughts: what engines keep of these their templates decide. A body
// may have very many.
func edits(in map[string]json.RawMessage, _ map[string]any) (err error) {
	v, ok := in["context_management"]
	if !ok {
		return nil
	}
	s, n := Scan(v), 0
	each := func() bool {
		var b block
		at := fmt.Sprintf("context_management.edits[%d]", n)
		n++
		one, ok := s.Value()
		if ok {
			err = b.read(at, s.Text(one))
		}
		if ok && err == nil && !strings.HasPrefix(b.Type, "clear_thinking_") {
			err = unsupported("%s.type: %.60q is not done here: leave it out", at, b.Type)
		}
		return ok && err == nil
	}
	if !s.Object(func(key Span) bool {
		if string(s.Name(key)) == "edits" {
			return s.Array(each)
		}
		_, ok := s.Value()
		return ok
	}) && err == nil {
		err = bad("context_management: an object with a list of edits is expected")
	}
	return err
}

func ownChoice(in map[string]json.RawMessage, out map[string]any) error {
	v, ok := in["tool_choice"]
	if !ok {
		return nil
	}
	var choice struct {
		Type, Name string
		One        bool `json:"disable_parallel_tool_use"`
	}
	if json.Unmarshal(v, &choice) != nil {
		return bad(`tool_choice: an object is expected, such as {"type": "auto"}`)
	}
	switch same := map[string]string{"auto": "auto", "any": "required", "none": "none"}[choice.Type]; {
	case same != "":
		out["tool_choice"] = same
	case choice.Type == "tool" && choice.Name != "":
		out["tool_choice"] = map[string]any{"type": "function",
			"function": map[string]string{"name": choice.Name}}
	default:
		return bad("tool_choice.type: %.40q is none of auto, any, none, and tool with a name", choice.Type)
	}
	if choice.One {
		out["parallel_tool_calls"] = false
	}
	return nil
}

// thinking switches it on or off, by the two names that templates have for it. Where the model is to decide,
// nothing is said: some tokenizers refuse arguments of templates, and coding agents always leave it to the
// model. How much of it there may be no engine can be told; the answer's bound holds for both.
func thinking(in map[string]json.RawMessage, out map[string]any) error {
	v, ok := in["thinking"]
	if !ok {
		return nil
	}
	var kind struct{ Type string }
	kinds := []string{"enabled", "adaptive", "disabled"}
	if json.Unmarshal(v, &kind) != nil || !slices.Contains(kinds, kind.Type) {
		return bad(`thinking: an object is expected whose type is enabled, adaptive or disabled`)
	}
	if on := kind.Type == "enabled"; kind.Type != "adaptive" {
		out["chat_template_kwargs"] = map[string]bool{"enable_thinking": on, "thinking": on}
	}
	return nil
}

// outputConfig reads the shape of the answer's text, which older clients send by another name, and the
// effort.
func outputConfig(in map[string]json.RawMessage, out map[string]any) error {
	type form struct {
		Type   string
		Schema json.RawMessage
	}
	var config struct {
		Effort string
		Format *form
	}
	if v, ok := in["output_config"]; ok && json.Unmarshal(v, &config) != nil {
		return bad("output_config: an object with an effort and a format is expected")
	}
	if v, ok := in["output_format"]; ok && json.Unmarshal(v, &config.Format) != nil {
		return bad("output_format: an object with a type and a schema is expected")
	}
	switch e := config.Effort; e {
	case "", "high": // which is as if it were not there; engines of models that do not think may refuse any
	case "low", "medium":
		out["reasoning_effort"] = e
	case "xhigh", "max": // engines know three
		out["reasoning_effort"] = "high"
	default:
		return bad("output_config.effort: %.40q is none of low, medium, high, xhigh and max", e)
	}
	switch f := config.Format; {
	case f == nil:
	case f.Type != "json_schema":
		return unsupported("output_config.format.type: %.40q is not served here: json_schema is", f.Type)
	case len(f.Schema) == 0 || f.Schema[0] != '{':
		return bad("output_config.format.schema: an object is expected")
	default:
		out["response_format"] = map[string]any{"type": "json_schema",
			"json_schema": map[string]any{"name": "answer", "schema": f.Schema}}
	}
	return nil
}
