package vllmsim

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"souk/bus/openai"
)

// call is a request's body, as far as the stand-in looks at it. Unknown fields are accepted, as vLLM accepts
// them.
type call struct {
	chat      bool
	model     string
	messages  []Message
	tools     string // JSON, "" if none
	text      []string
	ids       [][]uint32
	hasPrompt bool

	maxTokens, minTokens, seed optional
	most                       optional // max_completion_tokens, which comes before max_tokens
	temperature, topP          float64
	stop                       texts
	stopIDs                    []uint32
	ignoreEOS, includeStop     bool
	stream                     bool
	options                    *streamOptions
	tokenIDs                   bool
	salt                       *string
	requestID                  string
	generation, special        *bool // add_generation_prompt, add_special_tokens; nil: true
	continueFinal              bool  // continue_final_message
	tokenStrings               bool  // return_token_strs
	template                   struct {
		Begin *string `json:"bos_token"` // the template's, named anew
	}
	unsupported string
}

type streamOptions struct {
	Usage      bool `json:"include_usage"`
	Continuous bool `json:"continuous_usage_stats"`
}

// Message is one message of a chat.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// optional is a whole number that may be absent.
type optional struct {
	n   int
	set bool
}

func (o optional) or(n int) int {
	if o.set {
		return o.n
	}
	return n
}

// UnmarshalJSON implements json.Unmarshaler.
func (o *optional) UnmarshalJSON(v []byte) error {
	o.set = string(v) != "null"
	return json.Unmarshal(v, &o.n)
}

// texts is one text or a list of them.
type texts []string

// UnmarshalJSON implements json.Unmarshaler.
func (t *texts) UnmarshalJSON(v []byte) error {
	if v[0] == '"' {
		*t = []string{""}
		return json.Unmarshal(v, &(*t)[0])
	}
	return json.Unmarshal(v, (*[]string)(t))
}

// reader walks a body a field at a time, without building a tree: an engine that takes no time must not spend
// the measured machine's time on decoding either. It keeps the first problem.
type reader struct {
	openai.Scanner
	problem *problem
}

// maxDepth bounds nesting, as Python's recursion limit does.
const maxDepth = 500

func scan(body []byte) *reader {
	r := &reader{Scanner: openai.Scan(body)}
	r.Deepest = maxDepth
	return r
}

func (r *reader) reject(p *problem) {
	r.problem = cmp.Or(r.problem, p)
}

// parse reads the body of a chat or a completion. It says what vLLM says about a body of the wrong shape.
func parse(body []byte, chat bool) (*call, *problem) {
	c := &call{chat: chat, temperature: 1, topP: 1}
	r := scan(body)
	hasMessages, fields := false, 0
	object := r.Next() == '{'
	if object {
		r.Object(func(key openai.Span) bool {
			name := string(r.Name(key))
			fields++
			hasMessages = hasMessages || name == "messages"
			return c.field(r, name)
		})
	} else {
		r.Value()
	}
	r.End()
	switch wrong, at := r.Wrong(); {
	case wrong != "":
		if wrong == openai.NoValue {
			wrong = "Expecting value" // as Python's json says it
		}
		loc := "body." + strconv.Itoa(at)
		m := fmt.Sprintf("1 validation error:\n  {'type': 'json_invalid', 'loc': '%s', 'msg': 'JSON decode "+
			"error', 'input': '<dict of 0 items>', 'ctx': {'error': '%s'}}", loc, wrong)
		return nil, &problem{400, m, "Bad Request", loc}
	case !object:
		return nil, invalid("model_attributes_type", "body",
			"Input should be a valid dictionary or object to extract fields from", describe(body))
	case r.problem == nil && chat && !hasMessages:
		r.problem = invalid("missing", "body.messages", "Field required",
			fmt.Sprintf("'<dict of %d items>'", fields))
	}
	if len(c.text)+len(c.ids) > 1 {
		c.unsupported = "several prompts"
	} else if c.options != nil && c.options.Continuous {
		c.unsupported = "continuous_usage_stats"
	}
	if c.most.set {
		c.maxTokens = c.most
	}
	if r.problem != nil {
		return nil, r.problem
	}
	return c, nil
}

// members says where the members of a body go that are read beside its messages, or its prompt.
var members = map[string]func(*call) any{
	"model":                      func(c *call) any { return &c.model },
	"max_tokens":                 func(c *call) any { return &c.maxTokens },
	"max_completion_tokens":      func(c *call) any { return &c.most },
	"min_tokens":                 func(c *call) any { return &c.minTokens },
	"seed":                       func(c *call) any { return &c.seed },
	"temperature":                func(c *call) any { return &c.temperature },
	"top_p":                      func(c *call) any { return &c.topP },
	"stop":                       func(c *call) any { return &c.stop },
	"stop_token_ids":             func(c *call) any { return &c.stopIDs },
	"ignore_eos":                 func(c *call) any { return &c.ignoreEOS },
	"include_stop_str_in_output": func(c *call) any { return &c.includeStop },
	"stream":                     func(c *call) any { return &c.stream },
	"stream_options":             func(c *call) any { return &c.options },
	"return_token_ids":           func(c *call) any { return &c.tokenIDs },
	"cache_salt":                 func(c *call) any { return &c.salt },
	"request_id":                 func(c *call) any { return &c.requestID },
	"add_generation_prompt":      func(c *call) any { return &c.generation },
	"continue_final_message":     func(c *call) any { return &c.continueFinal },
	"add_special_tokens":         func(c *call) any { return &c.special },
	"chat_template_kwargs":       func(c *call) any { return &c.template },
	"return_token_strs":          func(c *call) any { return &c.tokenStrings },
}

// field reads one member, at whose value the scanner is.
func (c *call) field(r *reader, key string) bool {
	switch key {
	case "messages":
		return r.messages(c)
	case "prompt":
		c.hasPrompt = true
		return r.prompts(c)
	}
	p, ok := r.Value()
	if to := members[key]; ok && to != nil {
		r.into(key, r.Text(p), to(c))
	} else if ok {
		c.other(key, string(r.Text(p)))
	}
	return ok
}

// other reads tools, and notes what the stand-in cannot do and must not pretend to.
func (c *call) other(key, v string) {
	off := v == "null" || v == "false" || v == "0" || v == "{}" || v == "[]" || v == `""`
	switch key {
	case "tools":
		if v != "null" && v != "[]" {
			c.tools = v
		}
		return
	case "logprobs", "top_logprobs", "prompt_logprobs", "echo", "suffix", "logit_bias", "structured_outputs",
		"prompt_embeds", "use_beam_search", "best_of", "bad_words", "allowed_token_ids",
		"truncate_prompt_tokens":
	case "response_format":
		off = off || strings.Contains(strings.ReplaceAll(v, " ", ""), `"type":"text"`)
	case "n":
		off = v == "null" || v == "1"
	case "tool_choice":
		off = off || v == `"auto"` || v == `"none"`
	default:
		off = true
	}
	if !off && c.unsupported == "" {
		c.unsupported = key
	}
}

// into reads a small value as encoding/json does, and rejects one of another type as pydantic does.
func (r *reader) into(key string, v []byte, to any) {
	if json.Unmarshal(v, to) == nil {
		return
	}
	kind, what := "dict", "dictionary"
	switch to.(type) {
	case *string, **string:
		kind, what = "string", "string"
	case *optional:
		kind, what = "int", "integer"
	case *float64:
		kind, what = "float", "number"
	case *bool, **bool:
		kind, what = "bool", "boolean"
	case *texts, *[]uint32:
		kind, what = "list", "list"
	}
	msg := "Input should be a valid " + what
	how := "_type"
	if v[0] == '"' && kind == "int" {
		how, msg = "_parsing", msg+", unable to parse string as an integer"
	}
	r.reject(invalid(kind+how, "body."+key, msg, describe(v)))
}

// unlike passes over a value and rejects it.
func (r *reader) unlike(key, kind, what string) bool {
	p, ok := r.Value()
	if ok {
		r.reject(invalid(kind+"_type", "body."+key, "Input should be a valid "+what, describe(r.Text(p))))
	}
	return ok
}

// prompts reads a string, a list of strings, a list of tokens, or a list of lists of tokens.
func (r *reader) prompts(c *call) bool {
	if r.Next() == '"' {
		s, ok := r.str()
		c.text = []string{s}
		return ok
	}
	if r.Next() != '[' {
		return r.unlike("prompt", "string", "string")
	}
	var flat []uint32
	ok := r.Array(func() bool {
		switch r.Next() {
		case '"':
			s, ok := r.str()
			c.text = append(c.text, s)
			return ok
		case '[':
			var ids []uint32
			ok := r.Array(func() bool { return r.token(&ids) })
			c.ids = append(c.ids, ids)
			return ok
		}
		return r.token(&flat)
	})
	if flat != nil {
		c.ids = append(c.ids, flat)
	}
	return ok
}

// token reads the id of a token.
func (r *reader) token(to *[]uint32) bool {
	if c := r.Next(); c < '0' || c > '9' {
		return r.unlike("prompt", "int", "integer")
	}
	n, ok := r.Count()
	*to = append(*to, uint32(n))
	return ok
}

func (r *reader) messages(c *call) bool {
	if r.Next() != '[' {
		return r.unlike("messages", "list", "list")
	}
	return r.Array(func() bool {
		at := "messages." + strconv.Itoa(len(c.messages))
		c.messages = append(c.messages, Message{})
		m, hasRole := &c.messages[len(c.messages)-1], false
		if r.Next() != '{' {
			return r.unlike(at, "dict", "dictionary")
		}
		ok := r.Object(func(key openai.Span) bool {
			if r.Next() == '"' && string(r.Name(key)) == "content" {
				s, ok := r.str()
				m.Content = s
				return ok
			}
			p, ok := r.Value()
			if !ok {
				return false
			}
			switch v := r.Text(p); string(r.Name(key)) {
			case "role":
				hasRole = true
				r.into(at+".role", v, &m.Role)
			case "content":
				r.parts(at+".content", v, m)
			case "tool_calls":
				if len(v) > 4 {
					m.Content += "<tool_call>" + string(v) + "</tool_call>"
				}
			}
			return true
		})
		if ok && !hasRole {
			r.reject(invalid("missing", "body."+at+".role", "Field required", "'<dict>'"))
		}
		return ok
	})
}

// parts reads a content that is null or a list of parts, of which only texts are known.
func (r *reader) parts(at string, v []byte, m *Message) {
	var parts []struct{ Type, Text string }
	if json.Unmarshal(v, &parts) != nil {
		r.into(at, v, new(string))
	}
	for i, p := range parts {
		if p.Type != "text" && p.Type != "" {
			r.reject(badRequest("", "At most 0 %s(s) may be provided in one prompt.",
				strings.TrimSuffix(p.Type, "_url")))
		}
		if i > 0 {
			m.Content += "\n"
		}
		m.Content += p.Text
	}
}

// str reads a string.
func (r *reader) str() (string, bool) {
	p, ok := r.Str()
	if !ok {
		return "", false
	}
	text := r.Name(p)
	if !utf8.Valid(text) {
		return string([]rune(string(text))), true
	}
	return string(text), true
}

// describe shows a value in the words of an error.
func describe(v []byte) string {
	var s string
	if json.Unmarshal(v, &s) == nil {
		return "'" + s + "'"
	}
	return string(v[:min(len(v), 100)])
}
