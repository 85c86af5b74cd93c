package vllm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"souk/agentd"
	"souk/bus"
	"souk/bus/openai"
)

// usage is what an engine says it used. Cached is -1 where it says nothing: absent is not 0.
type usage struct{ Prompt, Output, Cached int }

// event is one server-sent event, read. Text and ids are appended to the batch they belong to; an event
// says where they begin.
type event struct {
	text, ids int    // lengths of the batch's text and ids before this event
	finish    string // "" = null
	stop      []byte // raw, nil = null
	usage     usage
	metered   bool     // usage is set
	prompt    []uint32 // ids of the prompt; nil: none were said
	extra     [][]byte
	thinks    bool // it has reasoning
	err       *agentd.EngineError
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

	prefix []byte // what every event of this stream begins with; see scan
}

// add takes in one event's payload: by hand where it looks as nearly all of them do, else by encoding/json.
func (b *batch) add(payload []byte) error {
	e := event{text: len(b.text), ids: len(b.ids)}
	if !b.scan(payload, &e) {
		b.text, b.ids = b.text[:e.text], b.ids[:e.ids]
		e = event{text: len(b.text), ids: len(b.ids)}
		if err := b.decode(payload, &e); err != nil {
			b.text, b.ids = b.text[:e.text], b.ids[:e.ids]
			return &agentd.EngineError{Code: bus.CodeEngineFailed, Err: err,
				Message: "the engine sent an event that cannot be read", Said: fmt.Sprintf("%.120q", payload)}
		}
		if e.err != nil {
			return e.err
		}
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

// The slow way, for tool calls, reasoning, logprobs, errors and whatever later versions say.

type wireEvent struct {
	Choices []json.RawMessage `json:"choices"`
	Usage   *wireUsage        `json:"usage"`
	Prompt  idList            `json:"prompt_token_ids"`
	Error   json.RawMessage   `json:"error"`
}

type wireUsage struct {
	Prompt  int `json:"prompt_tokens"`
	Output  int `json:"completion_tokens"`
	Details *struct {
		Cached *int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

type wireChoice struct {
	Index  int                        `json:"index"`
	Delta  map[string]json.RawMessage `json:"delta"`
	Text   string                     `json:"text"`
	Log    json.RawMessage            `json:"logprobs"`
	Finish string                     `json:"finish_reason"`
	Stop   json.RawMessage            `json:"stop_reason"`
	Tokens []uint32                   `json:"token_ids"`
	Prompt idList                     `json:"prompt_token_ids"`
}

// idList is a list of token ids, of which there may be a hundred thousand.
type idList []uint32

func (l *idList) UnmarshalJSON(data []byte) error {
	s := openai.Scan(data)
	*l = nil
	if s.Null() {
		return s.Err()
	}
	ids, ok := appendIDs(nil, &s)
	if !ok {
		return fmt.Errorf("prompt_token_ids: %.40q is no list of whole numbers", data)
	}
	*l = ids
	return s.Err()
}

// appendIDs reads a list of token ids.
func appendIDs(dst []uint32, s *openai.Scanner) ([]uint32, bool) {
	ok := s.Array(func() bool {
		id, ok := s.Count()
		dst = append(dst, uint32(id))
		return ok
	})
	return dst, ok
}

func null(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

func (b *batch) decode(payload []byte, e *event) error {
	var w wireEvent
	if err := json.Unmarshal(payload, &w); err != nil {
		return err
	}
	if !null(w.Error) {
		e.err = brokenOff(w.Error, payload)
		return nil
	}
	e.prompt = w.Prompt
	if u := w.Usage; u != nil {
		e.usage, e.metered = usage{Prompt: u.Prompt, Output: u.Output, Cached: -1}, true
		if u.Details != nil && u.Details.Cached != nil {
			e.usage.Cached = *u.Details.Cached
			if e.usage.Cached < 0 {
				return errors.New("cached_tokens is negative")
			}
		}
		if u.Prompt < 0 || u.Output < 0 {
			return errors.New("usage is negative")
		}
	}
	for _, raw := range w.Choices {
		if err := b.choice(raw, e); err != nil {
			return err
		}
	}
	return nil
}

// brokenOff is what an event of an error means. vLLM judges some of a request only once the stream has begun:
// log probabilities, token ids beyond the vocabulary, grammars. That is a refusal, as if the status of the
// response had said it, and no fault of the engine.
func brokenOff(raw json.RawMessage, payload []byte) *agentd.EngineError {
	var said struct {
		Code int `json:"code"`
	}
	if json.Unmarshal(raw, &said) == nil && blame(said.Code) == bus.CodeEngineRefused {
		return refused(said.Code, payload)
	}
	return &agentd.EngineError{Code: bus.CodeEngineFailed, Status: 500,
		Message: "the engine broke off", Said: complaint(payload)}
}

func (b *batch) choice(raw json.RawMessage, e *event) error {
	var c wireChoice
	if err := json.Unmarshal(raw, &c); err != nil {
		return err
	}
	if c.Index != 0 { // we never ask for a second choice
		e.extra = append(e.extra, raw)
		return nil
	}
	plain := null(c.Log)
	b.text = append(b.text, c.Text...)
	for k, v := range c.Delta {
		switch {
		case null(v) || k == "role":
		case k == "content":
			var s string
			if err := json.Unmarshal(v, &s); err != nil {
				return err
			}
			b.text = append(b.text, s...)
		default:
			plain = false
			e.thinks = e.thinks || (k == "reasoning" || k == "reasoning_content") && string(v) != `""`
		}
	}
	if !plain {
		if len(c.Prompt) > 0 { // more than a message may hold, and nobody asked for it
			raw = without(raw, "prompt_token_ids")
		}
		e.extra = append(e.extra, raw)
	}
	b.ids = append(b.ids, c.Tokens...)
	if len(c.Prompt) > 0 {
		e.prompt = c.Prompt
	}
	if c.Finish != "" {
		e.finish = c.Finish
		e.stop = nil
		if !null(c.Stop) {
			e.stop = c.Stop
		}
	}
	return nil
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

// complaint is the message in an engine's error body: {"error":{"message"}}, {"error":"..."},
// {"detail":...}, or the body itself.
func complaint(body []byte) string {
	var w struct {
		Error  json.RawMessage `json:"error"`
		Detail json.RawMessage `json:"detail"`
	}
	said := body
	if json.Unmarshal(body, &w) == nil {
		var o struct {
			Message string `json:"message"`
		}
		if json.Unmarshal(w.Error, &o) == nil && o.Message != "" {
			return bus.Clip(o.Message, maxComplaint)
		}
		for _, raw := range []json.RawMessage{w.Error, w.Detail} {
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
