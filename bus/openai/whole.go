package openai

import (
	"bytes"
	"cmp"
	"encoding/json"

	"souk/bus"
	"souk/market"
)

// MaxWhole bounds an answer that is collected, in bytes of text, arguments and log probabilities.
const MaxWhole = 4 << 20

// Whole collects the answer to one task, to be written as one object.
type Whole struct {
	kind                     string
	chat                     bool
	attempt                  int // whose answer this is, to a pooling task
	text, reasoning, refusal []byte
	calls                    []call
	logs, cites              [][]byte // as they came
	size                     int
	more                     int // of it, what is neither text, reasoning nor refusal
	piece                    piece
}

// call is a tool call, put together of its parts.
type call struct {
	id, kind, name string
	arguments      []byte
}

// NewWhole collects an answer of a kind.
func NewWhole(kind string) *Whole { return &Whole{kind: kind, chat: kind == bus.KindChat} }

// Chunk takes a chunk in. The error is that of an answer which no engine gives, or which is too long to be
// given as one.
func (w *Whole) Chunk(c *bus.Chunk) error {
	if bus.Pooling(w.kind) {
		return w.pool(c)
	}
	err := pieces(c, w.chat, &w.piece, w.take)
	if err == nil && w.size > MaxWhole {
		err = refusal(bus.CodeTooLarge, "the answer has more than %d bytes: ask with stream: true", MaxWhole)
	}
	return err
}

// Size estimates the answer's size so far, in bytes.
func (w *Whole) Size() int {
	return cap(w.text) + cap(w.reasoning) + cap(w.refusal) + w.more + logCost*(cap(w.logs)+cap(w.cites))
}

// logCost is the size of a list of log probabilities beside its bytes.
const logCost = 40

func (w *Whole) take(p *piece) error {
	w.text = append(w.text, p.text...)
	w.reasoning, w.refusal = appendQuoted(w.reasoning, p.reasoning), appendQuoted(w.refusal, p.refusal)
	if len(p.logs) > 0 {
		w.logs = append(w.logs, bytes.Clone(p.logs))
	}
	if len(p.cites) > 0 {
		w.cites = append(w.cites, bytes.Clone(p.cites))
	}
	w.size += len(p.text) + len(p.reasoning) + len(p.refusal) + len(p.logs) + len(p.calls) + len(p.cites)
	w.more += len(p.logs) + len(p.calls) + len(p.cites)
	return eachCall(p.calls, len(w.calls), func(i int, part *callPart) error {
		if i == len(w.calls) {
			w.calls = append(w.calls, call{kind: "function"})
		}
		c := &w.calls[i]
		c.id, c.kind = cmp.Or(part.ID, c.id), cmp.Or(part.Type, c.kind)
		c.name = cmp.Or(c.name, part.Function.Name)
		c.arguments = append(c.arguments, part.Function.Arguments...)
		return nil
	})
}

// callPart is a part of a tool call, as an event has it.
type callPart struct {
	Index    *int
	ID, Type string
	Function struct{ Name, Arguments string }
}

func callParts(calls []byte) (parts []callPart, err error) {
	if err := json.Unmarshal(calls, &parts); err != nil {
		return nil, forged("%v", err)
	}
	return parts, nil
}

// eachCall calls take with every part of tool calls, and the number of its call, where so many have begun:
// each call begins behind the one before it.
func eachCall(calls []byte, begun int, take func(i int, p *callPart) error) error {
	if len(calls) == 0 {
		return nil
	}
	parts, err := callParts(calls)
	for k := 0; k < len(parts) && err == nil; k++ {
		i := 0
		if parts[k].Index != nil {
			i = *parts[k].Index
		}
		if i < 0 || i > begun || i >= bus.MaxCalls {
			return forged("it has part of tool call %d where %d have begun", i, begun)
		}
		begun = max(begun, i+1)
		err = take(i, &parts[k])
	}
	return err
}

// choice writes it as choice number index.
func (w *Whole) choice(o Out, index int, r *bus.Result) Out {
	if o = o.Raw(`{"index":`).Int(index); w.chat {
		o = w.message(o)
	} else {
		o = o.Raw(`,"text":`).Str(string(w.text))
	}
	return w.logprobs(o.Raw(`,"logprobs":`)).finish(r).Raw("}")
}

func (w *Whole) message(o Out) Out {
	o = o.Raw(`,"message":{"role":"assistant","content":`)
	if len(w.calls) > 0 {
		o = o.StrOrNull(string(w.text))
	} else {
		o = o.Str(string(w.text))
	}
	o = o.Raw(`,"refusal":`).StrOrNull(string(w.refusal))
	if reasoning := string(w.reasoning); reasoning != "" {
		o = o.Raw(`,"reasoning":`).Str(reasoning).Raw(`,"reasoning_content":`).Str(reasoning)
	}
	if len(w.cites) > 0 {
		o = o.Raw(`,"citations":[`).Raw(string(joined(w.cites))).Raw("]")
	}
	for i, c := range w.calls {
		o = o.Raw([...]string{`,"tool_calls":[`, `,`}[min(i, 1)]).Raw(`{"id":`).Str(c.id).
			Raw(`,"type":`).Str(c.kind).Raw(`,"function":{"name":`).Str(c.name).
			Raw(`,"arguments":`).Str(string(c.arguments)).Raw(`}}`)
	}
	if len(w.calls) > 0 {
		o = o.Raw("]")
	}
	return o.Raw("}")
}

// joined are the items of lists.
func joined(lists [][]byte) (items []byte) {
	for _, l := range lists {
		items = join(items, l)
	}
	return items
}

// join appends the items of a list.
func join(items, list []byte) []byte {
	inner := bytes.TrimSpace(list[1 : len(list)-1])
	if len(inner) > 0 && len(items) > 0 {
		items = append(items, ',')
	}
	return appendCompact(items, inner)
}

// logprobs joins the lists of all events: of a chat content and refusal, of a completion its four.
func (w *Whole) logprobs(o Out) Out {
	if len(w.logs) == 0 {
		return o.Raw("null")
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
				lists[i] = join(lists[i], l[v.From:v.To])
			}
			return ok
		})
	}
	for i, name := range names {
		if o = o.Raw([...]string{`{"`, `,"`}[min(i, 1)]).Raw(name); w.chat && i == 1 && len(lists[i]) == 0 {
			o = o.Raw(`":null`)
		} else {
			o = o.Raw(`":[`).Raw(string(lists[i])).Raw("]")
		}
	}
	return o.Raw("}")
}

// wholeRoom is the room for the members of an object other than the answer.
const wholeRoom = 1 << 10

// Object writes the whole answer, of as many choices as tasks; they are in one order.
func Object(s Shape, all []*Whole, results []*bus.Result) []byte {
	if bus.Pooling(s.Kind) {
		return pooledObject(all[0].text, results[0])
	}
	size := wholeRoom
	for _, w := range all {
		size += w.Size()
	}
	o := Out(make([]byte, 0, size)).head(s, false)
	for i, w := range all {
		o = w.choice(o.Raw([...]string{`[`, `,`}[min(i, 1)]), i, results[i])
	}
	o = o.Raw(`],"usage":`).usage(results).Raw(`,"souk":`)
	if len(results) == 1 {
		return o.deal(results[0]).Raw("}")
	}
	cost, paid := Sums(results)
	o = o.Raw(`{"cost":`).Raw(cost.String()).Raw(`,"paid":`).Raw(paid.String()).Raw(`,"tasks":`)
	for i, r := range results {
		o = o.Raw([...]string{`[`, `,`}[min(i, 1)]).deal(r)
	}
	return o.Raw(`]}}`)
}

// Sums adds up the costs and the payments of all answers of a request.
func Sums(results []*bus.Result) (cost, paid market.Credits) {
	for _, r := range results {
		cost, _ = cost.Add(r.Cost)
		paid, _ = paid.Add(r.Paid())
	}
	return cost, paid
}
