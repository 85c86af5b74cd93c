package vllm

import (
	"bytes"
	"unicode/utf8"

	"souk/bus/openai"
)

// The quick way. Nearly every event of a stream is
//
//	{"id":"...","object":"...","created":1,"model":"...","choices":[{"index":0,
//	 "delta":{"content":" so"},"logprobs":null,"finish_reason":null,"token_ids":[7]}]}
//
// and encoding/json spends 5 microseconds and a dozen allocations on it. scan reads exactly the members that
// vLLM writes, and each that counts at most once; it leaves everything else to
// decode. Whatever it accepts it reads as decode would: a fuzz test holds the two together.

// Members that count, as bits.
const (
	mChoices = 1 << iota
	mUsage
	mPrompt
	mOutput
	mDetails
	mCached
	mDelta
	mText
	mContent
	mFinish
	mStop
	mTokenIDs
)

// seen marks the members that an object has had: encoding/json would take the last of two.
type seen uint32

func (s *seen) once(bit seen) bool {
	first := *s&bit == 0
	*s |= bit
	return first
}

// scan reads a payload into e and b.text, b.ids. Where it returns false, it may have read a part of it.
//
// All events of a stream begin with the same id, object, time and model. Where the members before "choices"
// are byte for byte those of an event already read, they are not read again.
func (b *batch) scan(payload []byte, e *event) bool {
	rest, within := payload, len(b.prefix) > 0 && bytes.HasPrefix(payload, b.prefix)
	if within {
		rest = payload[len(b.prefix):]
	}
	s := openai.Scan(rest)
	var had seen
	top := func(key openai.Span) bool {
		switch string(s.Text(key)) {
		case `"choices"`:
			if len(b.prefix) == 0 && had == 0 {
				b.prefix = bytes.Clone(payload[:key.From])
			}
			return had.once(mChoices) && b.choices(&s, e)
		case `"usage"`:
			e.metered = s.Next() != 'n'
			return had.once(mUsage) && (s.Null() || e.usage.scan(&s))
		case `"prompt_token_ids"`:
			return had.once(mPrompt) && e.promptIDs(&s)
		case `"id"`, `"object"`, `"created"`, `"model"`, `"system_fingerprint"`, `"service_tier"`,
			`"metrics"`,
			`"prompt_text"`:
			return skip(&s)
		}
		return false
	}
	if within {
		return s.Members(top) && s.End()
	}
	return s.Object(top) && s.End()
}

// skip passes over a value that is not needed.
func skip(s *openai.Scanner) bool {
	_, ok := s.Value()
	return ok
}

func (e *event) promptIDs(s *openai.Scanner) bool {
	if s.Null() {
		return true
	}
	ids, ok := appendIDs(nil, s)
	if len(ids) > 0 && len(e.prompt) > 0 {
		return false // in two places at once: which would count?
	}
	if len(ids) > 0 {
		e.prompt = ids
	}
	return ok
}

func (b *batch) choices(s *openai.Scanner, e *event) bool {
	var had seen
	choice := func(key openai.Span) bool {
		switch string(s.Text(key)) {
		case `"index"`:
			n, ok := s.Count()
			return ok && n == 0
		case `"delta"`:
			return had.once(mDelta) && len(b.text) == e.text && b.delta(s)
		case `"text"`:
			return had.once(mText) && len(b.text) == e.text && b.said(s)
		case `"logprobs"`:
			return s.Null()
		case `"prompt_logprobs"`:
			return skip(s)
		case `"finish_reason"`:
			return had.once(mFinish) && e.finished(s)
		case `"stop_reason"`:
			stop, ok := s.Value()
			if e.stop = s.Text(stop); string(e.stop) == "null" {
				e.stop = nil
			}
			return ok && had.once(mStop)
		case `"token_ids"`:
			if !had.once(mTokenIDs) {
				return false
			}
			ok := s.Null()
			if ok {
				return true
			}
			b.ids, ok = appendIDs(b.ids, s)
			return ok
		case `"prompt_token_ids"`:
			return had.once(mPrompt) && e.promptIDs(s)
		}
		return false
	}
	one := false
	ok := s.Array(func() bool {
		first := !one
		one = true
		return first && s.Object(choice)
	})
	if e.finish == "" {
		e.stop = nil // a reason without a finish says nothing
	}
	return ok
}

func (e *event) finished(s *openai.Scanner) bool {
	if s.Null() {
		return true
	}
	v, ok := s.Value()
	switch string(s.Text(v)) { // without an allocation
	case `"stop"`:
		e.finish = "stop"
	case `"length"`:
		e.finish = "length"
	case `"tool_calls"`:
		e.finish = "tool_calls"
	case `"abort"`:
		e.finish = "abort"
	default:
		return false
	}
	return ok
}

func (b *batch) delta(s *openai.Scanner) bool {
	var had seen
	return s.Object(func(key openai.Span) bool {
		switch string(s.Text(key)) {
		case `"content"`:
			return had.once(mContent) && (s.Null() || b.said(s))
		case `"role"`:
			return skip(s)
		case `"reasoning"`, `"reasoning_content"`, `"tool_calls"`, `"refusal"`:
			return s.Null()
		}
		return false
	})
}

// said reads a string into the batch's text.
func (b *batch) said(s *openai.Scanner) bool {
	p, ok := s.Str()
	if !ok || !utf8.Valid(s.Text(p)) { // encoding/json mends it
		return false
	}
	b.text = s.AppendString(b.text, p)
	return true
}

func (u *usage) scan(s *openai.Scanner) bool {
	u.Cached = -1
	var had seen
	return s.Object(func(key openai.Span) (ok bool) {
		switch string(s.Text(key)) {
		case `"prompt_tokens"`:
			u.Prompt, ok = s.Count()
			return ok && had.once(mPrompt)
		case `"completion_tokens"`:
			u.Output, ok = s.Count()
			return ok && had.once(mOutput)
		case `"prompt_tokens_details"`:
			return had.once(mDetails) && (s.Null() || u.details(s))
		case `"total_tokens"`, `"completion_tokens_details"`:
			return skip(s)
		}
		return false
	})
}

func (u *usage) details(s *openai.Scanner) bool {
	var had seen
	return s.Object(func(key openai.Span) (ok bool) {
		switch string(s.Text(key)) {
		case `"cached_tokens"`:
			if !s.Null() {
				u.Cached, ok = s.Count()
				return ok && had.once(mCached)
			}
			return had.once(mCached)
		case `"created_cache_tokens"`:
			return skip(s)
		}
		return false
	})
}
