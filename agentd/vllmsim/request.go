package vllmsim

import (
	"fmt"
	"strconv"
	"strings"
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

	maxTokens, minTokens, n, seed optional
	temperature, topP             float64
	stop                          []string
	stopIDs                       []uint32
	ignoreEOS, includeStop        bool
	stream, includeUsage          bool
	continuous, hasOptions        bool
	tokenIDs                      bool
	salt                          *string
	requestID                     string
	noGeneration, continueFinal   bool    // add_generation_prompt: false, continue_final_message
	noSpecial                     bool    // add_special_tokens: false
	tokenStrings                  bool    // return_token_strs
	begin                         *string // chat_template_kwargs.bos_token: the template's, named anew
	unsupported                   string
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

// reader reads a body; it keeps the first problem.
type reader struct {
	scanner
	problem *problem
}

func (r *reader) reject(p *problem) {
	if r.problem == nil {
		r.problem = p
	}
}

const noObject = "Input should be a valid dictionary or object to extract fields from"

// parse reads the body of a chat or a completion. It says what vLLM says about a body of the wrong shape.
func parse(body []byte, chat bool) (*call, *problem) {
	c := &call{chat: chat, temperature: 1, topP: 1}
	r := &reader{scanner: scan(body)}
	if r.Next() != '{' {
		if r.value(); r.End() {
			return nil, invalid("model_attributes_type", "body", noObject, describe(body))
		}
	}
	hasMessages := false
	fields := 0
	r.object(func(key string) {
		fields++
		hasMessages = hasMessages || key == "messages"
		c.field(r, key)
	})
	r.End()
	if wrong, at := r.wrong(); wrong != "" {
		loc := "body." + strconv.Itoa(at)
		m := fmt.Sprintf("1 validation error:\n  {'type': 'json_invalid', 'loc': '%s', 'msg': 'JSON decode "+
			"error', 'input': '<dict of 0 items>', 'ctx': {'error': '%s'}}", loc, wrong)
		return nil, &problem{400, m, "Bad Request", loc}
	}
	if r.problem != nil {
		return nil, r.problem
	}
	if chat && !hasMessages {
		return nil, invalid("missing", "body.messages", "Field required",
			fmt.Sprintf("'<dict of %d items>'", fields))
	}
	return c, nil
}

func (c *call) field(r *reader, key string) {
	switch key {
	case "model":
		c.model = r.text(key)
	case "messages":
		c.messages = r.messages()
	case "prompt":
		c.hasPrompt = true
		c.text, c.ids = r.prompts()
	case "tools":
		if v := r.value(); string(v) != "null" && string(v) != "[]" {
			c.tools = string(v)
		}
	case "max_tokens", "max_completion_tokens":
		if n := r.integer(key); n.set && (key == "max_completion_tokens" || !c.maxTokens.set) {
			c.maxTokens = n
		}
	case "min_tokens":
		c.minTokens = r.integer(key)
	case "n":
		c.n = r.integer(key)
	case "seed":
		c.seed = r.integer(key)
	case "temperature":
		c.temperature = r.number(key, 1)
	case "top_p":
		c.topP = r.number(key, 1)
	case "stop":
		c.stop = r.strings(key)
	case "stop_token_ids":
		c.stopIDs = r.tokens(key)
	case "ignore_eos":
		c.ignoreEOS = r.boolean(key, false)
	case "include_stop_str_in_output":
		c.includeStop = r.boolean(key, false)
	case "stream":
		c.stream = r.boolean(key, false)
	case "stream_options":
		c.options(r)
	case "return_token_ids":
		c.tokenIDs = r.boolean(key, false)
	case "cache_salt":
		if s, ok := r.maybeText(key); ok {
			c.salt = &s
		}
	case "request_id":
		c.requestID = r.text(key)
	case "add_generation_prompt":
		c.noGeneration = !r.boolean(key, true)
	case "continue_final_message":
		c.continueFinal = r.boolean(key, false)
	case "add_special_tokens":
		c.noSpecial = !r.boolean(key, true)
	case "chat_template_kwargs":
		c.templateArgs(r)
	case "return_token_strs":
		c.tokenStrings = r.boolean(key, false)
	default:
		c.other(r, key)
	}
}

// other notes what the stand-in cannot do and must not pretend to.
func (c *call) other(r *reader, key string) {
	v := string(r.value())
	off := v == "null" || v == "false" || v == "0" || v == "{}" || v == "[]" || v == `""`
	switch key {
	case "logprobs", "top_logprobs", "prompt_logprobs", "echo", "suffix", "logit_bias", "structured_outputs",
		"prompt_embeds", "use_beam_search", "best_of", "bad_words", "allowed_token_ids",
		"truncate_prompt_tokens":
	case "response_format":
		off = off || strings.Contains(strings.ReplaceAll(v, " ", ""), `"type":"text"`)
	case "tool_choice":
		off = off || v == `"auto"` || v == `"none"`
	default:
		off = true
	}
	if !off && c.unsupported == "" {
		c.unsupported = key
	}
}

// templateArgs reads the one variable of the template that a client can set.
func (c *call) templateArgs(r *reader) {
	r.dict("dict_type", "chat_template_kwargs", "Input should be a valid dictionary", func(key string) {
		if key != "bos_token" || r.Next() != '"' {
			r.value()
			return
		}
		s := r.str()
		c.begin = &s
	})
}

func (c *call) options(r *reader) {
	c.hasOptions = r.Next() == '{'
	r.dict("model_attributes_type", "stream_options", noObject, func(key string) {
		switch key {
		case "include_usage":
			c.includeUsage = r.boolean("stream_options."+key, true)
		case "continuous_usage_stats":
			c.continuous = r.boolean("stream_options."+key, false)
		default:
			r.value()
		}
	})
}
