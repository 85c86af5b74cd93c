package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"souk/bus"
)

// MaxResponse bounds the text of a response, arguments and reasoning included, in bytes: its last events say
// all of it four times.
const MaxResponse = 256 << 10

// partCost is the size of an item, or of a part of one, beside its text.
const partCost = 256

// Response writes the answer to one task as a response: as events, and in the end as one object. A whole
// answer is made by the same calls; its events are dropped.
type Response struct {
	Completed int64 // Unix seconds when its last word came; to be set before Finish

	shape Shape
	asked *Responses
	seq   int // events so far
	items []*outputItem
	now   *outputItem // what is being said, but for calls, several of which may be under way
	calls []*outputItem
	early [][]byte // log probabilities of tokens whose text has yet to come
	size  int
	last  *bus.Result
	fault *fault
	piece piece
}

// fault says why an answer breaks off.
type fault struct{ code, message string }

const itemMessage, itemReasoning, itemCall = "message", "reasoning", "function_call"

const partText, partRefusal, partReasoning = "output_text", "refusal", "reasoning_text"

// NewResponse writes the answer to a request.
func NewResponse(s Shape, asked *Responses) *Response { return &Response{shape: s, asked: asked} }

// event writes an event; more lists its members beside type and number: names, and their values.
func (r *Response) event(dst []byte, kind string, more ...any) []byte {
	o := Out(dst).Raw("event: ").Raw(kind).Raw("\ndata: {\"type\":\"").Raw(kind).
		Raw(`","sequence_number":`).Int(r.seq)
	r.seq++
	for i := 0; i < len(more); i += 2 {
		o = o.Raw(`,"`).Raw(more[i].(string)).Raw(`":`)
		switch v := more[i+1].(type) {
		case int:
			o = o.Int(v)
		case string:
			o = o.Str(v)
		case json.RawMessage:
			o = append(o, v...)
		}
	}
	return o.Raw("}" + endEvent)
}

// Begin writes the events before all others.
func (r *Response) Begin(dst []byte) []byte {
	v := json.RawMessage(r.Object())
	dst = r.event(dst, "response.created", "response", v)
	return r.event(dst, "response.in_progress", "response", v)
}

// Chunk writes what a chunk of the answer says. The error is that of an agent which says what no engine does,
// or of an answer that is too long.
func (r *Response) Chunk(dst []byte, c *bus.Chunk) ([]byte, error) {
	err := pieces(c, true, &r.piece, func(p *piece) (err error) {
		dst, err = r.take(dst, p)
		return err
	})
	if err == nil && r.Size() > MaxResponse {
		err = refusal(bus.CodeTooLarge, "the answer has more than %d bytes: /v1/chat/completions has no such "+
			"limit", MaxResponse)
	}
	return dst, err
}

// Size estimates the answer's size so far, in bytes. Each item counts a few beside its text, so that an agent
// cannot begin any number of them.
func (r *Response) Size() int { return r.size + itemCost*len(r.items) }

const itemCost = 256

// Forget lets go of the answer, which has ended; what can still be written of it is [Response.Fail].
func (r *Response) Forget() { *r = Response{shape: r.shape, asked: r.asked, seq: r.seq} }

func (r *Response) take(dst []byte, p *piece) ([]byte, error) {
	r.size += len(p.text) + len(p.reasoning) + len(p.refusal) + len(p.logs) + len(p.calls)
	if len(p.reasoning) > 0 {
		dst = r.say(dst, itemReasoning, partReasoning, string(appendQuoted(nil, p.reasoning)), nil)
	}
	if len(p.refusal) > 0 {
		dst = r.say(dst, itemMessage, partRefusal, string(appendQuoted(nil, p.refusal)), nil)
	}
	logs := p.takeLogs()
	switch textless := len(p.reasoning)+len(p.refusal)+len(p.calls) > 0; {
	case p.text != "", len(logs) > 0 && !textless && r.saysText():
		dst = r.say(dst, itemMessage, partText, p.text, logs)
	case textless: // log probabilities are a text's alone
		r.early = nil
	case len(logs) > 0:
		r.early = append(r.early, bytes.Clone(logs))
	}
	err := eachCall(p.calls, len(r.calls), func(i int, part *callPart) (err error) {
		dst, err = r.callPart(dst, i, part)
		return err
	})
	return dst, err
}

// saysText reports whether a text is being said.
func (r *Response) saysText() bool {
	if r.now == nil || len(r.now.parts) == 0 {
		return false
	}
	return r.now.parts[len(r.now.parts)-1].kind == partText
}

// appendQuoted appends the text of a JSON string that has been read, if there is one.
func appendQuoted(dst, quoted []byte) []byte {
	if len(quoted) == 0 {
		return dst
	}
	s := Scan(quoted)
	return s.AppendString(dst, Span{0, len(quoted)})
}

// say adds to a part of the item that is being said, or begins it.
func (r *Response) say(dst []byte, kind, partKind, text string, logs []byte) []byte {
	if r.now == nil || r.now.kind != kind {
		dst = r.closeCall(r.closeNow(dst))
		r.now = r.open(kind)
		dst = r.added(dst, r.now)
	}
	x := r.now
	if n := len(x.parts); n == 0 || x.parts[n-1].kind != partKind {
		dst = r.closePart(dst, x)
		x.parts = append(x.parts, &part{kind: partKind})
		r.size += partCost
		dst = r.event(dst, "response.content_part.added", "item_id", x.id, "output_index", x.at,
			"content_index", len(x.parts)-1, "part", x.parts[len(x.parts)-1].json())
	}
	p := x.parts[len(x.parts)-1]
	p.text = append(p.text, text...)
	if partKind == partText {
		p.logs, r.early = append(p.logs, r.early...), nil
	}
	if len(logs) > 0 {
		p.logs = append(p.logs, bytes.Clone(logs))
	}
	if text == "" {
		return dst
	}
	more := []any{"item_id", x.id, "output_index", x.at, "content_index", len(x.parts) - 1, "delta", text}
	if partKind == partText {
		more = append(more, "logprobs", joinLogs(p.logs[p.told:]))
		p.told = len(p.logs)
	}
	return r.event(dst, "response."+partKind+".delta", more...)
}

func (r *Response) open(kind string) *outputItem {
	prefix := map[string]string{itemMessage: "msg_", itemReasoning: "rs_", itemCall: "fc_"}[kind]
	x := &outputItem{kind: kind, at: len(r.items)}
	x.id = prefix + r.shape.ID + "_" + strconv.Itoa(x.at)
	r.items = append(r.items, x)
	r.size += partCost
	return x
}

func (r *Response) added(dst []byte, x *outputItem) []byte {
	return r.event(dst, "response.output_item.added", "output_index", x.at, "item", x.json())
}

// callPart takes in a part of a tool call.
func (r *Response) callPart(dst []byte, i int, p *callPart) ([]byte, error) {
	if i == len(r.calls) {
		dst = r.closeCall(r.closeNow(dst))
		x := r.open(itemCall)
		x.call, x.name = p.ID, p.Function.Name
		if x.call == "" {
			x.call = "call_" + r.shape.ID + "_" + strconv.Itoa(i)
		}
		r.calls = append(r.calls, x)
		dst = r.added(dst, x)
	}
	x := r.calls[i]
	x.name = cmp.Or(x.name, p.Function.Name)
	switch {
	case x.done && strings.TrimSpace(p.Function.Arguments) != "":
		return dst, forged("it has more arguments of tool call %d, which were whole when the next began", i)
	case !x.done && p.Function.Arguments != "":
		x.args = append(x.args, p.Function.Arguments...)
		dst = r.event(dst, "response.function_call_arguments.delta", "item_id", x.id, "output_index", x.at,
			"delta", p.Function.Arguments)
	}
	return dst, nil
}

// closeCall ends the call that began last, as another item begins, if it is whole: clients call a function
// once its call has ended. One that is not may go on, and ends with the answer.
func (r *Response) closeCall(dst []byte) []byte {
	n := len(r.calls)
	if n == 0 || r.calls[n-1].judged {
		return dst
	}
	x := r.calls[n-1]
	if x.judged = true; !json.Valid(x.args) {
		return dst
	}
	return r.endCall(dst, x)
}

func (r *Response) endCall(dst []byte, x *outputItem) []byte {
	x.done = true
	dst = r.event(dst, "response.function_call_arguments.done", "item_id", x.id, "output_index", x.at,
		"name", x.name, "arguments", string(x.args))
	return r.event(dst, "response.output_item.done", "output_index", x.at, "item", x.json())
}

// closePart ends the last part of an item.
func (r *Response) closePart(dst []byte, x *outputItem) []byte {
	n := len(x.parts)
	if n == 0 {
		return dst
	}
	p := x.parts[n-1]
	at := []any{"item_id", x.id, "output_index", x.at, "content_index", n - 1}
	more := append(slices.Clone(at), "text", string(p.text))
	switch p.kind {
	case partRefusal:
		more[len(more)-2] = "refusal"
	case partText:
		more = append(more, "logprobs", p.logprobs())
	}
	dst = r.event(dst, "response."+p.kind+".done", more...)
	return r.event(dst, "response.content_part.done", append(at, "part", p.json())...)
}

// closeNow ends what is being said.
func (r *Response) closeNow(dst []byte) []byte {
	if r.now == nil {
		return dst
	}
	x := r.now
	r.now = nil
	dst = r.closePart(dst, x)
	x.done = true
	return r.event(dst, "response.output_item.done", "output_index", x.at, "item", x.json())
}

// Finish writes the last events.
func (r *Response) Finish(dst []byte, last *bus.Result) []byte {
	r.last = last
	if n := len(r.items); n > 0 && r.status() == "incomplete" {
		r.items[n-1].cut = true // what was said last; a client must not act on half a call
	}
	dst = r.closeNow(dst)
	for _, x := range r.calls {
		if !x.done {
			x.cut = x.cut || r.status() == "incomplete" && !json.Valid(x.args)
			dst = r.endCall(dst, x)
		}
	}
	return r.event(dst, "response."+r.status(), "response", json.RawMessage(r.Object()))
}

// Fail writes the events that end an answer without its end, to one of its readers or to all: it changes
// nothing, so that the answer may go on for others. Most clients raise on the member error of the first;
// others, as Codex, know the second alone, and ask again where a stream ends without it. That one says
// nothing of what was answered: all of it has been said.
func (r *Response) Fail(dst []byte, why Refusal) []byte {
	said := why.Append(nil) // {"error":{...}}
	end := &Response{shape: r.shape, asked: r.asked, seq: r.seq}
	end.fault = &fault{FaultOf(why.Code, 0).Code, cmp.Or(why.Message, string(why.Code))}
	dst = end.event(dst, "error", "code", end.fault.code, "message", why.Message, "param",
		json.RawMessage("null"), "error", json.RawMessage(said[len(`{"error":`):len(said)-1]))
	return end.event(dst, "response.failed", "response", json.RawMessage(end.Object()))
}

func (r *Response) status() string {
	switch {
	case r.fault != nil:
		return "failed"
	case r.last == nil:
		return "in_progress"
	case r.last.Finish == "length" || r.last.Finish == "content_filter":
		return "incomplete"
	}
	return "completed"
}

// Items calls each with every item of the answer, by its id, as later requests may name it.
func (r *Response) Items(each func(id string, item []byte)) {
	for _, x := range r.items {
		each(x.id, x.json())
	}
}

// Object writes the response as far as it has come.
func (r *Response) Object() []byte {
	o := Out(nil).Raw(`{"id":`).Str("resp_" + r.shape.ID).Raw(`,"object":"response","created_at":`).
		Int(int(r.shape.Created)).Raw(`,"status":`).Str(r.status()).
		Raw(`,"background":false,"completed_at":`)
	if r.status() == "completed" {
		o = o.Int(int(r.Completed))
	} else {
		o = o.Raw("null")
	}
	o = o.Raw(`,"error":`)
	if r.fault == nil {
		o = o.Raw("null")
	} else {
		o = o.Raw(`{"code":`).Str(r.fault.code).Raw(`,"message":`).Str(r.fault.message).Raw("}")
	}
	o = o.Raw(`,"incomplete_details":`)
	switch {
	case r.status() != "incomplete":
		o = o.Raw("null")
	case r.last.Finish == "length":
		o = o.Raw(`{"reason":"max_output_tokens"}`)
	default:
		o = o.Raw(`{"reason":"content_filter"}`)
	}
	o = o.Raw(`,"model":`).Str(r.shape.Model)
	for _, e := range echoed {
		o = o.Raw(`,"`).Raw(e.name).Raw(`":`).Raw(string(r.asked.echo[e.name]))
	}
	o = o.Raw(`,"previous_response_id":null,"max_tool_calls":null,"safety_identifier":null,` +
		`"service_tier":"default","truncation":"disabled","store":`).
		Raw(strconv.FormatBool(r.asked.Store)).Raw(`,"output":[`)
	for i, x := range r.items {
		if i > 0 {
			o = o.Raw(",")
		}
		o = append(o, x.json()...)
	}
	if o = o.Raw(`],"usage":`); r.last == nil {
		return o.Raw("null}")
	}
	u := r.last.Usage
	return o.Raw(`{"input_tokens":`).Int(u.Prompt).Raw(`,"input_tokens_details":{"cached_tokens":`).
		Int(u.Cached).Raw(`},"output_tokens":`).Int(u.Output).
		Raw(`,"output_tokens_details":{"reasoning_tokens":`).Int(r.last.Thought).
		Raw(`},"total_tokens":`).Int(u.Prompt + u.Output).
		Raw(`,"cost":`).Raw(r.last.Paid().String()).Raw(`},"souk":`).deal(r.last).Raw("}")
}
