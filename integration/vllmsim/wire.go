package vllmsim

import (
	"strconv"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// plain are the bytes that stand for themselves in a JSON string.
var plain = func() (t [256]bool) {
	for c := 0x20; c < utf8.RuneSelf; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return
}()

// appendString appends s as a JSON string, as Python writes it: no escapes but those that must be. What is no
// UTF-8 becomes U+FFFD.
func appendString[T string | []byte](b []byte, s T) []byte {
	b = append(b, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if plain[c] {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(string(s[i:min(i+utf8.UTFMax, len(s))]))
			if r != utf8.RuneError || n > 1 {
				i += n
				continue
			}
			b = append(b, s[from:i]...)
			b = append(b, "\uFFFD"...)
			i++
			from = i
			continue
		}
		b = append(b, s[from:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		case '\b':
			b = append(b, '\\', 'b')
		case '\f':
			b = append(b, '\\', 'f')
		default:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i++
		from = i
	}
	b = append(b, s[from:]...)
	return append(b, '"')
}

func appendInt[T int | int32 | int64](b []byte, n T) []byte {
	return strconv.AppendInt(b, int64(n), 10)
}

// appendTokens appends a list of token ids, or null if there is none.
func appendTokens(b []byte, ids []uint32) []byte {
	if ids == nil {
		return append(b, "null"...)
	}
	b = append(b, '[')
	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendUint(b, uint64(id), 10)
	}
	return append(b, ']')
}

// appendReason appends the value of finish_reason, null as long as there is none.
func appendReason(b []byte, reason string) []byte {
	if reason == "" {
		return append(b, "null"...)
	}
	return appendString(b, reason)
}

func appendStopReason(b []byte, s *sequence) []byte {
	switch {
	case s.stopText != "":
		return appendString(b, s.stopText)
	case s.reason == "stop" && s.stopID >= 0:
		return appendInt(b, s.stopID)
	}
	return append(b, "null"...)
}

// reply is what all messages of one answer share.
type reply struct {
	chat        bool
	id          string
	created     int64
	model       string
	fingerprint string
	details     bool // --enable-prompt-tokens-details
	tokenIDs    bool // return_token_ids
	usage       bool // usage at the end of a stream
	continuous  bool // and in every chunk
	head        []byte
}

// tally is a request's usage.
type tally struct{ prompt, output, cached, created int }

func (r *reply) start(b []byte, object string) []byte {
	b = append(b, `{"id":`...)
	b = appendString(b, r.id)
	b = append(b, `,"object":"`...)
	b = append(b, object...)
	b = append(b, `","created":`...)
	b = appendInt(b, r.created)
	b = append(b, `,"model":`...)
	b = appendString(b, r.model)
	return append(b, `,"choices":[`...)
}

// open appends the beginning of a chunk, which is the same in every chunk of a stream.
func (r *reply) open(b []byte) []byte {
	if r.head == nil {
		object := "text_completion"
		if r.chat {
			object = "chat.completion.chunk"
		}
		r.head = r.start([]byte("data: "), object)
	}
	return append(b, r.head...)
}

// role appends the first chunk of a choice of a chat.
func (r *reply) role(b []byte, s *sequence, prompt []uint32) []byte {
	b = r.open(b)
	b = append(b, `{"index":`...)
	b = appendInt(b, s.index)
	b = append(b, `,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]`...)
	if r.continuous {
		b = r.brief(b, tally{prompt: s.prompt})
	}
	b = append(b, `,"prompt_token_ids":`...)
	b = appendTokens(b, r.ids(prompt))
	return append(b, ",\"prompt_text\":null}\n\n"...)
}

func (r *reply) ids(ids []uint32) []uint32 {
	if !r.tokenIDs {
		return nil
	}
	return ids
}

// chunk appends one event of a stream: text and tokens, and the reason if it is the last. A completion's
// first one has the prompt's tokens.
func (r *reply) chunk(b []byte, s *sequence, text []byte, ids, prompt []uint32, reason string,
	u tally) []byte {
	b = r.open(b)
	b = append(b, `{"index":`...)
	b = appendInt(b, s.index)
	if r.chat {
		b = append(b, `,"delta":{"content":`...)
		b = appendString(b, text)
		b = append(b, `},"logprobs":null,"finish_reason":`...)
		b = appendReason(b, reason)
		if reason != "" {
			b = append(b, `,"stop_reason":`...)
			b = appendStopReason(b, s)
		}
	} else {
		b = append(b, `,"text":`...)
		b = appendString(b, text)
		b = append(b, `,"logprobs":null,"finish_reason":`...)
		b = appendReason(b, reason)
		b = append(b, `,"stop_reason":`...)
		if reason != "" {
			b = appendStopReason(b, s)
		} else {
			b = append(b, "null"...)
		}
		b = append(b, `,"prompt_token_ids":`...)
		b = appendTokens(b, r.ids(prompt))
	}
	b = append(b, `,"token_ids":`...)
	b = appendTokens(b, r.ids(ids))
	b = append(b, "}]"...)
	if r.continuous {
		b = r.brief(b, u)
	}
	if reason != "" && !r.usage { // else the usage chunk is the last and has it
		b = append(b, `,"system_fingerprint":`...)
		b = appendString(b, r.fingerprint)
	}
	return append(b, "}\n\n"...)
}

func (r *reply) brief(b []byte, u tally) []byte {
	b = append(b, `,"usage":{`...)
	b = u.append(b)
	return append(b, `,"completion_tokens_details":null}`...)
}

func (u tally) append(b []byte) []byte {
	b = append(b, `"prompt_tokens":`...)
	b = appendInt(b, u.prompt)
	b = append(b, `,"total_tokens":`...)
	b = appendInt(b, u.prompt+u.output)
	b = append(b, `,"completion_tokens":`...)
	return appendInt(b, u.output)
}

// last appends the usage chunk, if it is wanted, and [DONE].
func (r *reply) last(b []byte, u tally) []byte {
	if r.usage {
		b = r.open(b)
		b = append(b, `],"usage":{`...)
		b = u.append(b)
		if r.details {
			b = append(b, `,"prompt_tokens_details":{"cached_tokens":`...)
			b = appendInt(b, u.cached)
			if r.chat {
				b = append(b, `,"created_cache_tokens":`...)
				b = appendInt(b, u.created)
			}
			b = append(b, '}')
		}
		b = append(b, `},"system_fingerprint":`...)
		b = appendString(b, r.fingerprint)
		b = append(b, "}\n\n"...)
	}
	return append(b, "data: [DONE]\n\n"...)
}

// whole appends the body of an answer that is not streamed.
func (r *reply) whole(b []byte, choices []*sequence, u tally) []byte {
	object := "text_completion"
	if r.chat {
		object = "chat.completion"
	}
	b = r.start(b, object)
	for i, s := range choices {
		if i > 0 {
			b = append(b, ',')
		}
		b = r.choice(b, s)
	}
	b = append(b, `],"service_tier":null,"system_fingerprint":`...)
	b = appendString(b, r.fingerprint)
	b = append(b, `,"usage":{`...)
	b = u.append(b)
	b = append(b, `,"prompt_tokens_details":`...)
	if r.details {
		b = append(b, `{"cached_tokens":`...)
		b = appendInt(b, u.cached)
		b = append(b, `,"created_cache_tokens":`...)
		if r.chat {
			b = appendInt(b, u.created)
		} else {
			b = append(b, "null"...)
		}
		b = append(b, `,"multimodal_tokens":null}`...)
	} else {
		b = append(b, "null"...)
	}
	b = append(b, `,"completion_tokens_details":null}`...)
	if r.chat {
		b = append(b, `,"prompt_logprobs":null,"prompt_token_ids":`...)
		b = appendTokens(b, r.ids(choices[0].tokens[:choices[0].prompt]))
		b = append(b, `,"prompt_text":null`...)
	}
	return append(b, `,"kv_transfer_params":null,"ec_transfer_params":null,"metrics":null}`...)
}

func (r *reply) choice(b []byte, s *sequence) []byte {
	b = append(b, `{"index":`...)
	b = appendInt(b, s.index)
	if r.chat {
		b = append(b, `,"message":{"role":"assistant","content":`...)
		b = appendString(b, s.text[:s.shown])
		b = append(b, `,"refusal":null,"annotations":null,"audio":null,"function_call":null,`+
			`"reasoning":null}`...)
	} else {
		b = append(b, `,"text":`...)
		b = appendString(b, s.text[:s.shown])
	}
	b = append(b, `,"logprobs":null,"finish_reason":`...)
	b = appendReason(b, s.reason)
	b = append(b, `,"stop_reason":`...)
	b = appendStopReason(b, s)
	b = append(b, `,"token_ids":`...)
	b = appendTokens(b, r.ids(s.tokens[s.prompt:]))
	if !r.chat {
		b = append(b, `,"prompt_logprobs":null,"prompt_token_ids":`...)
		b = appendTokens(b, r.ids(s.tokens[:s.prompt]))
	}
	return append(b, `,"routed_experts":null}`...)
}
