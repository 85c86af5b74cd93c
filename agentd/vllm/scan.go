package vllm

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// The quick way. Nearly every event of a stream is
//
//	{"id":"...","object":"...","created":1,"model":"...","choices":[{"index":0,"delta":{"content":" so"},"logprobs":null,"finish_reason":null,"token_ids":[7]}]}
//
// and encoding/json spends 5 microseconds and a dozen allocations on it. scan reads exactly the members that
// vLLM writes, without white space, each at most once; of anything else it wants to know nothing and
// leaves it to decode. Whatever it accepts it reads as decode would: a fuzz test holds the two together.

// Members, as bits, so that a second one of a name is noticed (encoding/json would take the last).
const (
	mID = 1 << iota
	mObject
	mCreated
	mModel
	mFingerprint
	mChoices
	mUsage
	mPromptIDs
	mPromptText
	mMetrics
	mServiceTier
	mIndex
	mDelta
	mText
	mLogprobs
	mFinish
	mStop
	mTokenIDs
	mPromptLogprobs
	mRole
	mContent
	mOther
)

// cursor walks over one payload.
type cursor struct {
	b []byte
	i int
}

func (c *cursor) take(ch byte) bool {
	if c.i < len(c.b) && c.b[c.i] == ch {
		c.i++
		return true
	}
	return false
}

func (c *cursor) null() bool {
	if c.i+4 <= len(c.b) && string(c.b[c.i:c.i+4]) == "null" {
		c.i += 4
		return true
	}
	return false
}

// plain walks over a string without escapes and returns what is in it.
func (c *cursor) plain() ([]byte, bool) {
	if !c.take('"') {
		return nil, false
	}
	start := c.i
	for c.i < len(c.b) {
		switch ch := c.b[c.i]; {
		case ch == '"':
			c.i++
			return c.b[start : c.i-1], true
		case ch == '\\' || ch < ' ':
			return nil, false
		}
		c.i++
	}
	return nil, false
}

// name walks over `"name":`.
func (c *cursor) name() ([]byte, bool) {
	n, ok := c.plain()
	return n, ok && c.take(':')
}

// count walks over an integer from 0 to 999,999,999.
func (c *cursor) count() (int, bool) {
	start, n := c.i, 0
	for c.i < len(c.b) && c.b[c.i]-'0' <= 9 {
		n = n*10 + int(c.b[c.i]-'0')
		if c.i++; c.i-start > 9 {
			return 0, false
		}
	}
	if c.i == start || c.b[start] == '0' && c.i > start+1 {
		return 0, false
	}
	return n, true
}

// digits walks over a whole number of any size.
func (c *cursor) digits() bool {
	start := c.i
	for c.i < len(c.b) && c.b[c.i]-'0' <= 9 {
		c.i++
	}
	return c.i > start && (c.b[start] != '0' || c.i == start+1)
}

// ids walks over an array of token ids and appends them.
func (c *cursor) ids(dst []uint32) ([]uint32, bool) {
	if !c.take('[') {
		return dst, false
	}
	if c.take(']') {
		return dst, true
	}
	for {
		n, ok := c.count()
		if !ok {
			return dst, false
		}
		dst = append(dst, uint32(n))
		if c.take(']') {
			return dst, true
		}
		if !c.take(',') {
			return dst, false
		}
	}
}

// tally walks over an array of token ids and counts them.
func (c *cursor) tally() (int, bool) {
	if !c.take('[') {
		return 0, false
	}
	if c.take(']') {
		return 0, true
	}
	for n := 1; ; n++ {
		if _, ok := c.count(); !ok {
			return 0, false
		}
		if c.take(']') {
			return n, true
		}
		if !c.take(',') {
			return 0, false
		}
	}
}

// text walks over a string and appends what it says.
func (c *cursor) text(dst []byte) ([]byte, bool) {
	if !c.take('"') {
		return dst, false
	}
	for {
		start, wide := c.i, false
		for c.i < len(c.b) && c.b[c.i] != '"' && c.b[c.i] != '\\' {
			if c.b[c.i] < ' ' {
				return dst, false
			}
			wide = wide || c.b[c.i] >= utf8.RuneSelf
			c.i++
		}
		if c.i == len(c.b) {
			return dst, false
		}
		run := c.b[start:c.i]
		if wide && !utf8.Valid(run) {
			return dst, false // encoding/json mends it
		}
		dst = append(dst, run...)
		if c.take('"') {
			return dst, true
		}
		var ok bool
		if dst, ok = c.escape(dst); !ok {
			return dst, false
		}
	}
}

func (c *cursor) escape(dst []byte) ([]byte, bool) {
	if c.i+1 >= len(c.b) {
		return dst, false
	}
	ch := c.b[c.i+1]
	switch ch {
	case '"', '\\', '/':
	case 'n':
		ch = '\n'
	case 't':
		ch = '\t'
	case 'r':
		ch = '\r'
	case 'b':
		ch = '\b'
	case 'f':
		ch = '\f'
	case 'u':
		r, ok := c.hex(c.i)
		if !ok {
			return dst, false
		}
		c.i += 6
		if utf16.IsSurrogate(r) {
			if low, ok := c.hex(c.i); ok {
				if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
					c.i += 6
					return utf8.AppendRune(dst, pair), true
				}
			}
			r = utf8.RuneError // half a pair
		}
		return utf8.AppendRune(dst, r), true
	default:
		return dst, false
	}
	c.i += 2
	return append(dst, ch), true
}

// hex reads \uXXXX at i.
func (c *cursor) hex(i int) (rune, bool) {
	if i+6 > len(c.b) || c.b[i] != '\\' || c.b[i+1] != 'u' {
		return 0, false
	}
	var r rune
	for _, ch := range c.b[i+2 : i+6] {
		switch {
		case ch >= '0' && ch <= '9':
			ch -= '0'
		case ch >= 'a' && ch <= 'f':
			ch -= 'a' - 10
		case ch >= 'A' && ch <= 'F':
			ch -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(ch)
	}
	return r, true
}

// object walks over an object of which member reads each value.
func (c *cursor) object(member func(name []byte) (bit uint32, ok bool)) bool {
	if !c.take('{') {
		return false
	}
	if c.take('}') {
		return true
	}
	var seen uint32
	for {
		name, ok := c.name()
		if !ok {
			return false
		}
		bit, ok := member(name)
		if !ok || seen&bit != 0 {
			return false
		}
		seen |= bit
		if c.take('}') {
			return true
		}
		if !c.take(',') {
			return false
		}
	}
}

// scan reads a payload into e and b.text, b.ids. What it returns false for it may have read in part.
//
// All events of a stream begin with the same id, object, time and model. Where the members before
// "choices" are byte for byte those of an event already read, they are not read again.
func (b *batch) scan(payload []byte, e *event) bool {
	c := cursor{b: payload}
	var seen uint32
	if len(b.prefix) > 0 && bytes.HasPrefix(payload, b.prefix) {
		c.i, seen = len(b.prefix), b.seen
	} else if !c.take('{') {
		return false
	}
	for {
		at := c.i
		name, ok := c.name()
		if !ok {
			return false
		}
		if len(b.prefix) == 0 && string(name) == "choices" &&
			seen&^(mID|mObject|mCreated|mModel|mFingerprint) == 0 {
			b.prefix, b.seen = bytes.Clone(payload[:at]), seen
		}
		bit, ok := b.top(&c, name, e)
		if !ok || seen&bit != 0 {
			return false
		}
		seen |= bit
		if c.take('}') {
			return c.i == len(payload)
		}
		if !c.take(',') {
			return false
		}
	}
}

func (b *batch) top(c *cursor, name []byte, e *event) (uint32, bool) {
	switch string(name) {
	case "choices":
		return mChoices, b.choices(c, e)
	case "usage":
		if c.null() {
			return mUsage, true
		}
		e.metered = true
		return mUsage, c.usage(&e.usage)
	case "id":
		_, ok := c.plain()
		return mID, ok
	case "object":
		_, ok := c.plain()
		return mObject, ok
	case "created":
		return mCreated, c.digits()
	case "model":
		_, ok := c.plain()
		return mModel, ok
	case "system_fingerprint":
		_, ok := c.plain()
		return mFingerprint, ok || c.null()
	case "service_tier":
		return mServiceTier, c.null()
	case "metrics":
		return mMetrics, c.null()
	case "prompt_text":
		return mPromptText, c.null()
	case "prompt_token_ids":
		return mPromptIDs, c.promptIDs(e)
	}
	return 0, false
}

func (c *cursor) promptIDs(e *event) bool {
	if c.null() {
		return true
	}
	n, ok := c.tally()
	if n > 0 {
		if e.prompt > 0 {
			return false // in two places at once: which would count?
		}
		e.prompt = n
	}
	return ok
}

func (b *batch) choices(c *cursor, e *event) bool {
	if !c.take('[') {
		return false
	}
	if c.take(']') {
		return true
	}
	ok := c.object(func(name []byte) (uint32, bool) {
		switch string(name) {
		case "index":
			n, ok := c.count()
			return mIndex, ok && n == 0
		case "delta":
			return mDelta, len(b.text) == e.text && b.delta(c)
		case "text":
			if len(b.text) > e.text {
				return 0, false
			}
			var ok bool
			b.text, ok = c.text(b.text)
			return mText, ok
		case "logprobs":
			return mLogprobs, c.null()
		case "prompt_logprobs":
			return mPromptLogprobs, c.null()
		case "finish_reason":
			return mFinish, c.finish(e)
		case "stop_reason":
			return mStop, c.stop(e)
		case "token_ids":
			if c.null() {
				return mTokenIDs, true
			}
			var ok bool
			b.ids, ok = c.ids(b.ids)
			return mTokenIDs, ok
		case "prompt_token_ids":
			return mPromptIDs, c.promptIDs(e)
		}
		return 0, false
	})
	if e.finish == "" {
		e.stop = nil // a reason without a finish says nothing
	}
	return ok && c.take(']')
}

func (c *cursor) finish(e *event) bool {
	if c.null() {
		return true
	}
	s, ok := c.plain()
	if !ok {
		return false
	}
	switch string(s) { // without an allocation
	case "stop":
		e.finish = "stop"
	case "length":
		e.finish = "length"
	case "tool_calls":
		e.finish = "tool_calls"
	case "abort":
		e.finish = "abort"
	default:
		return false
	}
	return true
}

func (c *cursor) stop(e *event) bool {
	if c.null() {
		return true
	}
	start := c.i
	if _, ok := c.plain(); !ok {
		if c.i = start; !c.digits() {
			return false
		}
	}
	e.stop = c.b[start:c.i]
	return true
}

func (b *batch) delta(c *cursor) bool {
	return c.object(func(name []byte) (uint32, bool) {
		switch string(name) {
		case "content":
			if c.null() {
				return mContent, true
			}
			var ok bool
			b.text, ok = c.text(b.text)
			return mContent, ok
		case "role":
			_, ok := c.plain()
			return mRole, ok
		case "reasoning", "reasoning_content", "tool_calls", "refusal":
			return 0, c.null()
		}
		return 0, false
	})
}

func (c *cursor) usage(u *usage) bool {
	u.Cached = -1
	return c.object(func(name []byte) (bit uint32, ok bool) {
		switch string(name) {
		case "prompt_tokens":
			u.Prompt, ok = c.count()
			return mPromptIDs, ok
		case "completion_tokens":
			u.Output, ok = c.count()
			return mTokenIDs, ok
		case "total_tokens":
			return mText, c.digits()
		case "completion_tokens_details":
			return mOther, c.null()
		case "prompt_tokens_details":
			return mDelta, c.null() || c.details(u)
		}
		return 0, false
	})
}

func (c *cursor) details(u *usage) bool {
	return c.object(func(name []byte) (bit uint32, ok bool) {
		switch string(name) {
		case "cached_tokens":
			if c.null() {
				return mContent, true
			}
			u.Cached, ok = c.count()
			return mContent, ok
		case "created_cache_tokens":
			return mOther, c.null() || c.digits()
		}
		return 0, false
	})
}
