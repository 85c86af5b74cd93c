package openai

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	"souk/bus"
	"souk/market"
)

// Shape says how an answer is written.
type Shape struct {
	ID      string // of the answer, without the endpoint's prefix
	Kind    string // bus.KindChat or bus.KindCompletion
	Model   string
	Created int64 // Unix seconds
	Usage   bool  // an event with the usage at the end
	IDs     bool  // token ids in the events with text
}

// Events writes the answer to one task as server-sent events of OpenAI's API, one choice of all that the
// request asked for. What is the same in all of them is made once.
type Events struct {
	chat  bool
	ids   bool
	begin []byte // up to the delta, or to the text's first quote
	piece piece
}

// NewEvents writes choice number index.
func NewEvents(s Shape, index int) *Events {
	e := &Events{chat: s.Kind == bus.KindChat, ids: s.IDs}
	e.begin = append(e.begin, "data: "...)
	e.begin = appendHead(e.begin, s, true)
	e.begin = append(e.begin, `[{"index":`...)
	e.begin = strconv.AppendInt(e.begin, int64(index), 10)
	if e.chat {
		e.begin = append(e.begin, `,"delta":{`...)
	} else {
		e.begin = append(e.begin, `,"text":"`...)
	}
	return e
}

// appendHead begins an object up to its choices.
func appendHead(dst []byte, s Shape, chunk bool) []byte {
	id, object := "cmpl-", "text_completion"
	switch {
	case s.Kind == bus.KindChat && chunk:
		id, object = "chatcmpl-", "chat.completion.chunk"
	case s.Kind == bus.KindChat:
		id, object = "chatcmpl-", "chat.completion"
	}
	dst = append(dst, `{"id":`...)
	dst = appendText(dst, id+s.ID)
	dst = append(dst, `,"object":"`...)
	dst = append(dst, object...)
	dst = append(dst, `","created":`...)
	dst = strconv.AppendInt(dst, s.Created, 10)
	dst = append(dst, `,"model":`...)
	dst = appendText(dst, s.Model)
	return append(dst, `,"choices":`...)
}

// Done is the last event of a stream that ended well.
const Done = "data: [DONE]\n\n"

// Comment is what clients skip, and shows them that the stream is alive.
const Comment = ": wait\n\n"

const endEvent = "\n\n"

// Begin is a chat's first event; a completion has none.
func (e *Events) Begin(dst []byte) []byte {
	if !e.chat {
		return dst
	}
	dst = append(dst, e.begin...)
	dst = append(dst, `"role":"assistant","content":""`...)
	return e.close(dst, nil, nil)
}

// close ends an event that says nothing of the answer's end.
func (e *Events) close(dst []byte, logprobs []byte, ids []uint32) []byte {
	if e.chat {
		dst = append(dst, '}')
	} else {
		dst = append(dst, '"')
	}
	if len(logprobs) > 0 {
		dst = append(dst, `,"logprobs":`...)
		dst = appendCompact(dst, logprobs)
	} else {
		dst = append(dst, `,"logprobs":null`...)
	}
	if e.ids && len(ids) > 0 {
		dst = append(dst, `,"token_ids":[`...)
		for i, id := range ids {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = strconv.AppendUint(dst, uint64(id), 10)
		}
		dst = append(dst, ']')
	}
	dst = append(dst, `,"finish_reason":null}]}`...)
	return append(dst, endEvent...)
}

func (e *Events) text(dst []byte, text string, logprobs []byte, ids []uint32) []byte {
	dst = append(dst, e.begin...)
	if !e.chat {
		return e.close(appendEscaped(dst, text), logprobs, ids)
	}
	dst = append(dst, `"content":"`...)
	dst = appendEscaped(dst, text)
	dst = append(dst, '"')
	return e.close(dst, logprobs, ids)
}

// Chunk writes a chunk of the answer, as one event in nearly all cases. Token ids stand with the first event
// that has text. The error is that of an agent which says what no engine does; nothing is written then.
func (e *Events) Chunk(dst []byte, c *bus.Chunk) ([]byte, error) {
	ids := c.Tokens
	if len(c.Extra) == 0 { // nearly always
		if c.Text == "" && !(e.ids && len(ids) > 0) {
			return dst, nil
		}
		return e.text(dst, c.Text, nil, ids), nil
	}
	begun := len(dst)
	err := pieces(c, e.chat, &e.piece, func(p *piece) {
		if len(p.reasoning) > 0 {
			dst = append(dst, e.begin...)
			dst = append(dst, `"reasoning":`...)
			dst = append(dst, p.reasoning...)
			dst = append(dst, `,"reasoning_content":`...) // as some clients call it
			dst = append(dst, p.reasoning...)
			dst = e.close(dst, p.takeLogs(), nil)
		}
		if len(p.refusal) > 0 {
			dst = append(dst, e.begin...)
			dst = append(dst, `"refusal":`...)
			dst = append(dst, p.refusal...)
			dst = e.close(dst, p.takeLogs(), nil)
		}
		if p.text != "" || len(p.logs) > 0 && len(p.calls) == 0 {
			dst = e.text(dst, p.text, p.takeLogs(), ids)
			ids = nil
		}
		if len(p.calls) > 0 { // never beside text: clients drop one of the two
			dst = append(dst, e.begin...)
			dst = append(dst, `"tool_calls":`...)
			dst = appendCompact(dst, p.calls)
			dst = e.close(dst, p.takeLogs(), nil)
		}
	})
	if err != nil {
		return dst[:begun], err
	}
	if e.ids && len(ids) > 0 {
		dst = e.text(dst, "", nil, ids)
	}
	return dst, nil
}

// Finish is the last event of a choice: why it ended, and what it cost.
func (e *Events) Finish(dst []byte, r *bus.Result) []byte {
	dst = append(dst, e.begin...)
	if e.chat {
		dst = append(dst, '}')
	} else {
		dst = append(dst, '"')
	}
	dst = append(dst, `,"logprobs":null`...)
	dst = appendFinish(dst, r)
	dst = append(dst, `}],"souk":`...)
	dst = appendDeal(dst, r)
	dst = append(dst, '}')
	return append(dst, endEvent...)
}

// Usage is the event with the usage of all choices, which clients get that ask for it: others read
// choices[0] of every event.
func Usage(dst []byte, s Shape, all []*bus.Result) []byte {
	dst = append(dst, "data: "...)
	dst = appendHead(dst, s, true)
	dst = append(dst, `[],"usage":`...)
	dst = appendUsage(dst, all)
	dst = append(dst, '}')
	return append(dst, endEvent...)
}

func appendFinish(dst []byte, r *bus.Result) []byte {
	reason := r.Finish
	if reason == "" {
		reason = "stop"
	}
	dst = append(dst, `,"finish_reason":`...)
	dst = appendText(dst, reason)
	if stop := soundJSON(r.Stop); len(stop) > 0 && utf8.Valid(stop) {
		dst = append(dst, `,"stop_reason":`...)
		dst = appendCompact(dst, bytes.TrimSpace(stop))
	}
	return dst
}

// appendDeal writes what became of a task on the market.
func appendDeal(dst []byte, r *bus.Result) []byte {
	dst = append(dst, `{"task":`...)
	dst = appendText(dst, r.Task)
	dst = append(dst, `,"hub":`...)
	dst = appendText(dst, r.Hub)
	dst = append(dst, `,"agent":`...)
	dst = appendText(dst, r.Agent)
	for _, x := range []struct {
		name string
		c    market.Credits
	}{{"cost", r.Cost}, {"premium", r.Premium}, {"paid", r.Paid()}} {
		dst = append(dst, `,"`...)
		dst = append(dst, x.name...)
		dst = append(dst, `":`...)
		dst = append(dst, x.c.String()...)
	}
	if r.Receipt != nil {
		dst = append(dst, `,"receipt":`...)
		dst = appendText(dst, r.Receipt.ID)
	}
	if r.Message != "" { // such as why it was cut
		dst = append(dst, `,"message":`...)
		dst = appendText(dst, r.Message)
	}
	return append(dst, '}')
}

// appendUsage sums up: each answer's prompt was computed, or found in a cache, and is paid.
func appendUsage(dst []byte, all []*bus.Result) []byte {
	var u market.Usage
	var cost market.Credits
	for _, r := range all {
		u.Prompt, u.Cached, u.Output = u.Prompt+r.Usage.Prompt, u.Cached+r.Usage.Cached,
			u.Output+r.Usage.Output
		cost, _ = cost.Add(r.Paid())
	}
	dst = append(dst, `{"prompt_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.Prompt), 10)
	dst = append(dst, `,"completion_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.Output), 10)
	dst = append(dst, `,"total_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.Prompt+u.Output), 10)
	dst = append(dst, `,"prompt_tokens_details":{"cached_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.Cached), 10)
	dst = append(dst, `},"cost":`...)
	dst = append(dst, cost.String()...)
	return append(dst, '}')
}

// appendText writes a JSON string.
func appendText(dst []byte, s string) []byte {
	dst = append(dst, '"')
	dst = appendEscaped(dst, s)
	return append(dst, '"')
}

// appendEscaped writes what stands between the quotes of a JSON string. What is no UTF-8 becomes U+FFFD.
func appendEscaped(dst []byte, s string) []byte {
	const digits = "0123456789abcdef"
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\ufffd")
	}
	from := 0
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[from:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		}
		from = i + 1
	}
	return append(dst, s[from:]...)
}

// balance is what a client has, as JSON.
type balance struct {
	Object  string         `json:"object"`
	Client  string         `json:"client"`
	Prepaid market.Credits `json:"prepaid"`  // with the treasury
	Allot   market.Credits `json:"allotted"` // with hubs, what they spent included
}

// EncodeBalance writes what the treasury says that a client has.
func EncodeBalance(client string, r bus.FundsReply) ([]byte, error) {
	return json.Marshal(balance{"balance", client, r.Prepaid, r.Allotted})
}
