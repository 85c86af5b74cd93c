package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"souk/bus"
	"souk/market"
)

var shape = Shape{ID: "t-1", Kind: bus.KindChat, Model: "a \"model\"", Created: 7}

// wireEvent holds the members of an event that a stock client reads.
type wireEvent struct {
	ID, Object, Model string
	Choices           []struct {
		Index int
		Delta struct {
			Role, Content, Reasoning, Refusal string
			ReasoningContent                  string            `json:"reasoning_content"`
			Calls                             []json.RawMessage `json:"tool_calls"`
		}
		Text     string
		Logprobs json.RawMessage
		IDs      []uint32 `json:"token_ids"`
		Finish   *string  `json:"finish_reason"`
		Stop     json.RawMessage
	}
	Usage map[string]any
	Souk  map[string]any
	Error map[string]any
}

// sse reads a stream as clients do: lines, of which those with data make an event each.
func sse(t testing.TB, stream []byte) (out []wireEvent) {
	t.Helper()
	for _, event := range strings.SplitAfter(string(stream), "\n\n") {
		if event == "" {
			continue
		}
		line, ok := strings.CutSuffix(event, "\n\n")
		if !ok || strings.ContainsAny(line, "\n\r") {
			t.Fatalf("%q is not one line and an empty one", event)
		}
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			t.Fatalf("%q has no data", event)
		}
		if data == "[DONE]" {
			continue
		}
		var e wireEvent
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			t.Fatalf("%q: %v", data, err)
		}
		out = append(out, e)
	}
	return out
}

var served = &bus.Result{Client: "c", Task: "t-1", Hub: "general", Agent: "a", Model: "m", Finish: "stop",
	Usage: market.Usage{Prompt: 10, Cached: 4, Output: 3}, Cost: 1_500_000_000, Premium: 1,
	Receipt: &bus.Receipt{ID: "general/1/0"}}

func TestAStreamIsThatOfAnOpenAIServer(t *testing.T) {
	e := NewEvents(shape, 2)
	out := e.Begin(nil)
	for _, c := range []bus.Chunk{
		{Text: "Hello \"you\"\n\x01 <ü>", Tokens: []uint32{1, 2}}, {Heartbeat: true}, {Finish: true},
	} {
		var err error
		if out, err = e.Chunk(out, &c); err != nil {
			t.Fatal(err)
		}
	}
	out = e.Finish(out, served)
	out = Usage(out, shape, []*bus.Result{served, served})
	out = append(out, Done...)
	events := sse(t, out)
	if len(events) != 4 {
		t.Fatalf("%d events: %s", len(events), out)
	}
	for i, e := range events[:3] {
		if e.ID != "chatcmpl-t-1" || e.Object != "chat.completion.chunk" || e.Model != shape.Model ||
			len(e.Choices) != 1 || e.Choices[0].Index != 2 || e.Usage != nil ||
			(e.Choices[0].Finish != nil) != (i == 2) {
			t.Errorf("event %d: %+v", i, e)
		}
	}
	if d := events[0].Choices[0].Delta; d.Role != "assistant" || d.Content != "" {
		t.Errorf("first %+v", d)
	}
	if c := events[1].Choices[0]; c.Delta.Content != "Hello \"you\"\n\x01 <ü>" || c.IDs != nil {
		t.Errorf("then %+v", c)
	}
	last := events[2]
	if *last.Choices[0].Finish != "stop" || last.Souk["receipt"] != "general/1/0" ||
		last.Souk["paid"] != 1.500000001 || last.Souk["agent"] != "a" || last.Souk["task"] != "t-1" {
		t.Errorf("last %+v", last)
	}
	usage := events[3]
	if len(usage.Choices) != 0 || fmt.Sprint(usage.Usage["prompt_tokens"], usage.Usage["completion_tokens"],
		usage.Usage["total_tokens"], usage.Usage["cost"]) != "20 6 26 3.000000002" {
		t.Errorf("usage %+v", usage)
	}
	if usage.Usage["completion_tokens_details"] != nil {
		t.Errorf("reasoning is counted where there was none: %+v", usage)
	}
	thought := *served
	thought.Thought = 2
	usage = sse(t, Usage(nil, shape, []*bus.Result{&thought, served, &thought}))[0]
	if fmt.Sprint(usage.Usage["completion_tokens_details"]) != "map[reasoning_tokens:4]" {
		t.Errorf("usage %+v of two answers that were reasoned for 2 tokens each", usage)
	}
}

func TestACompletionIsWrittenAsOne(t *testing.T) {
	s := shape
	s.Kind, s.IDs = bus.KindCompletion, true
	e := NewEvents(s, 0)
	out, err := e.Chunk(e.Begin(nil), &bus.Chunk{Text: "one two", Tokens: []uint32{3, 4}, Extra: []bus.Extra{
		{At: 3, Choice: json.RawMessage(`{"index":0, "text":" two","logprobs":{"tokens":[ " two"]},` +
			`"finish_reason":"stop","stop_reason":null,"token_ids":[4]}`)}}})
	if err != nil {
		t.Fatal(err)
	}
	events := sse(t, e.Finish(out, served))
	if len(events) != 3 || events[0].Object != "text_completion" || events[0].Choices[0].Text != "one" ||
		fmt.Sprint(events[0].Choices[0].IDs) != "[3 4]" || events[1].Choices[0].Text != " two" ||
		string(events[1].Choices[0].Logprobs) != `{"tokens":[" two"]}` || events[1].Choices[0].Finish != nil {
		t.Errorf("%s", out)
	}
}

func choice(delta string) json.RawMessage {
	return json.RawMessage(`{"index":0,"delta":{` + delta + `},"logprobs":null,"finish_reason":null}`)
}

// Text, reasoning and tool calls are events of their own, in the order in which the engine said them.
func TestNoEventHasTextAndToolCalls(t *testing.T) {
	e := NewEvents(shape, 0)
	c := bus.Chunk{Text: "Well, I look.", Extra: []bus.Extra{
		{At: 0, Choice: choice(`"role":"assistant","content":null,"reasoning":"hm \u00e4"`)},
		{At: 6, Choice: choice(`"content":"I look.", "tool_calls":[{"index":0,"id":"c1","type":"function",` +
			`"function":{"name":"find","arguments":""}}]`)},
		{At: 13, Choice: choice(`"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":1}"}}]`)},
	}}
	out, err := e.Chunk(nil, &c)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range sse(t, out) {
		d := e.Choices[0].Delta
		if d.Reasoning != d.ReasoningContent {
			t.Errorf("reasoning %q and %q", d.Reasoning, d.ReasoningContent)
		}
		got = append(got, fmt.Sprintf("%s|%s|%s", d.Reasoning, d.Content, d.Calls))
	}
	want := []string{`hm ä||[]`, `|Well, |[]`, `|I look.|[]`,
		`||[{"index":0,"id":"c1","type":"function","function":{"name":"find","arguments":""}}]`,
		`||[{"index":0,"function":{"arguments":"{\"a\":1}"}}]`}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}

	w := NewWhole(bus.KindChat)
	if err := w.Chunk(&c); err != nil {
		t.Fatal(err)
	}
	var o struct {
		Object  string
		Choices []struct {
			Message struct {
				Content, Reasoning string
				Calls              []struct {
					ID, Type string
					Function struct{ Name, Arguments string }
				} `json:"tool_calls"`
			}
			Finish string `json:"finish_reason"`
		}
		Souk map[string]any
	}
	text := Object(shape, []*Whole{w}, []*bus.Result{served})
	if err := json.Unmarshal(text, &o); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	m := o.Choices[0].Message
	if o.Object != "chat.completion" || m.Content != c.Text || m.Reasoning != "hm ä" || len(m.Calls) != 1 ||
		m.Calls[0].Function.Arguments != `{"a":1}` || m.Calls[0].Function.Name != "find" ||
		m.Calls[0].ID != "c1" || o.Souk["receipt"] != "general/1/0" || o.Choices[0].Finish != "stop" {
		t.Errorf("%s", text)
	}
}

func TestLogprobsOfAllEventsAreOneList(t *testing.T) {
	for kind, c := range map[string]struct{ one, two, want string }{
		bus.KindChat: {`{"delta":{"content":"a"},"logprobs":{"content":[{"token":"a"}]}}`,
			`{"delta":{"content":"b"},"logprobs":{"content":[ {"token":"b"} ],"refusal":null}}`,
			`{"content":[{"token":"a"},{"token":"b"}],"refusal":null}`},
		bus.KindCompletion: {
			`{"text":"a","logprobs":{"text_offset":[0],"token_logprobs":[-1],"tokens":["a"],"top_logprobs":[{}]}}`,
			`{"text":"b","logprobs":{"text_offset":[1],"token_logprobs":[-2],"tokens":["b"],"top_logprobs":[null]}}`,
			`{"text_offset":[0,1],"token_logprobs":[-1,-2],"tokens":["a","b"],"top_logprobs":[{},null]}`},
	} {
		w := NewWhole(kind)
		if err := w.Chunk(&bus.Chunk{Text: "ab", Extra: []bus.Extra{{At: 0, Choice: json.RawMessage(c.one)},
			{At: 1, Choice: json.RawMessage(c.two)}}}); err != nil {
			t.Fatal(err)
		}
		s := shape
		s.Kind = kind
		text := Object(s, []*Whole{w}, []*bus.Result{served})
		if !json.Valid(text) || !bytes.Contains(text, []byte(`"logprobs":`+c.want)) {
			t.Errorf("%s: %s", kind, text)
		}
	}
}

// vLLM's parsers for Cohere's models say what an answer cites, in events between those of its text, and in
// one with it: clients get it as it came, whole and in events; a response has no place for it.
func TestCitations(t *testing.T) {
	const first, second = `{"start":0,"end":4,"text":"Oslo","sources":[{"type":"tool","id":"c1"}]}`,
		`{"start":8,"end":12,"text":"cold","sources":[]}`
	said := []bus.Chunk{
		{Text: "Oslo", Extra: []bus.Extra{{Choice: choice(`"content":"Oslo","citations":[` + first + ` ]`)}}},
		{Text: " is cold"},
		{Extra: []bus.Extra{{Choice: choice(`"citations":[` + second + `]`)}}},
	}
	e, w := NewEvents(shape, 0), NewWhole(bus.KindChat)
	r := NewResponse(shape, filledAsked(t))
	stream, events := []byte(nil), []byte(nil)
	for i := range said {
		var err error
		if stream, err = e.Chunk(stream, &said[i]); err != nil {
			t.Fatal(err)
		}
		if err = w.Chunk(&said[i]); err != nil {
			t.Fatal(err)
		}
		if events, err = r.Chunk(events, &said[i]); err != nil {
			t.Fatal(err)
		}
	}
	text, cites := "", ""
	for _, event := range strings.Split(string(stream), endEvent) {
		var o struct {
			Choices []struct {
				Delta struct {
					Content   string
					Citations []json.RawMessage
				}
			}
		}
		if json.Unmarshal([]byte(strings.TrimPrefix(event, "data: ")), &o); len(o.Choices) == 1 {
			text += o.Choices[0].Delta.Content
			for _, c := range o.Choices[0].Delta.Citations {
				cites += string(c)
			}
		}
	}
	if text != "Oslo is cold" || cites != first+second {
		t.Errorf("the events say %q and cite %s:\n%s", text, cites, stream)
	}
	whole := string(Object(shape, []*Whole{w}, []*bus.Result{served}))
	if !json.Valid([]byte(whole)) || !strings.Contains(whole, `"content":"Oslo is cold"`) ||
		!strings.Contains(whole, `,"citations":[`+first+`,`+second+`]`) {
		t.Errorf("whole: %s", whole)
	}
	r.Finish(nil, served)
	if text := string(r.Object()); !strings.Contains(text, `"text":"Oslo is cold"`) {
		t.Errorf("a response: %s", text)
	}
	for _, x := range []string{`{"delta":{"citations":{}}}`, `{"delta":{"citations":"x"}}`,
		`{"delta":{"citations":[],"citations":[]}}`, `{"delta":{"citations":[}}`} {
		c := bus.Chunk{Extra: []bus.Extra{{Choice: []byte(x)}}}
		if _, err := NewEvents(shape, 0).Chunk(nil, &c); bus.CodeOf(err) != bus.CodeAgentFailed {
			t.Errorf("%s: %v", x, err)
		}
	}
}

// What no engine says is the agent's, and none of it reaches a client.
func TestAnAgentWritesNoEvents(t *testing.T) {
	for _, x := range []string{
		``, `null`, `[]`, `{`, `{}{}`, `{"index":1}`, `{"index":0,"index":0}`, `{"souk":{}}`, `{"text":"a"}`,
		"{\"delta\":{\"content\":\"a\nb\"}}", `{"delta":{"content":"other"}}`, `{"delta":{"content":1}}`,
		`{"delta":{"audio":"x"}}`, `{"delta":{"tool_calls":{}}}`, `{"delta":{"tool_calls":[1]}}`,
		`{"delta":{"tool_calls":[{"index":1000}]}}`, `{"delta":{"tool_calls":[{"index":0,"x":"y"}]}}`,
		`{"delta":{"tool_calls":[{"index":0,"function":{"code":"y"}}]}}`, `{"logprobs":[]}`,
		`{"delta":{"reasoning":{}}}`, `{"delta":[]}`, "{\"delta\":{\"reasoning\":\"\xff\"}}",
		`{"logprobs":{"content":` + strings.Repeat("[", 20) + strings.Repeat("]", 20) + `}}`,
		`{"delta":{"content":"a"},"d\u0065lta":{"content":"a"}}`,
	} {
		c := bus.Chunk{Text: "abc", Extra: []bus.Extra{{Choice: json.RawMessage(x)}}}
		out, err := NewEvents(shape, 0).Chunk([]byte("before"), &c)
		if bus.CodeOf(err) != bus.CodeAgentFailed || string(out) != "before" {
			t.Errorf("%s: %q, %v", x, out, err)
		}
		if err := NewWhole(bus.KindChat).Chunk(&c); bus.CodeOf(err) != bus.CodeAgentFailed {
			t.Errorf("%s: collected: %v", x, err)
		}
	}
	c := bus.Chunk{Text: "abc", Extra: []bus.Extra{{At: 4, Choice: choice(``)}}}
	if _, err := NewEvents(shape, 0).Chunk(nil, &c); bus.CodeOf(err) != bus.CodeAgentFailed {
		t.Errorf("behind the text: %v", err)
	}
	for at, within := range []bool{false, false, true, true, false, true, false, false} {
		c := bus.Chunk{Text: "a\u20acé\xff", Extra: []bus.Extra{{At: at, Choice: choice(``)}}}
		_, err := NewEvents(shape, 0).Chunk(nil, &c)
		whole := NewWhole(bus.KindChat).Chunk(&c)
		if forged := bus.CodeOf(err) == bus.CodeAgentFailed; forged != within || (whole == nil) == within {
			t.Errorf("at %d, which lies within a character (%v): %v, collected: %v", at, within, err, whole)
		}
	}
}

// Whatever a chunk says, each event is one line of valid JSON, and their text is the chunk's.
func FuzzEvents(f *testing.F) {
	f.Add("Hello", []byte(`{"index":0,"delta":{"content":"lo"}}`), 3, true)
	f.Add("a\u2028\"\\\x00", []byte(`{"delta":{"tool_calls":[{"index":0,"id":"x"}],"reasoning":"r"}}`), 0, true)
	f.Add("Hello", []byte(`{"text":"Hello","logprobs":{"tokens":["Hello"]}}`), 0, false)
	f.Add("\u20ac", []byte("{}"), 1, true)
	f.Add("\xff\xfe", []byte(` {"delta" : {"refusal" : "\ud83d\ude00"} , "finish_reason" : "stop"} `), 1, true)
	f.Fuzz(func(t *testing.T, text string, choice []byte, at int, chat bool) {
		s := Shape{ID: text, Model: text, Kind: bus.KindCompletion, IDs: at%2 == 0}
		if chat {
			s.Kind = bus.KindChat
		}
		c := &bus.Chunk{Text: text, Tokens: []uint32{7}}
		if len(choice) > 0 {
			c.Extra = []bus.Extra{{At: at, Choice: choice}}
		}
		e, w := NewEvents(s, 1), NewWhole(s.Kind)
		out, err := e.Chunk(nil, c)
		if collected := w.Chunk(c); (collected == nil) != (err == nil) && s.Kind != bus.KindChat {
			t.Fatalf("stream %v, whole %v", err, collected)
		}
		if err != nil {
			if bus.CodeOf(err) != bus.CodeAgentFailed || len(out) > 0 {
				t.Fatalf("%q: %v", out, err)
			}
			return
		}
		r := *served
		r.Finish, r.Message, r.Stop, r.Task = text, text, choice, text
		var said strings.Builder
		why := Refusal{Code: bus.CodeUnknown, Message: text, Task: text, RetryMS: 1, Paid: &r.Cost}
		for _, e := range sse(t, why.Event(Usage(e.Finish(out, &r), s, []*bus.Result{&r}))) {
			for _, c := range e.Choices {
				said.WriteString(c.Text + c.Delta.Content)
				if c.Delta.Content != "" && len(c.Delta.Calls) > 0 {
					t.Errorf("text and tool calls in one event: %s", out)
				}
			}
		}
		if utf8.ValidString(text) && said.String() != text {
			t.Errorf("%q was said, and %q written", text, said.String())
		}
		if whole := Object(s, []*Whole{w}, []*bus.Result{&r}); !json.Valid(whole) {
			t.Errorf("%s", whole)
		}
	})
}

func BenchmarkEvent(b *testing.B) {
	e := NewEvents(shape, 0)
	c := &bus.Chunk{Text: " another few words of it", Tokens: []uint32{1, 2, 3, 4, 5}}
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		dst, _ = e.Chunk(dst[:0], c)
	}
}

func BenchmarkAsk(b *testing.B) {
	body := []byte(`{"model":"auto","messages":[{"role":"user","content":"` +
		strings.Repeat("What is a souk? ", 180) + `"}],"stream":true}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, no := Ask(body, nil, "dev", bus.KindChat); no != nil {
			b.Fatal(no)
		}
	}
}

// What a hub did not say is null: neither nothing nor all of it.
func TestABalanceOfASilentHub(t *testing.T) {
	got, err := EncodeBalance("ann", bus.FundsReply{Prepaid: 1, Allotted: 9, Hubs: []bus.HubFunds{
		{Hub: "a", Allotted: 5, Avail: 2, Held: 1, AtMS: 7}, {Hub: "b", Allotted: 4, HeardMS: 3}}})
	const want = `{"object":"balance","client":"ann","prepaid":0.000000001,"allotted":0.000000009,"hubs":[` +
		`{"hub":"a","allotted":0.000000005,"available":0.000000002,"held":0.000000001,"spent":0.000000002},` +
		`{"hub":"b","allotted":0.000000004,"available":null,"held":null,"spent":null}]}`
	if err != nil || string(got) != want {
		t.Errorf("%s, %v", got, err)
	}
}
