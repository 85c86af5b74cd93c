package bus

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Limits of what an answer may have delivered and still go on elsewhere. With the largest body they fit in
// one message.
const (
	MaxResumeTokens = MaxItems
	MaxResumeText   = 256 << 10 // bytes
)

// Resume is what a reader has of an answer that broke off. It comes with the task as it was first sent, so that
// another agent of the same model can go on: from zero where nothing was delivered.
type Resume struct {
	Agent  string   `msgpack:"agent"`            // that broke off
	Seq    uint64   `msgpack:"seq,omitempty"`    // number of the next chunk
	Tokens []uint32 `msgpack:"tokens,omitempty"` // output tokens delivered
	Text   string   `msgpack:"text,omitempty"`   // and their text
}

func (r *Resume) problems(p *problems) {
	p.id("resume.agent", r.Agent)
	p.number("resume.seq", r.Seq)
	p.list("resume.tokens", len(r.Tokens), MaxResumeTokens)
	p.text("resume.text", len(r.Text), MaxResumeText)
	if len(r.Tokens) == 0 && r.Text != "" {
		p.add("resume.text: %d bytes, but no tokens: an answer goes on by its tokens", len(r.Text))
	}
}

// CanContinue says why an answer to this body cannot go on at another engine once some of it is delivered; nil
// if it can. The other engine gets the prompt's and the answer's token ids as a prompt, so whatever keeps a state
// beside them would begin anew: grammars, parsers of tool calls, counts of what was said. With tools a call might
// begin at any later token, and no parser of the other engine's would read it. Members that are not known to be
// safe are not.
func CanContinue(body []byte) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		return bad("the body is not a JSON object: %v", err)
	}
	names := make([]string, 0, len(members))
	for name := range members {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		v := members[name]
		if isOne(v, "null") || slices.Contains(harmless, name) {
			continue
		}
		neutral, known := harmlessAs[name]
		switch {
		case known && isOne(v, neutral...):
		case name == "messages" && !onlyText(v):
			return unsupported("messages: images and other parts that are not text cannot be continued elsewhere")
		case name == "messages":
		case name == "response_format" && plainFormat(v):
		case (name == "frequency_penalty" || name == "presence_penalty") && isNumber(v) &&
			isOne(members["repetition_penalty"], "", "null", "1", "1.0"): // what they take from a token is a bias, unless another is multiplied with it
		case (name == "logprobs" || name == "top_logprobs") && isCount(v): // the same values, in another shape
		case name == "min_tokens" && (isOne(v, "0") || isOne(members["stop"], "", "null", "[]", `""`)):
		default:
			return unsupported("%s: an answer under it cannot be continued elsewhere", name)
		}
	}
	return nil
}

// harmless members are either of the whole request, or their effect depends on the tokens alone.
var harmless = []string{
	"model", "prompt", "stream", "stream_options", "max_tokens", "max_completion_tokens", "return_token_ids", "user", "priority", "request_id",
	"cache_salt", "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "stop", "stop_token_ids", "ignore_eos", "seed", "logit_bias",
	"allowed_token_ids", "skip_special_tokens", "spaces_between_special_tokens", "chat_template", "chat_template_kwargs", "add_generation_prompt",
	"add_special_tokens", "continue_final_message",
}

// harmlessAs are members that mean nothing at these values.
var harmlessAs = map[string][]string{
	"n": {"1"}, "best_of": {"1"}, "echo": {"false"}, "logprobs": {"true", "false"}, "use_beam_search": {"false"},
	"frequency_penalty": {"0", "0.0"}, "presence_penalty": {"0", "0.0"}, "bad_words": {"[]"}, "include_stop_str_in_output": {"false"},
	"tools": {"[]"}, "tool_choice": {`"none"`, `"auto"`}, "parallel_tool_calls": {"true", "false"}, "suffix": {`""`},
}

func isNumber(v json.RawMessage) bool {
	var x float64
	return json.Unmarshal(v, &x) == nil
}

func isCount(v json.RawMessage) bool {
	var n uint8
	return json.Unmarshal(v, &n) == nil
}

func isOne(v json.RawMessage, of ...string) bool {
	return slices.Contains(of, string(bytes.TrimSpace(v)))
}

func plainFormat(v json.RawMessage) bool {
	var f struct {
		Type string `json:"type"`
	}
	return json.Unmarshal(v, &f) == nil && f.Type == "text"
}

func onlyText(messages json.RawMessage) bool {
	var list []struct {
		Content json.RawMessage `json:"content"`
	}
	if json.Unmarshal(messages, &list) != nil {
		return false
	}
	for _, m := range list {
		var parts []struct {
			Type string `json:"type"`
		}
		if !strings.HasPrefix(string(m.Content), "[") {
			continue
		}
		if json.Unmarshal(m.Content, &parts) != nil {
			return false
		}
		for _, p := range parts {
			if p.Type != "text" {
				return false
			}
		}
	}
	return true
}

// Logprobs reports whether the event says log probabilities and nothing beyond text and tokens. These do not keep an answer from
// going on elsewhere; what a parser of the engine's adds does, for its state does not go along.
func (x Extra) Logprobs() bool {
	var c struct {
		Index int                        `json:"index"`
		Delta map[string]json.RawMessage `json:"delta"`
		Log   json.RawMessage            `json:"logprobs"`
	}
	if json.Unmarshal(x.Choice, &c) != nil || c.Index != 0 || isOne(c.Log, "", "null") {
		return false
	}
	for name, v := range c.Delta {
		if name != "role" && name != "content" && !isOne(v, "null") {
			return false
		}
	}
	return true
}

// Broken reports whether a failure lies with an agent or its engine, so that another may do better.
func (c Code) Broken() bool { return c == CodeEngineFailed || c == CodeAgentFailed }

// CannotContinue is the last word of an answer that broke off and cannot go on.
func CannotContinue(r Result, why error) Result {
	r.Message = clipText(fmt.Sprintf("%s; what was delivered is not continued: %v", r.Message, messageOf(why)))
	return r
}

func messageOf(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Message
	}
	return err.Error()
}

func clipText(s string) string {
	if len(s) > MaxText {
		return strings.ToValidUTF8(s[:MaxText-3], "") + "..."
	}
	return s
}
