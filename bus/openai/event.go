package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
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
	begin string // up to the delta, or to the text's first quote
	end   string // of the delta, or of the text
	piece piece
}

// NewEvents writes choice number index.
func NewEvents(s Shape, index int) *Events {
	e := &Events{chat: s.Kind == bus.KindChat, ids: s.IDs, end: `"`}
	begin := Out("data: ").head(s, true).Raw(`[{"index":`).Int(index)
	if e.chat {
		e.begin, e.end = string(begin.Raw(`,"delta":{`)), "}"
	} else {
		e.begin = string(begin.Raw(`,"text":"`))
	}
	return e
}

// head begins an object up to its choices.
func (o Out) head(s Shape, chunk bool) Out {
	id, object := "cmpl-", "text_completion"
	switch {
	case s.Kind == bus.KindChat && chunk:
		id, object = "chatcmpl-", "chat.completion.chunk"
	case s.Kind == bus.KindChat:
		id, object = "chatcmpl-", "chat.completion"
	}
	return o.Raw(`{"id":`).Str(id + s.ID).Raw(`,"object":"`).Raw(object).Raw(`","created":`).
		Int(int(s.Created)).Raw(`,"model":`).Str(s.Model).Raw(`,"choices":`)
}

// Done is the last event of a stream that ended well.
const Done = "data: [DONE]\n\n"

// Comment is skipped by clients, and shows them that the stream is alive. Where events have ids no empty line
// follows it: openai-python (seen from 1.56 to 3.57) never forgets an id, and takes that line for the end of
// an event without data. Elsewhere one follows, for clients that look for data where a block begins.
func Comment(ids bool) string {
	if ids {
		return ": wait\n"
	}
	return ": wait\n\n"
}

// EndOfIDs ends a stream whose events have ids: a comment without a line's end. A client that splits a body
// at line feeds, and never forgets an id, would find one more empty line behind the last event, and take that
// for the end of another without data.
const EndOfIDs = ":"

const endEvent = "\n\n"

// Begin is a chat's first event; a completion has none.
func (e *Events) Begin(dst []byte) []byte {
	if !e.chat {
		return dst
	}
	return e.close(Out(dst).Raw(e.begin).Raw(`"role":"assistant","content":""`), nil, nil)
}

// close ends an event that says nothing of the answer's end.
func (e *Events) close(o Out, logprobs []byte, ids []uint32) Out {
	if o = o.Raw(e.end).Raw(`,"logprobs":`); len(logprobs) > 0 {
		o = o.compact(logprobs)
	} else {
		o = o.Raw("null")
	}
	if e.ids && len(ids) > 0 {
		o = o.Raw(`,"token_ids":`).IDs(ids)
	}
	return o.Raw(`,"finish_reason":null}]}` + endEvent)
}

func (e *Events) text(o Out, text string, logprobs []byte, ids []uint32) Out {
	if o = o.Raw(e.begin); e.chat {
		return e.close(o.Raw(`"content":`).Str(text), logprobs, ids)
	}
	return e.close(o.escaped(text), logprobs, ids)
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
	o := Out(dst)
	err := pieces(c, e.chat, &e.piece, func(p *piece) error {
		if len(p.reasoning) > 0 { // twice: some clients call it otherwise
			o = o.Raw(e.begin).Raw(`"reasoning":`).compact(p.reasoning)
			o = o.Raw(`,"reasoning_content":`).compact(p.reasoning)
			o = e.close(o, p.takeLogs(), nil)
		}
		if len(p.refusal) > 0 {
			o = e.close(o.Raw(e.begin).Raw(`"refusal":`).compact(p.refusal), p.takeLogs(), nil)
		}
		if p.text != "" || len(p.logs) > 0 && len(p.calls) == 0 {
			o = e.text(o, p.text, p.takeLogs(), ids)
			ids = nil
		}
		if len(p.cites) > 0 {
			o = e.close(o.Raw(e.begin).Raw(`"citations":`).compact(p.cites), nil, nil)
		}
		if len(p.calls) > 0 { // never beside text: clients drop one of the two
			o = e.close(o.Raw(e.begin).Raw(`"tool_calls":`).compact(p.calls), p.takeLogs(), nil)
		}
		return nil
	})
	if err != nil {
		return dst, err
	}
	if e.ids && len(ids) > 0 {
		o = e.text(o, "", nil, ids)
	}
	return o, nil
}

// Finish is the last event of a choice: why it ended, and what it cost.
func (e *Events) Finish(dst []byte, r *bus.Result) []byte {
	return Out(dst).Raw(e.begin).Raw(e.end).Raw(`,"logprobs":null`).finish(r).Raw(`}],"souk":`).deal(r).
		Raw("}" + endEvent)
}

// Usage is the event with the usage of all choices, which clients get that ask for it: others read
// choices[0] of every event.
func Usage(dst []byte, s Shape, all []*bus.Result) []byte {
	return Out(dst).Raw("data: ").head(s, true).Raw(`[],"usage":`).usage(all).Raw("}" + endEvent)
}

func (o Out) finish(r *bus.Result) Out {
	o = o.Raw(`,"finish_reason":`).Str(cmp.Or(r.Finish, "stop"))
	if stop := soundJSON(r.Stop); len(stop) > 0 && utf8.Valid(stop) {
		o = o.Raw(`,"stop_reason":`).compact(bytes.TrimSpace(stop))
	}
	return o
}

// deal writes what became of a task on the market.
func (o Out) deal(r *bus.Result) Out {
	o = o.Raw(`{"task":`).Str(r.Task).Raw(`,"hub":`).Str(r.Hub).Raw(`,"agent":`).Str(r.Agent).
		Raw(`,"cost":`).Raw(r.Cost.String()).Raw(`,"premium":`).Raw(r.Premium.String()).
		Raw(`,"paid":`).Raw(r.Paid().String())
	if r.Receipt != nil {
		o = o.Raw(`,"receipt":`).Str(r.Receipt.ID).Raw(`,"record":`).Int(int(r.Receipt.Index))
	}
	if r.Message != "" { // such as why it was cut
		o = o.Raw(`,"message":`).Str(r.Message)
	}
	return o.Raw("}")
}

// usage sums up: each answer's prompt was computed, or found in a cache, and is paid.
func (o Out) usage(all []*bus.Result) Out {
	var u market.Usage
	thought := 0
	for _, r := range all {
		u.Prompt, u.Cached, u.Output = u.Prompt+r.Usage.Prompt, u.Cached+r.Usage.Cached,
			u.Output+r.Usage.Output
		thought += r.Thought
	}
	_, paid := Sums(all)
	o = o.Raw(`{"prompt_tokens":`).Int(u.Prompt).Raw(`,"completion_tokens":`).Int(u.Output).
		Raw(`,"total_tokens":`).Int(u.Prompt + u.Output).
		Raw(`,"prompt_tokens_details":{"cached_tokens":`).Int(u.Cached)
	if thought > 0 {
		o = o.Raw(`},"completion_tokens_details":{"reasoning_tokens":`).Int(thought)
	}
	return o.Raw(`},"cost":`).Raw(paid.String()).Raw("}")
}

// balance is a client's balance, as JSON.
type balance struct {
	Object  string         `json:"object"`
	Client  string         `json:"client"`
	Prepaid market.Credits `json:"prepaid"`  // with the treasury
	Allot   market.Credits `json:"allotted"` // with hubs, what they spent included
	Hubs    []hubBalance   `json:"hubs,omitempty"`
}

// hubBalance is a client's money at one hub; null where the hub did not answer.
type hubBalance struct {
	Hub       string          `json:"hub"`
	Allotted  market.Credits  `json:"allotted"`  // of the three that follow the sum
	Available *market.Credits `json:"available"` // also for tasks that wait for a slot
	Held      *market.Credits `json:"held"`      // for tasks that run
	Spent     *market.Credits `json:"spent"`
}

// EncodeBalance writes what the treasury says that a client has.
func EncodeBalance(client string, r bus.FundsReply) ([]byte, error) {
	b := balance{Object: "balance", Client: client, Prepaid: r.Prepaid, Allot: r.Allotted}
	for _, h := range r.Hubs {
		o := hubBalance{Hub: h.Hub, Allotted: h.Allotted}
		if h.AtMS != 0 {
			spent := max(0, h.Allotted-h.Avail-h.Held)
			o.Available, o.Held, o.Spent = &h.Avail, &h.Held, &spent
		}
		b.Hubs = append(b.Hubs, o)
	}
	return json.Marshal(b)
}
