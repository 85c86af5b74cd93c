package openai

import (
	"bytes"
	"encoding/json"
	"strconv"

	"souk/bus"
	"souk/market"
)

// MaxWhole bounds an answer that is collected, in bytes of text, arguments and log probabilities.
const MaxWhole = 4 << 20

// Whole collects the answer to one task, to be written as one object.
type Whole struct {
	chat                     bool
	text, reasoning, refusal []byte
	calls                    []call
	logs                     [][]byte // as they came
	size                     int
	piece                    piece
}

// call is a tool call, put together of its parts.
type call struct {
	id, kind, name string
	arguments      []byte
}

// NewWhole collects an answer of a kind.
func NewWhole(kind string) *Whole { return &Whole{chat: kind == bus.KindChat} }

// Chunk takes a chunk in. The error is that of an answer which no engine gives, or which is too long to be
// given as one.
func (w *Whole) Chunk(c *bus.Chunk) error {
	var wrong error
	err := pieces(c, w.chat, &w.piece, func(p *piece) {
		if wrong == nil {
			wrong = w.take(p)
		}
	})
	if err == nil {
		err = wrong
	}
	if err == nil && w.size > MaxWhole {
		err = refusal(bus.CodeTooLarge, "the answer has more than %d bytes: ask with stream: true", MaxWhole)
	}
	return err
}

func (w *Whole) take(p *piece) error {
	w.text = append(w.text, p.text...)
	s := Scan(p.reasoning)
	if len(p.reasoning) > 0 {
		w.reasoning = s.AppendString(w.reasoning, Span{0, len(p.reasoning)})
	}
	if len(p.refusal) > 0 {
		s = Scan(p.refusal)
		w.refusal = s.AppendString(w.refusal, Span{0, len(p.refusal)})
	}
	if len(p.logs) > 0 {
		w.logs = append(w.logs, bytes.Clone(p.logs))
	}
	w.size += len(p.text) + len(p.reasoning) + len(p.refusal) + len(p.logs) + len(p.calls)
	if len(p.calls) == 0 {
		return nil
	}
	parts, err := callParts(p.calls)
	if err != nil {
		return err
	}
	for _, part := range parts {
		i := part.at()
		if i < 0 || i > len(w.calls) || i >= bus.MaxCalls {
			return forged("it has part of tool call %d where %d have begun", i, len(w.calls))
		}
		if i == len(w.calls) {
			w.calls = append(w.calls, call{kind: "function"})
		}
		c := &w.calls[i]
		if part.ID != "" {
			c.id = part.ID
		}
		if part.Type != "" {
			c.kind = part.Type
		}
		if c.name == "" {
			c.name = part.Function.Name
		}
		c.arguments = append(c.arguments, part.Function.Arguments...)
	}
	return nil
}

// callPart is a part of a tool call, as an event has it.
type callPart struct {
	Index    *int   `json:"index"`
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// at is the number of the call.
func (p *callPart) at() int {
	if p.Index == nil {
		return 0
	}
	return *p.Index
}

func callParts(calls []byte) (parts []callPart, err error) {
	if err := json.Unmarshal(calls, &parts); err != nil {
		return nil, forged("%v", err)
	}
	return parts, nil
}

// choice writes it as choice number index.
func (w *Whole) choice(dst []byte, index int, r *bus.Result) []byte {
	dst = append(dst, `{"index":`...)
	dst = strconv.AppendInt(dst, int64(index), 10)
	if !w.chat {
		dst = append(dst, `,"text":`...)
		dst = appendText(dst, string(w.text))
	} else {
		dst = w.message(dst)
	}
	dst = append(dst, `,"logprobs":`...)
	dst = w.logprobs(dst)
	return append(appendFinish(dst, r), '}')
}

func (w *Whole) message(dst []byte) []byte {
	dst = append(dst, `,"message":{"role":"assistant","content":`...)
	if len(w.text) == 0 && len(w.calls) > 0 {
		dst = append(dst, "null"...)
	} else {
		dst = appendText(dst, string(w.text))
	}
	dst = append(dst, `,"refusal":`...)
	if len(w.refusal) > 0 {
		dst = appendText(dst, string(w.refusal))
	} else {
		dst = append(dst, "null"...)
	}
	if len(w.reasoning) > 0 {
		dst = append(dst, `,"reasoning":`...)
		dst = appendText(dst, string(w.reasoning))
		dst = append(dst, `,"reasoning_content":`...)
		dst = appendText(dst, string(w.reasoning))
	}
	for i, c := range w.calls {
		dst = append(dst, [...]string{`,"tool_calls":[`, `,`}[min(i, 1)]...)
		dst = append(dst, `{"id":`...)
		dst = appendText(dst, c.id)
		dst = append(dst, `,"type":`...)
		dst = appendText(dst, c.kind)
		dst = append(dst, `,"function":{"name":`...)
		dst = appendText(dst, c.name)
		dst = append(dst, `,"arguments":`...)
		dst = appendText(dst, string(c.arguments))
		dst = append(dst, `}}`...)
	}
	if len(w.calls) > 0 {
		dst = append(dst, ']')
	}
	return append(dst, '}')
}

// logprobs joins the lists of all events: of a chat content and refusal, of a completion its four.
func (w *Whole) logprobs(dst []byte) []byte {
	if len(w.logs) == 0 {
		return append(dst, "null"...)
	}
	names := []string{"content", "refusal"}
	if !w.chat {
		names = []string{"text_offset", "token_logprobs", "tokens", "top_logprobs"}
	}
	lists := make([][]byte, len(names))
	for _, l := range w.logs {
		s := Scan(l)
		s.Object(func(key Span) bool {
			name := s.Name(key)
			v, ok := s.Value()
			for i := range names {
				if !ok || string(name) != names[i] || l[v.From] != '[' {
					continue
				}
				inner := bytes.TrimSpace(l[v.From+1 : v.To-1])
				if len(inner) > 0 && len(lists[i]) > 0 {
					lists[i] = append(lists[i], ',')
				}
				lists[i] = appendCompact(lists[i], inner)
			}
			return ok
		})
	}
	for i, name := range names {
		dst = append(dst, [...]string{`{"`, `,"`}[min(i, 1)]...)
		dst = append(append(dst, name...), `":`...)
		if w.chat && i == 1 && len(lists[i]) == 0 {
			dst = append(dst, "null"...)
			continue
		}
		dst = append(dst, '[')
		dst = append(append(dst, lists[i]...), ']')
	}
	return append(dst, '}')
}

// Object writes the whole answer, of as many choices as tasks; they are in one order.
func Object(s Shape, all []*Whole, results []*bus.Result) []byte {
	dst := appendHead(nil, s, false)
	for i, w := range all {
		dst = append(dst, [...]string{`[`, `,`}[min(i, 1)]...)
		dst = w.choice(dst, i, results[i])
	}
	dst = append(dst, `],"usage":`...)
	dst = appendUsage(dst, results)
	dst = append(dst, `,"souk":`...)
	if len(results) == 1 {
		return append(appendDeal(dst, results[0]), '}')
	}
	cost, paid := Sums(results)
	dst = append(dst, `{"cost":`...)
	dst = append(dst, cost.String()...)
	dst = append(dst, `,"paid":`...)
	dst = append(dst, paid.String()...)
	dst = append(dst, `,"tasks":`...)
	for i, r := range results {
		dst = append(dst, [...]string{`[`, `,`}[min(i, 1)]...)
		dst = appendDeal(dst, r)
	}
	return append(dst, `]}}`...)
}

// Sums are what all answers of a request cost and were paid.
func Sums(results []*bus.Result) (cost, paid market.Credits) {
	for _, r := range results {
		cost, _ = cost.Add(r.Cost)
		paid, _ = paid.Add(r.Paid())
	}
	return cost, paid
}
