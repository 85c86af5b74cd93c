package vllm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"souk/agentd"
	"souk/bus"
	"souk/bus/openai"
)

// usage is the usage that an engine reports. Cached is -1 where it reports none: absent is not 0.
type usage struct{ Prompt, Output, Cached int }

// event is one server-sent event, decoded. Its text and ids are appended to the batch; an event holds their
// offsets.
type event struct {
	text, ids int    // lengths of the batch's text and ids before this event
	finish    string // "" = null
	stop      []byte // raw, nil = null
	usage     usage
	metered   bool     // usage is set
	prompt    []uint32 // ids of the prompt; nil: none were said
	extra     [][]byte
	thinks    bool // it has reasoning
}

// batch gathers the events of one read of the socket. Its text and ids are reused from read to read.
type batch struct {
	text   []byte
	ids    []uint32
	count  int
	events int
	prompt []uint32
	extra  []bus.Extra

	// Of the stream, not of a read.
	finish    string
	stop      []byte
	usage     usage
	metered   bool
	promptIDs int
	thinks    bool // it reasons: what comes before words, tools or the end is part of that

	thought int // of ids, the first ones that are reasoning

	prefix []byte // what every event of this stream begins with; see read
}

// add takes in one event's payload.
func (b *batch) add(payload []byte) error {
	e := event{text: len(b.text), ids: len(b.ids)}
	err := b.read(payload, &e)
	if err != nil {
		b.text, b.ids = b.text[:e.text], b.ids[:e.ids]
		if own := (*agentd.EngineError)(nil); errors.As(err, &own) {
			return err
		}
		return &agentd.EngineError{Code: bus.CodeEngineFailed, Err: err,
			Message: "the engine sent an event that cannot be read", Said: fmt.Sprintf("%.120q", payload)}
	}
	b.events++
	switch said := len(b.text) > e.text || len(e.extra) > 0; {
	case len(b.ids) > e.ids:
		b.count += len(b.ids) - e.ids
	case said:
		b.count++ // without ids the best guess; usage corrects it
	}
	if b.thinks = b.thinks || e.thinks; b.thinks {
		if b.thinks = e.thinks || len(e.extra) == 0 && len(bytes.TrimSpace(b.text[e.text:])) == 0; b.thinks {
			b.thought = len(b.ids)
		}
	}
	for _, raw := range e.extra {
		b.extra = append(b.extra, bus.Extra{At: e.text, Choice: bytes.Clone(raw)})
	}
	if len(e.prompt) > 0 {
		b.prompt, b.promptIDs = e.prompt, len(e.prompt)
	}
	if e.finish != "" {
		b.finish, b.stop = e.finish, bytes.Clone(e.stop)
	}
	if e.metered {
		b.usage, b.metered = e.usage, true // with usage in every chunk, the last counts
	}
	return nil
}

// take returns what was gathered as a Chunk of its own memory and makes room for the next read.
func (b *batch) take() agentd.Chunk {
	c := agentd.Chunk{Text: string(b.text), Count: b.count, Thought: b.thought, Prompt: len(b.prompt),
		PromptIDs: b.prompt, Extra: b.extra,
		Events: b.events, Finish: b.finish != "" && b.finish != "abort"}
	if len(b.ids) > 0 {
		c.Tokens = append(make([]uint32, 0, len(b.ids)), b.ids...)
	}
	b.text, b.ids, b.extra = b.text[:0], b.ids[:0], nil
	b.count, b.events, b.prompt, b.thought = 0, 0, nil, 0
	return c
}

// read reads a payload into e and b.text, b.ids, as encoding/json would, of whose time and allocations a
// stream has none to spare: nearly every event is
//
//	{"id":"...","object":"...","created":1,"model":"...","choices":[{"index":0,
//	 "delta":{"content":" so"},"logprobs":null,"finish_reason":null,"token_ids":[7]}]}
//
// All events of a stream begin with the same id, object, time and model. Where the members before "choices"
// are byte for byte those of an event already read, they are not read again.
func (b *batch) read(payload []byte, e *event) error {
	rest, within := payload, len(b.prefix) > 0 && bytes.HasPrefix(payload, b.prefix)
	if within {
		rest = payload[len(b.prefix):]
	}
	s := openai.Scan(rest)
	var failed []byte // the member "error"
	var prompt []uint32
	top := func(key openai.Span) (ok bool) {
		switch string(s.Name(key)) {
		case "choices":
			if len(b.prefix) == 0 && !e.metered && prompt == nil && failed == nil {
				b.prefix = bytes.Clone(payload[:key.From])
			}
			return s.Null() || s.Array(func() bool { return b.choice(&s, e) })
		case "usage":
			e.metered = s.Next() != 'n'
			return s.Null() || e.usage.read(&s)
		case "prompt_token_ids":
			prompt, ok = appendIDs(nil, &s)
			return ok
		case "error":
			failed, ok = value(&s)
			return ok
		}
		_, ok = s.Value()
		return ok
	}
	if within {
		s.Members(top)
	} else {
		s.Object(top)
	}
	switch {
	case !s.End() || s.Err() != nil:
		return s.Err()
	case !null(failed):
		return brokenOff(failed, payload)
	case len(e.prompt) == 0:
		e.prompt = prompt
	}
	return nil
}

// value reads any value.
func value(s *openai.Scanner) ([]byte, bool) {
	p, ok := s.Value()
	return s.Text(p), ok
}

func null(raw []byte) bool { return len(raw) == 0 || string(raw) == "null" }

// appendIDs reads a list of token ids, of which there may be a hundred thousand, or null.
func appendIDs(dst []uint32, s *openai.Scanner) ([]uint32, bool) {
	ok := s.Null() || s.Array(func() bool {
		id, ok := s.Count()
		dst = append(dst, uint32(id))
		return ok
	})
	return dst, ok
}

// brokenOff turns an error event into an error. vLLM judges some of a request only once the stream has begun:
// log probabilities, token ids beyond the vocabulary, grammars. Such an event is a refusal, as by the
// response's status, and no fault of the engine.
func brokenOff(raw, payload []byte) *agentd.EngineError {
	var said struct {
		Code int `json:"code"`
	}
	if json.Unmarshal(raw, &said) == nil {
		switch e := refused(said.Code, payload); e.Code {
		case bus.CodeEngineRefused, bus.CodeUnknownModel, bus.CodePromptTooLong:
			return e
		}
	}
	return &agentd.EngineError{Code: bus.CodeEngineFailed, Status: 500,
		Message: "the engine broke off", Said: complaint(payload)}
}

// choice reads one of an event's choices.
func (b *batch) choice(s *openai.Scanner, e *event) bool {
	raw, from, index, plain := *s, len(b.ids), 0, true
	var text, content, finish openai.Span
	var stop []byte
	var prompt []uint32
	ok := s.Object(func(key openai.Span) (ok bool) {
		switch string(s.Name(key)) {
		case "index":
			if ok = s.Null(); !ok {
				index, ok = s.Count()
			}
		case "delta":
			ok = s.Null() || s.Object(func(key openai.Span) (ok bool) {
				switch name := string(s.Name(key)); name {
				case "role":
					_, ok = s.Value()
				case "content":
					content, ok = maybeStr(s)
				default:
					v, read := value(s)
					plain, ok = plain && null(v), read
					e.thinks = e.thinks || (name == "reasoning" || name == "reasoning_content") && !null(v) &&
						string(v) != `""`
				}
				return ok
			})
		case "text":
			text, ok = maybeStr(s)
		case "logprobs":
			v, read := value(s)
			plain, ok = plain && null(v), read
		case "finish_reason":
			finish, ok = maybeStr(s)
		case "stop_reason":
			stop, ok = value(s)
		case "token_ids":
			b.ids, ok = appendIDs(b.ids, s)
		case "prompt_token_ids":
			prompt, ok = appendIDs(nil, s)
		default:
			_, ok = s.Value()
		}
		return ok
	})
	if !ok {
		return false
	}
	if index != 0 || !plain { // we never ask for a second choice
		v, _ := value(&raw)
		if index == 0 && len(prompt) > 0 { // more than a message may hold, and nobody asked for it
			v = without(v, "prompt_token_ids")
		}
		e.extra = append(e.extra, v)
	}
	if index != 0 {
		b.ids = b.ids[:from]
		return true
	}
	for _, p := range []openai.Span{text, content} {
		b.say(s, p)
	}
	if len(prompt) > 0 {
		e.prompt = prompt
	}
	if len(s.Text(finish)) > 2 {
		if e.finish = string(s.Name(finish)); !null(stop) {
			e.stop = stop
		}
	}
	return true
}

// maybeStr reads a string, or null.
func maybeStr(s *openai.Scanner) (p openai.Span, ok bool) {
	if s.Null() {
		return p, true
	}
	return s.Str()
}

// say appends a string to the batch's text.
func (b *batch) say(s *openai.Scanner, p openai.Span) {
	switch text := s.Text(p); {
	case len(text) == 0:
	case utf8.Valid(text):
		b.text = s.AppendString(b.text, p)
	default: // as encoding/json mends it
		b.text = append(b.text, string([]rune(string(s.AppendString(nil, p))))...)
	}
}

func (u *usage) read(s *openai.Scanner) bool {
	u.Cached = -1
	return s.Object(func(key openai.Span) (ok bool) {
		switch string(s.Name(key)) {
		case "prompt_tokens":
			u.Prompt, ok = s.Count()
		case "completion_tokens":
			u.Output, ok = s.Count()
		case "prompt_tokens_details":
			ok = s.Null() || s.Object(func(key openai.Span) (ok bool) {
				if string(s.Name(key)) == "cached_tokens" && s.Next() != 'n' {
					u.Cached, ok = s.Count()
				} else {
					_, ok = s.Value()
				}
				return ok
			})
		default:
			_, ok = s.Value()
		}
		return ok
	})
}

// without copies an object, less one member.
func without(object []byte, name string) []byte {
	s := openai.Scan(object)
	out := []byte{'{'}
	s.Object(func(key openai.Span) bool {
		value, ok := s.Value()
		if ok && string(s.Name(key)) != name {
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = append(out, s.Text(openai.Span{From: key.From, To: value.To})...)
		}
		return ok
	})
	return append(out, '}')
}

// maxComplaint bounds what is quoted of an engine, in bytes.
const maxComplaint = 1000

// complaint is the message in an engine's error body: {"error":{"message"}}, {"error":"..."}, {"detail":...},
// {"object":"error","message":...}, or the body itself.
func complaint(body []byte) string {
	var w struct {
		Error   json.RawMessage `json:"error"`
		Detail  json.RawMessage `json:"detail"`
		Message json.RawMessage `json:"message"`
	}
	said := body
	if json.Unmarshal(body, &w) == nil {
		var o struct {
			Message string `json:"message"`
		}
		if json.Unmarshal(w.Error, &o) == nil && o.Message != "" {
			return bus.Clip(o.Message, maxComplaint)
		}
		for _, raw := range []json.RawMessage{w.Error, w.Message, w.Detail} {
			var s string
			if json.Unmarshal(raw, &s) == nil && s != "" {
				return bus.Clip(s, maxComplaint)
			}
			if !null(raw) {
				said = raw
			}
		}
	}
	return bus.Clip(string(bytes.TrimSpace(said)), maxComplaint)
}
