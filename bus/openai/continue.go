package openai

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"souk/bus"
)

// CanContinue says why an answer to this body cannot go on at another engine once r of it is delivered; nil
// if it can. The other engine gets the prompt's and the answer's token ids as a prompt, so whatever keeps
// a state beside them would begin anew: grammars, and counts of what was said. Members that are not known to
// be safe are not.
//
// Parsers of tool calls and of reasoning keep their state in the tokens, and another engine's can read these.
// parses reports whether they alone can tell how the answer goes on: a tool call may begin with any token,
// and where reasoning ends they alone know, as they do what an effort makes of a prompt. Reasoning that has
// ended is no matter. They say nothing of log probabilities, and a stop string is not found in what they have
// taken apart.
func CanContinue(r *bus.Resume, body []byte) (parses bool, err error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		return false, bad("the body is not a JSON object: %v", err)
	}
	if err := canContinue(members); err != nil {
		return false, err
	}
	tools := !isOne(members["tools"], "", "null", "[]") && !isOne(members["tool_choice"], `"none"`)
	parses = tools || len(r.Calls) > 0 || !isOne(members["reasoning_effort"], "", "null") ||
		r.Reasoning != "" && r.Text == ""
	switch parsed := parses || r.Reasoning != ""; {
	case parsed && !isOne(members["stop"], "", "null", "[]", `""`):
		return false, unsupported("stop: beside tools or reasoning it cannot be continued elsewhere")
	case parsed && !isOne(members["logprobs"], "", "null", "false"):
		return false, unsupported("logprobs: beside tools or reasoning they cannot be continued elsewhere")
	}
	return parses, nil
}

// canContinue judges the members of a body alone.
func canContinue(members map[string]json.RawMessage) error {
	for _, name := range slices.Sorted(maps.Keys(members)) {
		v := members[name]
		if isOne(v, "null") || slices.Contains(harmless, name) {
			continue
		}
		neutral, known := harmlessAs[name]
		var format object
		switch {
		case known && isOne(v, neutral...):
		case name == "messages" && !onlyText(v):
			return unsupported("messages: images and other parts that are not text cannot be continued " +
				"elsewhere")
		case name == "messages":
		case name == "response_format" && json.Unmarshal(v, &format) == nil &&
			isOne(format["type"], `"text"`):
		case (name == "frequency_penalty" || name == "presence_penalty") &&
			json.Unmarshal(v, new(float64)) == nil &&
			// what they take from a token is a bias, unless another is multiplied with it
			isOne(members["repetition_penalty"], "", "null", "1", "1.0"):
		// the same values, in another shape
		case (name == "logprobs" || name == "top_logprobs") && json.Unmarshal(v, new(uint8)) == nil:
		case name == "tools" && isOne(members["tool_choice"], "", "null", `"auto"`, `"none"`):
		case name == "min_tokens" && (isOne(v, "0") || isOne(members["stop"], "", "null", "[]", `""`)):
		default:
			return unsupported("%s: an answer under it cannot be continued elsewhere", name)
		}
	}
	return nil
}

// harmless members are either of the whole request, or their effect depends on the tokens alone.
var harmless = []string{
	"model", "prompt", "stream", "stream_options", "max_tokens", "max_completion_tokens", "return_token_ids",
	"user", "priority", "request_id",
	"cache_salt", "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "stop", "stop_token_ids",
	"ignore_eos", "seed", "logit_bias",
	"allowed_token_ids", "skip_special_tokens", "spaces_between_special_tokens", "chat_template",
	"chat_template_kwargs", "add_generation_prompt",
	"add_special_tokens", "continue_final_message", "reasoning_effort",
	// of the whole request, and of no concern to an engine, which ignores them
	"prompt_cache_key", "prompt_cache_retention", "prompt_cache_options", "metadata", "store", "service_tier",
	"safety_identifier", "prediction", "modalities",
}

// harmlessAs are members that mean nothing at these values.
var harmlessAs = map[string][]string{
	"n": {"1"}, "best_of": {"1"}, "echo": {"false"}, "logprobs": {"true", "false"},
	"use_beam_search":   {"false"},
	"frequency_penalty": {"0", "0.0"}, "presence_penalty": {"0", "0.0"}, "bad_words": {"[]"},
	"include_stop_str_in_output": {"false"},
	"tools":                      {"[]"}, "include_reasoning": {"true"}, "tool_choice": {`"none"`, `"auto"`},
	"parallel_tool_calls": {"true", "false"}, "suffix": {`""`},
}

func isOne(v json.RawMessage, of ...string) bool {
	return slices.Contains(of, string(bytes.TrimSpace(v)))
}

// object has the members of a JSON object, by their very names: [encoding/json] takes "Type" for type. Of two
// of a name it has the last, as engines do.
type object map[string]json.RawMessage

func onlyText(messages json.RawMessage) bool {
	var list []object
	if json.Unmarshal(messages, &list) != nil {
		return false
	}
	for _, m := range list {
		var parts []object
		if !strings.HasPrefix(string(m["content"]), "[") {
			continue
		}
		if json.Unmarshal(m["content"], &parts) != nil {
			return false
		}
		for _, p := range parts {
			if !isOne(p["type"], `"text"`) {
				return false
			}
		}
	}
	return true
}

// Parsed reads an event that an engine's parser made of tokens. ok reports whether it holds nothing beyond
// reasoning, tool calls, text, tokens and log probabilities: such events do not keep an answer from going on
// elsewhere. calls has the ids of the tool calls that it begins, by their index.
func Parsed(x bus.Extra) (reasoning string, calls map[int]string, ok bool) {
	var c struct {
		Index int                        `json:"index"`
		Delta map[string]json.RawMessage `json:"delta"`
		Log   json.RawMessage            `json:"logprobs"`
	}
	if json.Unmarshal(x.Choice, &c) != nil || c.Index != 0 {
		return "", nil, false
	}
	logs := !isOne(c.Log, "", "null")
	if len(c.Delta) == 0 {
		return "", nil, logs
	}
	for name, v := range c.Delta {
		var err error
		switch {
		case name == "role" || name == "content" || isOne(v, "null"):
		case logs:
			return "", nil, false
		// as vLLM names it, and as it did
		case name == "reasoning", name == "reasoning_content" && isOne(c.Delta["reasoning"], "", "null"):
			err = json.Unmarshal(v, &reasoning)
		case name == "reasoning_content": // the same twice
		case name == "tool_calls":
			var list []callPart
			list, err = callParts(v)
			for _, call := range list {
				switch {
				case call.Index == nil || *call.Index < 0 || *call.Index >= bus.MaxCalls ||
					len(call.ID) > bus.MaxCallID:
					return "", nil, false
				case call.ID != "":
					if calls == nil {
						calls = map[int]string{}
					}
					calls[*call.Index] = call.ID
				}
			}
		default:
			return "", nil, false
		}
		if err != nil {
			return "", nil, false
		}
	}
	return reasoning, calls, true
}
