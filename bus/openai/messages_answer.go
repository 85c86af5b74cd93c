package openai

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"souk/bus"
)

// Message writes the answer to one task as a message of Anthropic's API: as events, or, where it is whole, as
// one object. A whole answer is made by the same calls; its events are dropped.
type Message struct {
	shape  Shape
	whole  bool // all of it is kept
	blocks []*messageBlock
	now    *messageBlock // what is being said
	calls  []*messageBlock
	size   int
	last   *bus.Result
	piece  piece
}

// messageBlock is a block of what a message says: a text, a thought or a call of a tool.
type messageBlock struct {
	kind     string
	at       int
	id, name string // of a call
	text     []byte // of a call its arguments
	done     bool
}

const sayText, sayThought, sayCall = "text", "thinking", "tool_use"

// NewMessage writes an answer; whole says that it is given as one object.
func NewMessage(s Shape, whole bool) *Message { return &Message{shape: s, whole: whole} }

// event begins an event.
func (o Out) event(kind string) Out {
	return o.Raw("event: ").Raw(kind).Raw("\ndata: {\"type\":\"").Raw(kind).Raw(`"`)
}

// Begin writes the first event. Its usage is not known yet: that of the last counts.
func (m *Message) Begin(dst []byte) []byte {
	o := Out(dst).event("message_start").Raw(`,"message":`)
	return append(o, m.Object()...).Raw("}" + endEvent)
}

// Chunk writes what a chunk of the answer says. The error is that of an agent which says what no engine does,
// or of an answer of which too much is to be kept.
func (m *Message) Chunk(dst []byte, c *bus.Chunk) ([]byte, error) {
	err := pieces(c, true, &m.piece, func(p *piece) (err error) {
		dst, err = m.take(dst, p)
		return err
	})
	if err == nil && m.Size() > MaxWhole {
		err = refusal(bus.CodeTooLarge, "the answer, or what tools are called with in a stream, has more than %d "+
			"bytes: ask with stream: true, or for less", MaxWhole)
	}
	return dst, err
}

// Size estimates what is kept of the answer, in bytes.
func (m *Message) Size() int { return m.size + itemCost*len(m.blocks) }

// Forget lets go of what is kept.
func (m *Message) Forget() { *m = Message{shape: m.shape, whole: m.whole} }

func (m *Message) take(dst []byte, p *piece) ([]byte, error) {
	if len(p.reasoning) > 0 {
		dst = m.say(dst, sayThought, string(appendQuoted(nil, p.reasoning)))
	}
	if text := string(appendQuoted(nil, p.refusal)) + p.text; text != "" {
		dst = m.say(dst, sayText, text)
	}
	err := eachCall(p.calls, len(m.calls), func(i int, part *callPart) (err error) {
		dst, err = m.callPart(dst, i, part)
		return err
	})
	return dst, err
}

// say adds to the text or the thought that is being said, or begins it.
func (m *Message) say(dst []byte, kind, text string) []byte {
	if m.now == nil || m.now.kind != kind {
		dst = m.open(dst, &messageBlock{kind: kind})
	}
	if m.whole {
		m.now.text = append(m.now.text, text...)
		m.size += len(text)
	}
	return m.delta(dst, m.now, kind+"_delta", kind, text)
}

func (m *Message) delta(dst []byte, b *messageBlock, kind, member, text string) []byte {
	return Out(dst).event("content_block_delta").Raw(`,"index":`).Int(b.at).Raw(`,"delta":{"type":`).
		Str(kind).Raw(`,"`).Raw(member).Raw(`":`).Str(text).Raw("}}" + endEvent)
}

// open begins a block. What was said before ends, unless it is a call that is not whole: engines may write
// several in turns.
func (m *Message) open(dst []byte, b *messageBlock) []byte {
	if n := m.now; n != nil && (n.kind != sayCall || json.Valid(n.text)) {
		dst = m.close(dst, n)
	}
	b.at = len(m.blocks)
	m.blocks, m.now = append(m.blocks, b), b
	o := Out(dst).event("content_block_start").Raw(`,"index":`).Int(b.at).Raw(`,"content_block":`)
	return b.append(o, "{}", "").Raw("}" + endEvent)
}

func (m *Message) close(dst []byte, b *messageBlock) []byte {
	if b.done {
		return dst
	}
	if b.done = true; b.kind == sayThought {
		dst = m.delta(dst, b, "signature_delta", "signature", m.shape.ID)
	}
	return Out(dst).event("content_block_stop").Raw(`,"index":`).Int(b.at).Raw("}" + endEvent)
}

// callPart takes in a part of a tool call. Its arguments are kept, to know when they are whole.
func (m *Message) callPart(dst []byte, i int, p *callPart) ([]byte, error) {
	if i == len(m.calls) {
		b := &messageBlock{kind: sayCall, name: p.Function.Name,
			id: cmp.Or(p.ID, "toolu_"+m.shape.ID+"_"+strconv.Itoa(i))}
		m.calls = append(m.calls, b)
		dst = m.open(dst, b)
	}
	b, more := m.calls[i], p.Function.Arguments
	switch {
	case b.done && strings.TrimSpace(more) != "":
		return dst, forged("it has more arguments of tool call %d, which were whole when the next began", i)
	case b.done || more == "":
		return dst, nil
	}
	b.text = append(b.text, more...)
	m.size += len(more)
	return m.delta(dst, b, "input_json_delta", "partial_json", more), nil
}

// append writes a block, with the input of a call or the signature of a thought, which here says nothing.
func (b *messageBlock) append(o Out, input, signature string) Out {
	switch o = o.Raw(`{"type":"`).Raw(b.kind); b.kind {
	case sayCall:
		return o.Raw(`","id":`).Str(b.id).Raw(`,"name":`).Str(b.name).Raw(`,"input":`).Raw(input).Raw("}")
	case sayThought:
		return o.Raw(`","thinking":`).Str(string(b.text)).Raw(`,"signature":`).Str(signature).Raw("}")
	}
	return o.Raw(`","text":`).Str(string(b.text)).Raw("}")
}

// input are the arguments of a call. Those that are no object, as of one that was cut, stand as Anthropic has
// clients hand them back: no tool can take them for good ones.
func input(arguments []byte) string {
	switch text := strings.TrimSpace(string(arguments)); {
	case text == "" || text == "null":
		return "{}"
	case text[0] == '{' && json.Valid(arguments):
		return string(appendCompact(nil, arguments))
	}
	return string(Out(nil).Raw(`{"INVALID_JSON":`).Str(string(arguments)).Raw("}"))
}

// Finish writes the last events.
func (m *Message) Finish(dst []byte, last *bus.Result) []byte {
	m.last = last
	for _, b := range m.blocks {
		dst = m.close(dst, b)
	}
	o := Out(dst).event("message_delta").Raw(`,"delta":{`)
	o = m.end(m.stop(o).Raw("}")).Raw("}" + endEvent)
	return o.event("message_stop").Raw("}" + endEvent)
}

// stop writes why the answer ended.
func (m *Message) stop(o Out) Out {
	reason, sequence := "end_turn", ""
	switch {
	case m.last == nil:
		return o.Raw(`"stop_reason":null,"stop_sequence":null`)
	case m.last.Finish == "length":
		reason = "max_tokens"
	case m.last.Finish == "content_filter":
		reason = "refusal"
	case len(m.calls) > 0:
		reason = "tool_use"
	case json.Unmarshal(m.last.Stop, &sequence) == nil && sequence != "":
		reason = "stop_sequence"
	}
	return o.Raw(`"stop_reason":"`).Raw(reason).Raw(`","stop_sequence":`).StrOrNull(sequence)
}

// end writes the usage, and what became of the task. Tokens found in a cache count beside the others here.
func (m *Message) end(o Out) Out {
	if m.last == nil {
		return o.Raw(`,"usage":{"input_tokens":0,"output_tokens":0}`)
	}
	u := m.last.Usage
	o = o.Raw(`,"usage":{"input_tokens":`).Int(u.Prompt - u.Cached).Raw(`,"cache_creation_input_tokens":0,`).
		Raw(`"cache_read_input_tokens":`).Int(u.Cached).Raw(`,"output_tokens":`).Int(u.Output)
	if m.last.Thought > 0 {
		o = o.Raw(`,"output_tokens_details":{"thinking_tokens":`).Int(m.last.Thought).Raw("}")
	}
	return o.Raw(`},"souk":`).deal(m.last)
}

// Object writes the message as far as it has been said.
func (m *Message) Object() []byte {
	o := Out(nil).Raw(`{"id":`).Str("msg_" + m.shape.ID).Raw(`,"type":"message","role":"assistant","model":`).
		Str(m.shape.Model).Raw(`,"content":[`)
	for i, b := range m.blocks {
		if i > 0 {
			o = o.Raw(",")
		}
		o = b.append(o, input(b.text), m.shape.ID)
	}
	return m.end(m.stop(o.Raw("],"))).Raw("}")
}

// Fail writes the event that ends an answer without its end.
func (m *Message) Fail(dst []byte, why Refusal) []byte {
	return Out(why.AppendMessage(Out(dst).Raw("event: error\ndata: "))).Raw(endEvent)
}

// ownTypes are Anthropic's names for statuses: clients sort by them.
var ownTypes = map[int]string{http.StatusUnauthorized: "authentication_error",
	http.StatusPaymentRequired: "billing_error", http.StatusForbidden: "permission_error",
	http.StatusNotFound: "not_found_error", http.StatusConflict: "conflict_error",
	http.StatusRequestEntityTooLarge: "request_too_large", http.StatusTooManyRequests: "rate_limit_error",
	http.StatusServiceUnavailable: "overloaded_error"}

// AppendMessage writes it as Anthropic's clients read it.
func (r Refusal) AppendMessage(dst []byte) []byte {
	f := FaultOf(r.Code, r.RetryMS)
	kind := ownTypes[f.Status]
	switch {
	case kind != "":
	case f.Status >= 500:
		kind = "api_error"
	default:
		kind = "invalid_request_error"
	}
	message := cmp.Or(r.Message, string(r.Code))
	if r.Code == bus.CodePromptTooLong { // in these words coding agents know it, and shorten what they send
		message = "prompt is too long: " + message
	}
	o := Out(dst).Raw(`{"type":"error","error":{"type":"`).Raw(kind).Raw(`","message":`).Str(message)
	return r.souk(o).Raw(`},"request_id":`).StrOrNull(r.Request).Raw("}")
}
