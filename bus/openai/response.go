package openai

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"

	"souk/bus"
)

// MaxResponse bounds the text of a response, arguments and reasoning included, in bytes: its last events say
// all of it four times.
const MaxResponse = 256 << 10

// Response writes the answer to one task as a response: as events, and in the end as one object. A whole
// answer is made by the same calls; its events are dropped.
type Response struct {
	shape Shape
	asked *Responses
	seq   int // events so far
	items []*outputItem
	now   *outputItem // what is being said, but for calls, several of which may be under way
	calls []*outputItem
	size  int
	last  *bus.Result
	piece piece
}

// outputItem is an item of a response.
type outputItem struct {
	kind  string // itemMessage, itemReasoning or itemCall
	id    string
	at    int // in the output
	parts []*part
	name  string // of a function
	call  string // id of a call
	args  []byte
	done  bool
}

const itemMessage, itemReasoning, itemCall = "message", "reasoning", "function_call"

// part is a part of what an item says.
type part struct {
	kind string // partText, partRefusal or partReasoning
	text []byte
	logs [][]byte
}

const partText, partRefusal, partReasoning = "output_text", "refusal", "reasoning_text"

// NewResponse writes the answer to a request.
func NewResponse(s Shape, asked *Responses) *Response { return &Response{shape: s, asked: asked} }

// event writes an event; more is what it has beside its type and number, each member after a comma.
func (r *Response) event(dst []byte, kind string, more ...any) []byte {
	dst = append(append(dst, "event: "...), kind...)
	dst = append(append(dst, "\ndata: {\"type\":\""...), kind...)
	dst = append(dst, `","sequence_number":`...)
	dst = strconv.AppendInt(dst, int64(r.seq), 10)
	r.seq++
	for i := 0; i < len(more); i += 2 {
		dst = append(append(append(dst, `,"`...), more[i].(string)...), `":`...)
		switch v := more[i+1].(type) {
		case int:
			dst = strconv.AppendInt(dst, int64(v), 10)
		case string:
			dst = appendText(dst, v)
		case json.RawMessage:
			dst = append(dst, v...)
		}
	}
	return append(dst, "}\n\n"...)
}

// Begin writes the events before all others.
func (r *Response) Begin(dst []byte) []byte {
	v := json.RawMessage(r.Object(nil))
	dst = r.event(dst, "response.created", "response", v)
	return r.event(dst, "response.in_progress", "response", v)
}

// Chunk writes what a chunk of the answer says. The error is that of an agent which says what no engine does,
// or of an answer that is too long.
func (r *Response) Chunk(dst []byte, c *bus.Chunk) ([]byte, error) {
	var wrong error
	err := pieces(c, true, &r.piece, func(p *piece) {
		if wrong == nil {
			dst, wrong = r.take(dst, p)
		}
	})
	if err == nil {
		err = wrong
	}
	if err == nil && r.size > MaxResponse {
		err = refusal(bus.CodeTooLarge, "the answer has more than %d bytes: /v1/chat/completions has no such "+
			"limit", MaxResponse)
	}
	return dst, err
}

func (r *Response) take(dst []byte, p *piece) ([]byte, error) {
	r.size += len(p.text) + len(p.reasoning) + len(p.refusal) + len(p.logs) + len(p.calls)
	if len(p.reasoning) > 0 {
		dst = r.say(dst, itemReasoning, partReasoning, unquoted(p.reasoning), nil)
	}
	if len(p.refusal) > 0 {
		dst = r.say(dst, itemMessage, partRefusal, unquoted(p.refusal), nil)
	}
	if logs := p.takeLogs(); p.text != "" || len(logs) > 0 && len(p.calls) == 0 {
		dst = r.say(dst, itemMessage, partText, p.text, logs)
	}
	if len(p.calls) == 0 {
		return dst, nil
	}
	parts, err := callParts(p.calls)
	if err != nil {
		return dst, err
	}
	for i := range parts {
		if dst, err = r.callPart(dst, &parts[i]); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// unquoted is the text of a JSON string that has been read.
func unquoted(quoted []byte) string {
	s := Scan(quoted)
	return string(s.AppendString(nil, Span{0, len(quoted)}))
}

// say adds to a part of the item that is being said, or begins it.
func (r *Response) say(dst []byte, kind, partKind, text string, logs []byte) []byte {
	if r.now == nil || r.now.kind != kind {
		dst = r.closeNow(dst)
		r.now = r.open(kind)
		dst = r.added(dst, r.now)
	}
	x := r.now
	if n := len(x.parts); n == 0 || x.parts[n-1].kind != partKind {
		dst = r.closePart(dst, x)
		x.parts = append(x.parts, &part{kind: partKind})
		dst = r.event(dst, "response.content_part.added", "item_id", x.id, "output_index", x.at,
			"content_index", len(x.parts)-1, "part", x.parts[len(x.parts)-1].json())
	}
	p := x.parts[len(x.parts)-1]
	p.text = append(p.text, text...)
	if len(logs) > 0 {
		p.logs = append(p.logs, bytes.Clone(logs))
	}
	if text == "" {
		return dst
	}
	more := []any{"item_id", x.id, "output_index", x.at, "content_index", len(x.parts) - 1, "delta", text}
	if partKind == partText {
		more = append(more, "logprobs", json.RawMessage("[]"))
	}
	return r.event(dst, "response."+partKind+".delta", more...)
}

func (r *Response) open(kind string) *outputItem {
	prefix := map[string]string{itemMessage: "msg_", itemReasoning: "rs_", itemCall: "fc_"}[kind]
	x := &outputItem{kind: kind, at: len(r.items)}
	x.id = prefix + r.shape.ID + "_" + strconv.Itoa(x.at)
	r.items = append(r.items, x)
	return x
}

func (r *Response) added(dst []byte, x *outputItem) []byte {
	return r.event(dst, "response.output_item.added", "output_index", x.at, "item", x.json())
}

// callPart takes in a part of a tool call.
func (r *Response) callPart(dst []byte, p *callPart) ([]byte, error) {
	i := p.at()
	if i < 0 || i > len(r.calls) || i >= bus.MaxCalls {
		return dst, forged("it has part of tool call %d where %d have begun", i, len(r.calls))
	}
	if i == len(r.calls) {
		dst = r.closeNow(dst)
		x := r.open(itemCall)
		x.call, x.name = p.ID, p.Function.Name
		if x.call == "" {
			x.call = "call_" + r.shape.ID + "_" + strconv.Itoa(i)
		}
		r.calls = append(r.calls, x)
		dst = r.added(dst, x)
	}
	x := r.calls[i]
	if x.name == "" {
		x.name = p.Function.Name
	}
	if p.Function.Arguments != "" {
		x.args = append(x.args, p.Function.Arguments...)
		dst = r.event(dst, "response.function_call_arguments.delta", "item_id", x.id, "output_index", x.at,
			"delta", p.Function.Arguments)
	}
	return dst, nil
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
		more = append(more, "logprobs", json.RawMessage(appendLogs(nil, p.logs)))
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
	dst = r.closeNow(dst)
	for _, x := range r.calls {
		x.done = true
		dst = r.event(dst, "response.function_call_arguments.done", "item_id", x.id, "output_index", x.at,
			"name", x.name, "arguments", string(x.args))
		dst = r.event(dst, "response.output_item.done", "output_index", x.at, "item", x.json())
	}
	r.last = last
	return r.event(dst, "response."+r.status(), "response", json.RawMessage(r.Object(nil)))
}

// Fail writes the event that ends an answer without its end. Clients raise on its member error.
func (r *Response) Fail(dst []byte, code bus.Code, message, task string, retryMS int64) []byte {
	said := AppendError(nil, code, message, task, retryMS) // {"error":{...}}
	return r.event(dst, "error", "code", FaultOf(code).Code, "message", message, "param",
		json.RawMessage("null"), "error", json.RawMessage(said[len(`{"error":`):len(said)-1]))
}

func (r *Response) status() string {
	switch {
	case r.last == nil:
		return "in_progress"
	case r.last.Finish == "length" || r.last.Finish == "content_filter":
		return "incomplete"
	}
	return "completed"
}

// Items are what was answered, by its id, as later requests may name it.
func (r *Response) Items(each func(id string, item []byte)) {
	for _, x := range r.items {
		each(x.id, x.json())
	}
}

// json writes an item as far as it has been said.
func (x *outputItem) json() json.RawMessage {
	dst := append([]byte(nil), `{"id":`...)
	dst = appendText(dst, x.id)
	dst = append(append(append(dst, `,"type":"`...), x.kind...), `","status":"`...)
	if x.done {
		dst = append(dst, `completed"`...)
	} else {
		dst = append(dst, `in_progress"`...)
	}
	switch x.kind {
	case itemCall:
		dst = appendText(append(dst, `,"call_id":`...), x.call)
		dst = appendText(append(dst, `,"name":`...), x.name)
		dst = appendText(append(dst, `,"arguments":`...), string(x.args))
		return append(dst, '}')
	case itemMessage:
		dst = append(dst, `,"role":"assistant","content":[`...)
	case itemReasoning:
		dst = append(dst, `,"summary":[],"content":[`...)
	}
	for i, p := range x.parts {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, p.json()...)
	}
	return append(dst, "]}"...)
}

func (p *part) json() json.RawMessage {
	dst := append(append([]byte(`{"type":"`), p.kind...), `",`...)
	if p.kind == partRefusal {
		dst = appendText(append(dst, `"refusal":`...), string(p.text))
		return append(dst, '}')
	}
	dst = appendText(append(dst, `"text":`...), string(p.text))
	if p.kind == partText {
		dst = append(dst, `,"annotations":[],"logprobs":`...)
		dst = appendLogs(dst, p.logs)
	}
	return append(dst, '}')
}

// appendLogs joins the log probabilities of tokens: a chat's are a response's.
func appendLogs(dst []byte, logs [][]byte) []byte {
	w := Whole{chat: true, logs: logs}
	var joined struct {
		Content json.RawMessage `json:"content"`
	}
	if len(logs) == 0 || json.Unmarshal(w.logprobs(nil), &joined) != nil {
		return append(dst, "[]"...)
	}
	return append(dst, joined.Content...)
}

// Object writes the response as far as it has come.
func (r *Response) Object(dst []byte) []byte {
	dst = appendText(append(dst, `{"id":`...), "resp_"+r.shape.ID)
	dst = append(dst, `,"object":"response","created_at":`...)
	dst = strconv.AppendInt(dst, r.shape.Created, 10)
	dst = append(append(append(dst, `,"status":"`...), r.status()...), `","background":false,"error":null`...)
	dst = append(dst, `,"incomplete_details":`...)
	switch {
	case r.status() != "incomplete":
		dst = append(dst, "null"...)
	case r.last.Finish == "length":
		dst = append(dst, `{"reason":"max_output_tokens"}`...)
	default:
		dst = append(dst, `{"reason":"content_filter"}`...)
	}
	dst = appendText(append(dst, `,"model":`...), r.shape.Model)
	for _, e := range echoed {
		dst = append(append(append(dst, `,"`...), e.name...), `":`...)
		dst = append(dst, r.asked.echo[e.name]...)
	}
	dst = append(dst, `,"previous_response_id":null,"truncation":"disabled","store":`...)
	dst = strconv.AppendBool(dst, r.asked.Store)
	dst = append(dst, `,"output":[`...)
	for i, x := range r.items {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, x.json()...)
	}
	dst = append(dst, `],"usage":`...)
	if r.last == nil {
		return append(dst, "null}"...)
	}
	u := r.last.Usage
	for _, n := range []struct {
		name  string
		count int
		after string
	}{{`{"input_tokens":`, u.Prompt, ""}, {`,"input_tokens_details":{"cached_tokens":`, u.Cached, "}"},
		{`,"output_tokens":`, u.Output, ""}, {`,"output_tokens_details":{"reasoning_tokens":`, 0, "}"},
		{`,"total_tokens":`, u.Prompt + u.Output, ""}} {
		dst = append(strconv.AppendInt(append(dst, n.name...), int64(n.count), 10), n.after...)
	}
	dst = append(append(dst, `,"cost":`...), r.last.Paid().String()...)
	dst = append(dst, `},"souk":`...)
	return append(appendDeal(dst, r.last), '}')
}
