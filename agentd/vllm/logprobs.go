package vllm

import (
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"souk/bus"
	"souk/bus/openai"
)

// logs converts log probabilities. An answer that broke off goes on as a completion, whatever the request
// was. So the completion's log probabilities are given the shape that the request asked for.
//
// A completion has an object {token: value} for each token: first the token itself, then the top candidates.
// A chat has a list of objects with text, value and bytes, and vLLM makes the bytes from the text. The values
// are the same. Candidates that are only part of a character all have the text "" and share one entry in the
// completion's object. So the chat's list has one of them where a real chat would have several.
type logs struct {
	chat   bool
	top    int // candidates that are shown for each token
	offset int // characters of the answer before, from which a completion counts
}

// askedLogs reads which log probabilities a request asks for; nil: none.
func askedLogs(kind string, body map[string]json.RawMessage, before string) (*logs, error) {
	v := body["logprobs"]
	if null(v) || string(v) == "false" {
		return nil, nil
	}
	if kind == bus.KindCompletion {
		l := &logs{offset: utf8.RuneCountInString(before)}
		if err := json.Unmarshal(v, &l.top); err != nil {
			return nil, fmt.Errorf("logprobs: %w", err)
		}
		return l, nil
	}
	l := &logs{chat: true}
	if string(v) != "true" {
		return nil, fmt.Errorf("logprobs: %.20s is neither true nor false", v)
	}
	if v, there := body["top_logprobs"]; there {
		if null(v) {
			return nil, nil // vLLM gives none then
		}
		if err := json.Unmarshal(v, &l.top); err != nil {
			return nil, fmt.Errorf("top_logprobs: %w", err)
		}
	}
	return l, nil
}

type completionLogs struct {
	Offsets []int             `json:"text_offset"`
	Values  []json.RawMessage `json:"token_logprobs"`
	Tokens  []string          `json:"tokens"`
	Top     []json.RawMessage `json:"top_logprobs"`
}

type chatLogs struct {
	Content []chatLog `json:"content"`
}

type chatLog struct {
	candidate
	Top []candidate `json:"top_logprobs"`
}

type candidate struct {
	Token string          `json:"token"`
	Value json.RawMessage `json:"logprob"`
	Bytes []int           `json:"bytes"`
}

// unknownLog is vLLM's log probability of a token without a value.
const unknownLog = "-9999.0"

func newCandidate(token string, value json.RawMessage) candidate {
	c := candidate{Token: token, Value: value, Bytes: make([]int, len(token))}
	if null(value) {
		c.Value = json.RawMessage(unknownLog)
	}
	for i := range len(token) {
		c.Bytes[i] = int(token[i])
	}
	return c
}

// choice rewrites choices[0] of a completion's event. text is the part of it that is delivered now. stop is
// the stop string that ended the answer, or "".
func (l *logs) choice(raw json.RawMessage, text, stop string) (json.RawMessage, error) {
	var c struct {
		Log    completionLogs  `json:"logprobs"`
		Finish json.RawMessage `json:"finish_reason"`
		Stop   json.RawMessage `json:"stop_reason"`
		Tokens json.RawMessage `json:"token_ids"`
	}
	err := json.Unmarshal(raw, &c)
	if n := len(c.Log.Tokens); err == nil &&
		(len(c.Log.Values) != n || len(c.Log.Top) != n || len(c.Log.Offsets) != n) {
		err = errors.New("lists of different lengths")
	}
	if err != nil {
		return nil, unread(err)
	}
	if stop != "" {
		c.Finish = json.RawMessage(`"stop"`)
		c.Stop, _ = json.Marshal(stop)
	}
	type delta struct {
		Content string `json:"content"`
	}
	out := struct {
		Index  int             `json:"index"`
		Delta  *delta          `json:"delta,omitempty"`
		Text   *string         `json:"text,omitempty"`
		Log    any             `json:"logprobs"`
		Finish json.RawMessage `json:"finish_reason"`
		Stop   json.RawMessage `json:"stop_reason,omitempty"`
		Tokens json.RawMessage `json:"token_ids,omitempty"`
	}{Finish: c.Finish, Stop: c.Stop, Tokens: c.Tokens}
	if !l.chat {
		for i := range c.Log.Offsets {
			c.Log.Offsets[i] += l.offset
		}
		out.Text, out.Log = &text, c.Log
		return json.Marshal(out)
	}
	if null(c.Finish) {
		out.Stop = nil // a chat says it at its end alone
	}
	said, err := l.said(c.Log)
	if err != nil {
		return nil, unread(err)
	}
	out.Delta, out.Log = &delta{text}, said
	return json.Marshal(out)
}

// said is a chat's list of the tokens and their candidates.
func (l *logs) said(in completionLogs) (out chatLogs, err error) {
	out.Content = make([]chatLog, 0, len(in.Tokens))
	for i, token := range in.Tokens {
		to := chatLog{newCandidate(token, in.Values[i]), []candidate{}}
		if !null(in.Top[i]) {
			s := openai.Scan(in.Top[i])
			s.Object(func(key openai.Span) bool {
				v, ok := s.Value()
				value := json.RawMessage(s.Text(v))
				// The first entry is the token itself. A candidate of the same text may have taken its value.
				if len(to.Top) == 0 {
					value = in.Values[i]
				}
				if ok && len(to.Top) < l.top {
					to.Top = append(to.Top, newCandidate(string(s.Name(key)), value))
				}
				return ok
			})
			if s.Err() != nil {
				return out, errors.New("top_logprobs: no object of values by text")
			}
		}
		out.Content = append(out.Content, to)
	}
	return out, nil
}

func unread(err error) error { return failed("the engine's log probabilities cannot be read", err) }
