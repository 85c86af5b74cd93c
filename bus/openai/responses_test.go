package openai

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"souk/bus"
	"souk/market"
)

// A request for a response asks what this chat asks.
func TestResponsesAsChats(t *testing.T) {
	known := func(id string) ([]byte, bool) {
		v, ok := map[string]string{
			"msg_1": `{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"output_text","text":"Hi."}]}`,
			"fc_1":  `{"id":"fc_1","type":"function_call","call_id":"c1","name":"weather","arguments":"{}"}`,
			"loop":  `{"id":"loop","type":"item_reference"}`,
		}[id]
		return []byte(v), ok
	}
	for _, c := range []struct{ in, chat string }{
		{`{"model":"m","input":"Hello"}`, `{"messages":[{"role":"user","content":"Hello"}],"model":"m"}`},
		{`{"input":"Hello","instructions":"Be \"short\"","max_output_tokens":5,"temperature":0.5,"top_p":null,
			"stream":true,"store":false,"metadata":{"a":"b"},"souk":{"terms":{"worth":1}}}`,
			`{"max_completion_tokens":5,"messages":[{"role":"system","content":"Be \"short\""},
			{"role":"user","content":"Hello"}],"souk":{"terms":{"worth":1}},"stream":true,"temperature":0.5}`},
		{`{"input":[{"role":"user","content":[{"type":"input_text","text":"a"}]},
			{"type":"message","role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_text","text":"b"}]},
			{"role":"user","content":[{"type":"input_text","text":"see"},{"type":"input_image","image_url":"data:x","detail":"low"}]}]}`,
			`{"messages":[{"role":"user","content":"a"},
			{"role":"user","content":[{"text":"a","type":"text"},{"text":"b","type":"text"}]},
			{"role":"user","content":[{"text":"see","type":"text"},{"image_url":{"detail":"low","url":"data:x"},"type":"image_url"}]}]}`},
		// one turn of the assistant is one message
		{`{"input":[{"role":"user","content":"w?"},
			{"type":"reasoning","id":"rs","summary":[],"content":[{"type":"reasoning_text","text":"hm"}],"encrypted_content":"x"},
			{"type":"message","role":"assistant","content":[{"type":"output_text","text":"I "},{"type":"output_text","text":"look"}]},
			{"type":"function_call","call_id":"c1","name":"weather","arguments":"{\"city\":1}"},
			{"type":"function_call","call_id":"c2","name":"clock","arguments":""},
			{"type":"function_call_output","call_id":"c1","output":"rain"},
			{"type":"function_call_output","call_id":"c2","output":[{"type":"input_text","text":"noon"}]},
			{"type":"reasoning","content":null},{"role":"assistant","content":"so"},{"role":"assistant","content":"there"}]}`,
			`{"messages":[{"role":"user","content":"w?"},
			{"role":"assistant","content":"I look","reasoning":"hm","tool_calls":[
				{"id":"c1","type":"function","function":{"name":"weather","arguments":"{\"city\":1}"}},
				{"id":"c2","type":"function","function":{"name":"clock","arguments":""}}]},
			{"role":"tool","content":"rain","tool_call_id":"c1"},{"role":"tool","content":"noon","tool_call_id":"c2"},
			{"role":"assistant","content":"so"},{"role":"assistant","content":"there"}]}`},
		{`{"input":[{"type":"item_reference","id":"msg_1"},{"type":"item_reference","id":"fc_1"},
			{"type":"function_call_output","call_id":"c1","output":"x"}]}`,
			`{"messages":[{"role":"assistant","content":"Hi.","tool_calls":[{"id":"c1","type":"function",
			"function":{"name":"weather","arguments":"{}"}}]},{"role":"tool","content":"x","tool_call_id":"c1"}]}`},
		{`{"input":"x","tools":[{"type":"function","name":"f","description":null,"parameters":{"type":"object"},"strict":true}],
			"tool_choice":{"type":"function","name":"f"},"parallel_tool_calls":false}`,
			`{"messages":[{"role":"user","content":"x"}],"parallel_tool_calls":false,
			"tool_choice":{"function":{"name":"f"},"type":"function"},
			"tools":[{"type":"function","function":{"name":"f","strict":true,"parameters":{"type":"object"}}}]}`},
		{`{"input":"x","text":{"format":{"type":"json_schema","name":"n","schema":{"a":1},"strict":true},"verbosity":"low"},
			"reasoning":{"effort":"low","summary":"auto"},"include":["message.output_text.logprobs"],"top_logprobs":3}`,
			`{"logprobs":true,"messages":[{"role":"user","content":"x"}],"reasoning_effort":"low",
			"response_format":{"json_schema":{"name":"n","schema":{"a":1},"strict":true},"type":"json_schema"},"top_logprobs":3}`},
		{`{"input":"x","text":{"format":{"type":"json_object"}},"tool_choice":"required","tools":[]}`,
			`{"messages":[{"role":"user","content":"x"}],"response_format":{"type":"json_object"},"tool_choice":"required"}`},
		{`{"input":"x","prompt_cache_key":"k","prompt_cache_options":{"mode":"explicit","ttl":"12h","prewarm":false}}`,
			`{"messages":[{"role":"user","content":"x"}],"prompt_cache_key":"k"}`},
		{`{"input":"x","text":{"format":{"type":"text"}},"previous_response_id":null,"background":false,"truncation":"disabled"}`,
			`{"messages":[{"role":"user","content":"x"}]}`},
	} {
		r, err := ReadResponses([]byte(c.in), known)
		if err != nil {
			t.Errorf("%s: %v", c.in, err)
			continue
		}
		var want bytes.Buffer
		if err := json.Compact(&want, []byte(c.chat)); err != nil {
			t.Fatal(err)
		}
		if string(r.Chat) != want.String() {
			t.Errorf("%s\n has %s\nwant %s", c.in, r.Chat, want.String())
		}
		if _, err := Ask(r.Chat, nil, "ada", bus.KindChat); err != nil {
			t.Errorf("%s: %v", c.in, err)
		}
	}

	for _, c := range []struct {
		in   string
		code bus.Code
		says string
	}{
		{``, bus.CodeBadRequest, "not a JSON object"},
		{`[]`, bus.CodeBadRequest, "not a JSON object"},
		{"{\"input\":\"\xff\"}", bus.CodeBadRequest, "not UTF-8"},
		{`{"input":"x"} {}`, bus.CodeBadRequest, ""},
		{`{"input":"x"`, bus.CodeBadRequest, ""},
		{`{"input":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `}`, bus.CodeBadRequest, ""},
		{`{}`, bus.CodeBadRequest, "input: a string or a list"},
		{`{"input":null}`, bus.CodeBadRequest, "input: a string or a list"},
		{`{"input":7}`, bus.CodeBadRequest, "input: a string or a list"},
		{`{"input":[]}`, bus.CodeBadRequest, "input: the list is empty"},
		{`{"input":[7]}`, bus.CodeBadRequest, "input[0]: an item is an object"},
		{`{"input":[{"type":7}]}`, bus.CodeBadRequest, "input[0]: an item is an object"},
		{`{"input":[{"role":"wizard","content":"x"}]}`, bus.CodeBadRequest, `input[0].role: "wizard"`},
		{`{"input":[{"role":"user"}]}`, bus.CodeBadRequest, "input[0].content: a string"},
		{`{"input":[{"role":"user","content":[{"type":"input_file"}]}]}`, bus.CodeUnsupportedField,
			"input_file"},
		{`{"input":[{"role":"user","content":[{"type":"input_image","file_id":"f"}]}]}`,
			bus.CodeUnsupportedField,
			"comes by image_url"},
		{`{"input":[{"type":"web_search_call"}]}`, bus.CodeUnsupportedField, "input[0].type"},
		{`{"input":[{"type":"function_call","name":"f"}]}`, bus.CodeBadRequest, "call_id"},
		{`{"input":[{"type":"function_call_output","output":"f"}]}`, bus.CodeBadRequest, "call_id"},
		{`{"input":[{"type":"item_reference","id":"gone"}]}`, bus.CodeBadRequest, "send store: false"},
		{`{"input":[{"type":"item_reference","id":"loop"}]}`, bus.CodeUnsupportedField, "item_reference"},
		{`{"input":"x","previous_response_id":"resp_1"}`, bus.CodeUnsupportedField, "whole conversation"},
		{`{"input":"x","conversation":{"id":"c"}}`, bus.CodeUnsupportedField, "whole conversation"},
		{`{"input":"x","background":true}`, bus.CodeUnsupportedField, "background"},
		{`{"input":"x","truncation":"auto"}`, bus.CodeUnsupportedField, "truncation"},
		{`{"input":"x","prompt":{"id":"p"}}`, bus.CodeUnsupportedField, "prompt"},
		{`{"input":"x","messages":[]}`, bus.CodeUnsupportedField, "messages"},
		{`{"input":"x","n":2}`, bus.CodeUnsupportedField, "n:"},
		{`{"input":"x","prompt_cache_options":{"prewarm":true}}`, bus.CodeUnsupportedField,
			"prompt_cache_options.prewarm: "},
		{`{"input":"x","prompt_cache_options":{"prewarm":1}}`, bus.CodeBadRequest, "prompt_cache_options: "},
		{`{"input":"x","prompt_cache_options":"30m"}`, bus.CodeBadRequest, "prompt_cache_options: "},
		{`{"input":"x","instructions":[]}`, bus.CodeBadRequest, "instructions"},
		{`{"input":"x","store":1}`, bus.CodeBadRequest, "store"},
		{`{"input":"x","tools":[{"type":"web_search"}]}`, bus.CodeUnsupportedField,
			`tools[0].type: "web_search" is not taken here: leave it out`},
		{`{"input":"x","tools":[{"type":"function"}]}`, bus.CodeBadRequest, "tools[0].name"},
		{`{"input":"x","tools":{}}`, bus.CodeBadRequest, "tools"},
		{`{"input":"x","tool_choice":{"type":"file_search"}}`, bus.CodeUnsupportedField, "tool_choice"},
		{`{"input":"x","text":{"format":{"type":"grammar"}}}`, bus.CodeUnsupportedField, "text.format.type"},
		{`{"input":"x","text":7}`, bus.CodeBadRequest, "text"},
		{`{"input":"x","max_output_tokens":0}`, bus.CodeBadRequest, "max_output_tokens: 0"},
		{`{"input":"x","max_output_tokens":1.5}`, bus.CodeBadRequest, "max_output_tokens: 1.5"},
		{`{"input":"x","max_output_tokens":1e99}`, bus.CodeBadRequest, "max_output_tokens: 1e99"},
		{`{"input":"x","reasoning":"high"}`, bus.CodeBadRequest, "reasoning"},
		{`{"input":"x","include":"all"}`, bus.CodeBadRequest, "include"},
	} {
		r, err := ReadResponses([]byte(c.in), known)
		if err == nil {
			t.Errorf("%.80s: taken as %s", c.in, r.Chat)
		} else if err.Code != c.code || !strings.Contains(err.Message, c.says) {
			t.Errorf("%.80s: %v, want %s with %q", c.in, err, c.code, c.says)
		}
	}
}

// responseEvent holds the members of an event that a client reads.
type responseEvent struct {
	Type     string
	Number   int    `json:"sequence_number"`
	At       int    `json:"output_index"`
	Part     int    `json:"content_index"`
	ItemID   string `json:"item_id"`
	Delta    string
	Text     string
	Refusal  string
	Args     string `json:"arguments"`
	Item     responseItem
	Content  responsePart `json:"part"`
	Response *responseObject
	Error    map[string]any
}

type responseItem struct {
	ID, Type, Status, Name, Arguments string
	CallID                            string `json:"call_id"`
	Content                           []responsePart
}

type responsePart struct {
	Type, Text, Refusal string
	Logprobs            []json.RawMessage
}

type responseObject struct {
	ID, Object, Status, Model string
	Completed                 *int64 `json:"completed_at"`
	Output                    []responseItem
	Incomplete                map[string]string `json:"incomplete_details"`
	Usage                     *struct {
		Input  int `json:"input_tokens"`
		Output int `json:"output_tokens"`
		Total  int `json:"total_tokens"`
		Cached struct {
			Tokens int `json:"cached_tokens"`
		} `json:"input_tokens_details"`
		Thought struct {
			Tokens int `json:"reasoning_tokens"`
		} `json:"output_tokens_details"`
		Cost json.Number
	}
	Tools        []json.RawMessage
	Instructions *string
	Souk         map[string]any
}

// responseEvents reads a stream as clients do, and puts together what the events add up to.
func responseEvents(t testing.TB, stream []byte) (all []responseEvent, output []responseItem) {
	t.Helper()
	lines := bufio.NewScanner(bytes.NewReader(stream))
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		kind, ok := strings.CutPrefix(lines.Text(), "event: ")
		if !ok || !lines.Scan() {
			t.Fatalf("%q is no event's first line", lines.Text())
		}
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		var e responseEvent
		if err := json.Unmarshal([]byte(data), &e); err != nil || !ok || e.Type != kind ||
			e.Number != len(all) {
			t.Fatalf("%.200q: %v; of type %s, number %d of %d", lines.Text(), err, kind, e.Number, len(all))
		}
		if lines.Scan(); lines.Text() != "" {
			t.Fatalf("%q where an event ends", lines.Text())
		}
		all = append(all, e)
		item := func() *responseItem {
			if e.At >= len(output) || output[e.At].ID != e.ItemID || output[e.At].Status == "completed" {
				t.Fatalf("%s: of item %s at %d, which is not open", e.Type, e.ItemID, e.At)
			}
			return &output[e.At]
		}
		switch e.Type {
		case "response.output_item.added":
			if e.At != len(output) || e.Item.Status != "in_progress" {
				t.Fatalf("item %s is added at %d, %s", e.Item.ID, e.At, e.Item.Status)
			}
			output = append(output, e.Item)
		case "response.content_part.added":
			if x := item(); e.Part != len(x.Content) {
				t.Fatalf("part %d of %s is added", e.Part, x.ID)
			} else {
				x.Content = append(x.Content, e.Content)
			}
		case "response.output_text.delta", "response.reasoning_text.delta":
			item().Content[e.Part].Text += e.Delta
		case "response.refusal.delta":
			item().Content[e.Part].Refusal += e.Delta
		case "response.function_call_arguments.delta":
			item().Arguments += e.Delta
		case "response.output_text.done", "response.reasoning_text.done":
			if have := item().Content[e.Part].Text; have != e.Text {
				t.Fatalf("%s: %q, and the deltas said %q", e.Type, e.Text, have)
			}
		case "response.content_part.done":
			x := item()
			if p := x.Content[e.Part]; p.Text != e.Content.Text || p.Refusal != e.Content.Refusal {
				t.Fatalf("part %+v, and the deltas said %+v", e.Content, p)
			}
			x.Content[e.Part] = e.Content
		case "response.function_call_arguments.done":
			if have := item().Arguments; have != e.Args {
				t.Fatalf("arguments %q, and the deltas said %q", e.Args, have)
			}
		case "response.output_item.done":
			e.ItemID = e.Item.ID
			x := item()
			x.Status = e.Item.Status
			if fmt.Sprint(*x) != fmt.Sprint(e.Item) || x.Status != "completed" {
				t.Fatalf("item %+v, and the events said %+v", e.Item, *x)
			}
		}
	}
	return all, output
}

func filledAsked(t testing.TB) *Responses {
	r, err := ReadResponses([]byte(`{"input":"x","instructions":"be short"}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// What a response's events say, and what its object says, is what the agent sent.
func TestResponseEvents(t *testing.T) {
	r := NewResponse(Shape{ID: "t1", Kind: bus.KindChat, Model: "m\"", Created: 7}, filledAsked(t))
	stream := r.Begin(nil)
	for _, c := range []bus.Chunk{
		{Extra: []bus.Extra{{Choice: []byte(`{"index":0,"delta":{"reasoning":"let \"me"}}`)}}},
		{Extra: []bus.Extra{{Choice: []byte(`{"index":0,"delta":{"reasoning_content":" see"}}`)}}},
		{Text: "It\n"},
		{Text: "is ", Extra: []bus.Extra{{At: 0, Choice: []byte(
			`{"index":0,"delta":{"content":"is "},"logprobs":{"content":[{"token":"is","logprob":-1,"top_logprobs":[]}]}}`)}}},
		{Extra: []bus.Extra{{Choice: []byte(`{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":""}}]}}`)}}},
		{Extra: []bus.Extra{{Choice: []byte(`{"index":0,"delta":{"tool_calls":[{"index":1,"function":{"name":"g","arguments":"{"}}]}}`)}}},
		{Extra: []bus.Extra{{Choice: []byte(`{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":1}"}},{"index":1,"function":{"arguments":"}"}}]}}`)}}},
	} {
		var err error
		if stream, err = r.Chunk(stream, &c); err != nil {
			t.Fatal(err)
		}
	}
	last := &bus.Result{Task: "t1", Hub: "h", Agent: "a", Finish: "tool_calls",
		Usage: market.Usage{Prompt: 10, Cached: 4, Output: 6}, Thought: 3, Cost: 5, Premium: 2}
	r.Completed = 1700000042
	stream = r.Finish(stream, last)
	all, output := responseEvents(t, stream)
	if len(output) != 4 {
		t.Fatalf("%d items: %+v", len(output), output)
	}
	if o := output[0]; o.Type != "reasoning" || o.Content[0].Text != `let "me see` {
		t.Errorf("reasoning is %+v", o)
	}
	if o := output[1]; o.Type != "message" || o.Content[0].Text != "It\nis " ||
		len(o.Content[0].Logprobs) != 1 {
		t.Errorf("the message is %+v", o)
	}
	if o := output[2]; o.Name != "f" || o.CallID != "c1" || o.Arguments != `{"a":1}` {
		t.Errorf("the first call is %+v", o)
	}
	if o := output[3]; o.Name != "g" || o.CallID == "" || o.Arguments != `{}` {
		t.Errorf("the second call is %+v", o)
	}
	first, end := all[0], all[len(all)-1]
	if first.Type != "response.created" || first.Response.Status != "in_progress" ||
		first.Response.Usage != nil ||
		all[1].Type != "response.in_progress" || first.Response.Instructions == nil {
		t.Errorf("it begins with %+v, %+v", first, all[1])
	}
	var object responseObject
	if err := json.Unmarshal(r.Object(), &object); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(object.Output) != fmt.Sprint(output) || end.Type != "response.completed" ||
		fmt.Sprint(end.Response.Output) != fmt.Sprint(output) {
		t.Errorf("the object has %+v, the last event %+v, the events %+v", object.Output, end.Response,
			output)
	}
	if u := object.Usage; u.Input != 10 || u.Thought.Tokens != 3 || u.Cached.Tokens != 4 || u.Output != 6 ||
		u.Total != 16 || string(u.Cost) != last.Paid().String() || object.Souk["agent"] != "a" ||
		object.Model != `m"` {
		t.Errorf("the object is %+v with usage %+v", object, u)
	}

	if at := end.Response.Completed; first.Response.Completed != nil || at == nil || *at != 1700000042 {
		t.Errorf("completed at %v, and in the end %v", first.Response.Completed, at)
	}

	for finish, want := range map[string]string{"length": "max_output_tokens",
		"content_filter": "content_filter"} {
		r := NewResponse(Shape{ID: "t2"}, filledAsked(t))
		r.Completed = 1700000042
		all, _ := responseEvents(t, r.Finish(r.Begin(nil), &bus.Result{Finish: finish}))
		if e := all[len(all)-1]; e.Type != "response.incomplete" || e.Response.Status != "incomplete" ||
			e.Response.Completed != nil || e.Response.Incomplete["reason"] != want {
			t.Errorf("finish %s: %+v", finish, e.Response)
		}
	}
	failed := NewResponse(Shape{ID: "t3"}, filledAsked(t))
	all, _ = responseEvents(t, failed.Fail(failed.Begin(nil),
		Refusal{Code: bus.CodeEngineFailed, Message: "it died", Task: "t3"}))
	if e := all[2]; e.Type != "error" || e.Error["message"] != "it died" ||
		e.Error["code"] != "engine_failed" {
		t.Errorf("a failure is %+v", e)
	}
}

// Log probabilities of tokens that think are of no text: they begin no message. Those of a token whose text
// comes with the next one are that text's.
func TestLogprobsOfReasoningAreNoMessages(t *testing.T) {
	logs := func(token string) string { return `"logprobs":{"content":[{"token":"` + token + `"}]}}` }
	r := NewResponse(Shape{ID: "t"}, filledAsked(t))
	stream := r.Begin(nil)
	for _, c := range []bus.Chunk{ // as vLLM sends it, an event a token
		{Extra: []bus.Extra{{Choice: []byte(`{"delta":{},` + logs("<think>"))}}},
		{Extra: []bus.Extra{{Choice: []byte(`{"delta":{"reasoning":"let"},` + logs("let"))}}},
		{Extra: []bus.Extra{{Choice: []byte(`{"delta":{"reasoning":" me"},` + logs(" me"))}}},
		{Extra: []bus.Extra{{Choice: []byte(`{"delta":{},` + logs("half"))}}},
		{Text: "é", Extra: []bus.Extra{{Choice: []byte(`{"delta":{"content":"é"},` + logs("other half"))}}},
		{Extra: []bus.Extra{{Choice: []byte(`{"delta":{},` + logs("end"))}}},
	} {
		var err error
		if stream, err = r.Chunk(stream, &c); err != nil {
			t.Fatal(err)
		}
	}
	_, output := responseEvents(t, r.Finish(stream, &bus.Result{Finish: "stop"}))
	if len(output) != 2 || output[0].Content[0].Text != "let me" || output[1].Content[0].Text != "é" {
		t.Fatalf("%d items: %+v", len(output), output)
	}
	if got := fmt.Sprintf("%s", output[1].Content[0].Logprobs); got !=
		`[{"token":"half"} {"token":"other half"} {"token":"end"}]` {
		t.Errorf("the text's log probabilities are %s", got)
	}
}

func TestResponseIsBounded(t *testing.T) {
	r := NewResponse(Shape{ID: "t"}, filledAsked(t))
	var err error
	for range MaxResponse/1000 + 2 {
		if _, err = r.Chunk(nil, &bus.Chunk{Text: strings.Repeat("x", 1000)}); err != nil {
			break
		}
	}
	if bus.CodeOf(err) != bus.CodeTooLarge {
		t.Errorf("an endless answer: %v", err)
	}
	for _, big := range []string{strings.Repeat("i", 2*MaxEcho),
		strings.Repeat("\u0085", MaxEcho/3)} { // escaped it is longer
		a, no := ReadResponses([]byte(`{"input":"x","instructions":"`+big+`"}`), nil)
		if no != nil {
			t.Fatal(no)
		}
		if n := len(NewResponse(Shape{}, a).Object()); n > MaxEcho {
			t.Errorf("an answer repeats %d bytes of its request", n)
		}
	}
}

// However a request reads, it is refused, or is a chat that is read in turn.
func FuzzResponses(f *testing.F) {
	f.Add([]byte(`{"input":"x","instructions":"y","tools":[{"type":"function","name":"f"}],"stream":true}`))
	f.Add([]byte(`{"input":[{"role":"user","content":[{"type":"input_image","image_url":"u"}]},{"type":"reasoning","content":[{"text":"t"}]},{"type":"function_call","call_id":"c","name":"n"},{"type":"item_reference","id":"a"}],"text":{"format":{"type":"json_schema"}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := ReadResponses(data, func(id string) ([]byte, bool) {
			return []byte(`{"type":"message","role":"assistant","content":"` + "kept" + `"}`), id == "a"
		})
		if err != nil {
			return
		}
		if !json.Valid(r.Chat) {
			t.Fatalf("%q became %q", data, r.Chat)
		}
		if a, err := Ask(r.Chat, nil, "ada", bus.KindChat); err == nil && len(a.Tasks) != 1 {
			t.Fatalf("%d tasks", len(a.Tasks))
		}
		if o := NewResponse(Shape{ID: "x"}, r).Object(); !json.Valid(o) {
			t.Fatalf("%q", o)
		}
	})
}

// Whatever an agent sends, the events are such as clients read, and add up to the object.
func FuzzResponseEvents(f *testing.F) {
	f.Add("text", []byte(`{"index":0,"delta":{"reasoning":"a"}}`),
		[]byte(`{"delta":{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{}"}}]}}`))
	f.Add("", []byte(`{"delta":{"refusal":"no"}}`),
		[]byte(`{"delta":{"content":""},"logprobs":{"content":[{"token":"x"}]}}`))
	f.Fuzz(func(t *testing.T, text string, one, two []byte) {
		r := NewResponse(Shape{ID: "t"}, filledAsked(t))
		stream := r.Begin(nil)
		for _, c := range []bus.Chunk{{Extra: []bus.Extra{{Choice: one}}}, {Text: text},
			{Extra: []bus.Extra{{Choice: two}}}, {Extra: []bus.Extra{{Choice: one}}}} {
			next, err := r.Chunk(stream, &c)
			if err != nil {
				return
			}
			stream = next
		}
		stream = r.Finish(stream, &bus.Result{Finish: "stop"})
		_, output := responseEvents(t, stream)
		var object responseObject
		if err := json.Unmarshal(r.Object(), &object); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(object.Output) != fmt.Sprint(output) {
			t.Fatalf("the object has %+v, the events %+v", object.Output, output)
		}
	})
}

// A conversation of twenty turns, with calls and their outputs.
func BenchmarkReadResponses(b *testing.B) {
	var items []string
	for i := range 20 {
		items = append(items, fmt.Sprintf(`{"role":"user","content":[{"type":"input_text","text":%q}]}`,
			strings.Repeat("what is there to see? ", 8)),
			fmt.Sprintf(`{"type":"function_call","call_id":"c%d","name":"see","arguments":"{\"at\":%d}"}`, i, i),
			fmt.Sprintf(`{"type":"function_call_output","call_id":"c%d","output":%q}`, i,
				strings.Repeat("this and that ", 20)),
			fmt.Sprintf(`{"type":"message","role":"assistant","content":[{"type":"output_text","text":%q}]}`,
				strings.Repeat("a good deal, ", 16)))
	}
	body := []byte(`{"model":"m","stream":true,"input":[` + strings.Join(items, ",") + `]}`)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ReadResponses(body, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// A client that sent too much input is not told of messages, which it has not sent.
func TestResponsesNameTheirInput(t *testing.T) {
	many := `{"input":[` + strings.Repeat(`,{"role":"user","content":"a"}`, bus.MaxMessages+1)[1:] + `]}`
	_, no := ReadResponses([]byte(many), nil)
	if no == nil || no.Code != bus.CodeUnsupportedField ||
		no.Message != "input: more than 4096 messages; send fewer" {
		t.Errorf("%v", no)
	}
}

// An item that sent nothing is named, too. An escaped space is a space; whatever else an engine reads is to
// be answered.
func TestAnEmptyInputIsNamed(t *testing.T) {
	item := func(content string) string { return `{"input":[{"role":"user","content":` + content + `}]}` }
	for _, in := range []string{`{"input":""}`, `{"input":" \n\u0020"}`, item(`""`), item(`[]`),
		item(`[{"type":"input_text","text":""},{"type":"input_text","text":"\t"}]`),
		`{"input":" ","instructions":""}`} {
		_, no := ReadResponses([]byte(in), nil)
		if no == nil || no.Code != bus.CodeEmptyPrompt ||
			no.Message != "input: it is empty: give it some text" {
			t.Errorf("%s: %v", in, no)
		}
	}
	for _, in := range []string{`{"input":"\\"}`, `{"input":"","instructions":"be kind"}`,
		item(`[{"type":"input_text","text":" "},{"type":"input_text","text":"a"}]`),
		item(`[{"type":"input_image","image_url":"data:x"}]`),
		`{"input":[{"type":"function_call","call_id":"c","name":"f"},
			{"type":"function_call_output","call_id":"c","output":"x"}]}`} {
		if _, no := ReadResponses([]byte(in), nil); no != nil {
			t.Errorf("%s: %v", in, no)
		}
	}
}
