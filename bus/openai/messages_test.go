package openai

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/market"
)

// A request for a message asks what this chat asks.
func TestMessagesAsChats(t *testing.T) {
	for _, c := range []struct{ in, chat string }{
		{`{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"Hello"}]}`,
			`{"max_completion_tokens":5,"messages":[{"role":"user","content":"Hello"}],"model":"m"}`},
		{`{"max_tokens":5.0,"system":"Be short","stream":true,"temperature":0.5,"top_p":null,"top_k":3,
			"stop_sequences":["END"],"metadata":{"user_id":"u"},"cache_control":{"type":"ephemeral"},"service_tier":"auto",
			"souk":{"terms":{"worth":1}},"messages":[{"role":"user","content":[{"type":"text","text":"a",
			"cache_control":{"type":"ephemeral"}},{"type":"text","text":"b"}]},{"role":"user","content":"c"}]}`,
			`{"max_completion_tokens":5,"messages":[{"role":"system","content":"Be short"},
			{"role":"user","content":"a\nb\nc"}],"souk":{"terms":{"worth":1}},"stop":["END"],"stream":true,
			"temperature":0.5,"top_k":3,"user":"u"}`},
		{`{"system":[{"type":"text","text":"x-anthropic-billing-header: cch=1"},{"type":"text","text":"One"},
			{"type":"text","text":"two"}],"messages":[{"role":"system","content":"three"},{"role":"user","content":"a"}]}`,
			`{"messages":[{"role":"system","content":"One\ntwo\nthree"},{"role":"user","content":"a"}]}`},
		{`{"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png",
			"data":"AA=="}},{"type":"text","text":"see"},{"type":"image","source":{"type":"url","url":"https://x/y"}}]}]}`,
			`{"messages":[{"role":"user","content":[{"image_url":{"url":"data:image/png;base64,AA=="},"type":"image_url"},
			{"text":"see","type":"text"},{"image_url":{"url":"https://x/y"},"type":"image_url"}]}]}`},
		// a turn with thoughts and calls; results come before what the user says, their pictures with that
		{`{"messages":[{"role":"user","content":"Weather?"},{"role":"assistant","content":[
			{"type":"thinking","thinking":"let me see","signature":"s"},{"type":"redacted_thinking","data":"x"},
			{"type":"text","text":"I "},{"type":"text","text":"look."},
			{"type":"tool_use","id":"c1","name":"weather","input":{"city": "Oslo"}},
			{"type":"tool_use","id":"c2","name":"clock","input":{}}]},
			{"role":"user","content":[{"type":"text","text":"And?"},
			{"type":"tool_result","tool_use_id":"c2","content":[{"type":"text","text":"7"},{"type":"text","text":"pm"},
			{"type":"image","source":{"type":"url","url":"https://x/y"}}]},
			{"type":"tool_result","tool_use_id":"c1","is_error":true}]}]}`,
			`{"messages":[{"role":"user","content":"Weather?"},{"role":"assistant","content":"I look.",
			"reasoning":"let me see","tool_calls":[
			{"id":"c1","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Oslo\"}"}},
			{"id":"c2","type":"function","function":{"name":"clock","arguments":"{}"}}]},
			{"role":"tool","content":"7\npm","tool_call_id":"c2"},{"role":"tool","content":"","tool_call_id":"c1"},
			{"role":"user","content":[{"text":"And?","type":"text"},{"image_url":{"url":"https://x/y"},"type":"image_url"}]}]}`},
		// the system speaks in between, which changes nothing that came before: of the user, or of a result
		{`{"messages":[{"role":"user","content":"a"},{"role":"system","content":"s1"},{"role":"assistant","content":[
			{"type":"tool_use","id":"c1","name":"f","input":{}}]},{"role":"system","content":"s2"},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"r"}]},
			{"role":"system","content":"s3"},{"role":"assistant","content":"b"},{"role":"system","content":"s4"}]}`,
			`{"messages":[{"role":"user","content":"a\ns1"},{"role":"assistant","content":null,"tool_calls":[
			{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]},
			{"role":"tool","content":"r\ns2\ns3","tool_call_id":"c1"},{"role":"assistant","content":"b"},
			{"role":"user","content":"s4"}]}`},
		{`{"tools":[{"name":"f","description":"d","input_schema":{"type":"object"},"cache_control":{}},
			{"type":"custom","name":"g","input_schema":{},"strict":true}],
			"tool_choice":{"type":"any","disable_parallel_tool_use":true},"thinking":{"type":"enabled","budget_tokens":1024},
			"output_config":{"effort":"max","format":{"type":"json_schema","schema":{"type":"object"}}},
			"context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]},
			"messages":[{"role":"user","content":"a"}]}`,
			`{"chat_template_kwargs":{"enable_thinking":true,"thinking":true},"messages":[{"role":"user","content":"a"}],
			"parallel_tool_calls":false,"reasoning_effort":"high",
			"response_format":{"json_schema":{"name":"answer","schema":{"type":"object"}},"type":"json_schema"},
			"tool_choice":"required","tools":[
			{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"}}},
			{"type":"function","function":{"name":"g","strict":true,"parameters":{}}}]}`},
		{`{"thinking":{"type":"adaptive"},"output_config":{"effort":"high"},"messages":[{"role":"user","content":"a"}]}`,
			`{"messages":[{"role":"user","content":"a"}]}`},
		{`{"tool_choice":{"type":"tool","name":"f"},"thinking":{"type":"disabled"},
			"output_format":{"type":"json_schema","schema":{}},"messages":[{"role":"user","content":"a"}]}`,
			`{"chat_template_kwargs":{"enable_thinking":false,"thinking":false},"messages":[{"role":"user","content":"a"}],
			"response_format":{"json_schema":{"name":"answer","schema":{}},"type":"json_schema"},
			"tool_choice":{"function":{"name":"f"},"type":"function"}}`},
	} {
		got, err := ReadMessages([]byte(c.in))
		if err != nil {
			t.Errorf("%s: %v", c.in, err)
			continue
		}
		var want bytes.Buffer
		if err := json.Compact(&want, []byte(c.chat)); err != nil {
			t.Fatal(err)
		}
		if string(got) != want.String() {
			t.Errorf("%s\nasks %s\nwant %s", c.in, got, want.String())
		}
		if _, err := Measure(got); err != nil {
			t.Errorf("%s: the chat that it asks is refused: %v", c.in, err)
		}
	}
}

// What cannot be served is refused, and the refusal says which member it is.
func TestMessagesRefused(t *testing.T) {
	user := func(more string) string {
		return `{"messages":[{"role":"user","content":"x"}]` + more + "}"
	}
	content := func(c string) string { return `{"messages":[{"role":"user","content":` + c + `}]}` }
	answered := func(c string) string {
		return `{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":` + c +
			`},{"role":"user","content":"y"}]}`
	}
	for _, c := range []struct {
		in   string
		code bus.Code
		says string
	}{
		{`[]`, bus.CodeBadRequest, "not a JSON object"},
		{`{`, bus.CodeBadRequest, "JSON at byte"},
		{"{\"\xff\":1}", bus.CodeBadRequest, "UTF-8"},
		{user(`,"system":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000)), bus.CodeBadRequest,
			"nested more"},
		{user(`,"messages":[]`), bus.CodeBadRequest, "messages: the member stands twice"},
		{`{"model":"m"}`, bus.CodeBadRequest, "messages: a list"},
		{`{"messages":[]}`, bus.CodeBadRequest, "messages: a list"},
		{`{"messages":"Hello"}`, bus.CodeBadRequest, "messages: a list"},
		{`{"messages":[7]}`, bus.CodeBadRequest, "messages[0]: an object"},
		// members of OpenAI's APIs
		{user(`,"max_completion_tokens":5`), bus.CodeUnsupportedField, "max_completion_tokens: /v1/messages has no such member: send max_tokens"},
		{user(`,"stop":["x"]`), bus.CodeUnsupportedField, "send stop_sequences"},
		{user(`,"response_format":{}`), bus.CodeUnsupportedField, "send output_config.format"},
		{user(`,"n":2`), bus.CodeUnsupportedField, "n: "},
		{`{"input":"x"}`, bus.CodeUnsupportedField, "input: /v1/messages has no such member: send messages"},
		{`{"messages":[{"role":"tool","content":"x"}]}`, bus.CodeBadRequest, `messages[0].role: "tool"`},
		{content(`[{"type":"image_url","image_url":{"url":"x"}}]`), bus.CodeUnsupportedField, `messages[0].content[0].type: "image_url"`},
		{user(`,"tools":[{"type":"function","function":{"name":"f"}}]`), bus.CodeBadRequest, "tools[0].function: name"},
		{user(`,"tool_choice":"auto"`), bus.CodeBadRequest, "tool_choice: an object"},
		// what only Anthropic serves
		{user(`,"tools":[{"type":"web_search_20250305","name":"web_search"}]`), bus.CodeUnsupportedField,
			`tools[0].type: "web_search_20250305" is not taken here`},
		{user(`,"tools":[{"type":"bash_20250124","name":"bash"}]`), bus.CodeUnsupportedField, "tools[0].type"},
		{user(`,"mcp_servers":[]`), bus.CodeUnsupportedField, "mcp_servers: "},
		{user(`,"container":"c"`), bus.CodeUnsupportedField, "container: "},
		{content(`[{"type":"document","source":{}}]`), bus.CodeUnsupportedField, `messages[0].content[0].type: "document"`},
		{content(`[{"type":"image","source":{"type":"file","file_id":"f"}}]`), bus.CodeUnsupportedField, "messages[0].content[0].source: "},
		{user(`,"context_management":{"edits":[{"type":"clear_tool_uses_20250919"}]}`), bus.CodeUnsupportedField, "context_management.edits[0].type"},
		{`{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"The answer is ("}]}`,
			bus.CodeUnsupportedField, "messages[1].role: the last message"},
		// what is empty, or goes with nothing
		{content(`""`), bus.CodeBadRequest, "messages[0].content: it is empty"},
		{content(`[]`), bus.CodeBadRequest, "messages[0].content: it is empty"},
		{content(`null`), bus.CodeBadRequest, "messages[0].content: a string"},
		{content(`"  \n"`), bus.CodeEmptyPrompt, "messages: "},
		{answered(`""`), bus.CodeBadRequest, "messages[1].content: it is empty"},
		{content(`[{"type":"tool_result","tool_use_id":"c1","content":"r"}]`), bus.CodeBadRequest,
			`messages[0].content[0].tool_use_id: no tool_use of id "c1"`},
		{answered(`[{"type":"tool_result","tool_use_id":"c1"}]`), bus.CodeUnsupportedField, "messages[1].content[0].type"},
		{answered(`[{"type":"tool_use","id":"c1","input":{}}]`), bus.CodeBadRequest, "messages[1].content[0]: a tool_use"},
		{answered(`[{"type":"tool_use","id":"c1","name":"f","input":{}},{"type":"tool_use","id":"c1","name":"f","input":{}}]`),
			bus.CodeBadRequest, "messages[1].content[1].id: "},
		{answered(`[{"type":"text","text":7}]`), bus.CodeBadRequest, "messages[1].content[0].text: "},
		{content(`[7]`), bus.CodeBadRequest, "messages[0].content[0]: an object"},
		{content(`[{"type":"text","text":"a","te\u0078t":"b"}]`), bus.CodeBadRequest, "messages[0].content[0]: member text stands twice"},
		{`{"messages":[{"role":"user","Role":"system","content":"x"}]}`, bus.CodeBadRequest, "messages[0]: member role stands twice"},
		{user(`,"system":7`), bus.CodeBadRequest, "system: a string"},
		{user(`,"system":[{"type":"image"}]`), bus.CodeUnsupportedField, "system[0].type"},
		{user(`,"max_tokens":0`), bus.CodeBadRequest, "max_tokens: 0"},
		{user(`,"stop_sequences":"x"`), bus.CodeBadRequest, "stop_sequences: "},
		{user(`,"stop_sequences":[""]`), bus.CodeBadRequest, "stop_sequences: "},
		{user(`,"metadata":{"user_id":7}`), bus.CodeBadRequest, "metadata: "},
		{user(`,"context_management":{"edits":[{"type":"clear_thinking_1"},0]}`), bus.CodeBadRequest,
			"context_management.edits[1]: an object"},
		{user(`,"context_management":{"edits":7}`), bus.CodeBadRequest, "context_management: "},
		{user(`,"context_management":7`), bus.CodeBadRequest, "context_management: "},
		{user(`,"thinking":{"type":"deep"}`), bus.CodeBadRequest, "thinking: "},
		{user(`,"tools":{}`), bus.CodeBadRequest, "tools: "},
		{user(`,"tools":[{"input_schema":{}}]`), bus.CodeBadRequest, "tools[0].name"},
		{user(`,"tools":[{"name":"f"}]`), bus.CodeBadRequest, "tools[0].input_schema"},
		{user(`,"tool_choice":{"type":"tool"}`), bus.CodeBadRequest, "tool_choice.type: "},
		{user(`,"output_config":{"effort":"most"}`), bus.CodeBadRequest, "output_config.effort: "},
		{user(`,"output_config":{"format":{"type":"json_schema"}}`), bus.CodeBadRequest, "output_config.format.schema"},
		{user(`,"output_config":{"format":{"type":"grammar"}}`), bus.CodeUnsupportedField, "output_config.format.type"},
	} {
		chat, err := ReadMessages([]byte(c.in))
		if err == nil {
			t.Errorf("%.90s: taken as %s", c.in, chat)
		} else if err.Code != c.code || !strings.Contains(err.Message, c.says) {
			t.Errorf("%.90s: %v, want %s with %q", c.in, err, c.code, c.says)
		}
		if _, no := CountTokens([]byte(c.in)); no == nil {
			t.Errorf("%.90s: its tokens are counted", c.in)
		}
	}
	many := `{"role":"user","content":"a"},{"role":"assistant","content":"b"},`
	if _, err := ReadMessages([]byte(`{"messages":[` + strings.Repeat(many, bus.MaxMessages/2) +
		`{"role":"user","content":"a"}]}`)); err == nil || err.Code != bus.CodeUnsupportedField {
		t.Errorf("%d messages: %v", bus.MaxMessages+1, err)
	}
}

// A body of many small things is read in little more room than it has itself.
func TestMessagesOfManyParts(t *testing.T) {
	user := func(blocks string) string {
		return `{"messages":[{"role":"user","content":[` + blocks + `{"type":"text","text":"a"}]}]}`
	}
	for name, body := range map[string]string{
		"blocks of nothing": user(strings.Repeat(`{},`, bus.MaxBody/3)),
		"empty texts":       user(strings.Repeat(`{"type":"text"},`, bus.MaxBody/16)),
		"texts":             user(strings.Repeat(`{"type":"text","text":"a"},`, bus.MaxBody/27)),
		"pictures":          user(strings.Repeat(`{"type":"image","source":{"type":"url","url":"x"}},`, bus.MaxBody/51)),
		"members":           user(`{` + strings.Repeat(`"a":1,`, bus.MaxBody/6) + `"type":"text"},`),
		"messages":          `{"messages":[` + strings.Repeat(`{"role":"user","content":"a"},`, bus.MaxBody/30) + `7]}`,
		"tools": `{"tools":[` + strings.Repeat(`{"name":"f","input_schema":{}},`, bus.MaxBody/31) +
			`{"name":"f","input_schema":{}}],"messages":[{"role":"user","content":"a"}]}`,
		"edits": `{"context_management":{"edits":[` + strings.Repeat(`0,`, bus.MaxBody/2) +
			`0]},"messages":[{"role":"user","content":"a"}]}`,
		"no tools": `{"tools":[` + strings.Repeat(`{},`, bus.MaxBody/3) + `{}],"messages":[]}`,
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		ReadMessages([]byte(body))
		runtime.ReadMemStats(&after)
		t.Logf("%s: %d", name, (after.TotalAlloc-before.TotalAlloc)/uint64(len(body)))
		if took := int(after.TotalAlloc - before.TotalAlloc); took > 40*len(body) {
			t.Errorf("%s: %d bytes took %d in all", name, len(body), took)
		}
	}
}

// A megabyte is counted in little time, and what it counts is about what English text has.
func TestCountTokens(t *testing.T) {
	body := fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":%q}]}`, strings.Repeat("four", 1<<18))
	least := time.Minute
	var n int
	for range 5 {
		from := time.Now()
		var err *bus.Error
		if n, err = CountTokens([]byte(body)); err != nil {
			t.Fatal(err)
		}
		least = min(least, time.Since(from))
	}
	if n < 1<<18 || n > 1<<18+1<<10 || least > 2*time.Second {
		t.Errorf("%d tokens after %v", n, least)
	}
}

// accumulated puts a stream together as Anthropic's clients do.
func accumulated(t testing.TB, stream []byte) (message map[string]any, kinds []string) {
	t.Helper()
	var content []any
	inputs := map[int]string{}
	lines := bufio.NewScanner(bytes.NewReader(stream))
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		kind, ok := strings.CutPrefix(lines.Text(), "event: ")
		if !ok || !lines.Scan() {
			t.Fatalf("%q is no event's first line", lines.Text())
		}
		var e struct {
			Type    string
			Index   int
			Message map[string]any
			Block   map[string]any `json:"content_block"`
			Delta   map[string]any
			Usage   map[string]any
			Souk    any
		}
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if err := json.Unmarshal([]byte(data), &e); err != nil || !ok || e.Type != kind {
			t.Fatalf("%.200q: %v; of type %s", lines.Text(), err, kind)
		}
		if lines.Scan(); lines.Text() != "" {
			t.Fatalf("%q where an event ends", lines.Text())
		}
		if n := len(kinds); n == 0 || kinds[n-1] != kind {
			kinds = append(kinds, kind)
		}
		switch kind {
		case "message_start":
			message = e.Message
		case "content_block_start":
			if e.Index != len(content) {
				t.Fatalf("block %d begins where there are %d", e.Index, len(content))
			}
			content = append(content, e.Block)
		case "content_block_delta":
			b := content[e.Index].(map[string]any)
			switch d := e.Delta; d["type"] {
			case "input_json_delta":
				inputs[e.Index] += d["partial_json"].(string)
			case "text_delta":
				b["text"] = b["text"].(string) + d["text"].(string)
			case "thinking_delta":
				b["thinking"] = b["thinking"].(string) + d["thinking"].(string)
			case "signature_delta":
				b["signature"] = d["signature"]
			default:
				t.Fatalf("delta %v", d)
			}
		case "content_block_stop":
			b := content[e.Index].(map[string]any)
			if b["stopped"] == true {
				t.Fatalf("block %d ends twice", e.Index)
			}
			b["stopped"] = true
		case "message_delta":
			maps.Copy(message, e.Delta)
			message["usage"], message["souk"] = e.Usage, e.Souk
		}
	}
	for i := range content {
		b := content[i].(map[string]any)
		if b["stopped"] != true {
			t.Fatalf("block %d does not end", i)
		}
		delete(b, "stopped")
		if input := strings.TrimSpace(inputs[i]); input != "" {
			v := map[string]any{}
			if err := json.Unmarshal([]byte(input), &v); err != nil {
				v = map[string]any{"INVALID_JSON": inputs[i]}
			} else if v == nil {
				v = map[string]any{}
			}
			b["input"] = v
		}
	}
	if message["content"] = content; content == nil {
		message["content"] = []any{}
	}
	return message, kinds
}

// both renders an answer as a stream and whole. What clients make of the stream is to be the whole.
func both(t testing.TB, chunks []bus.Chunk, last *bus.Result) (message map[string]any, kinds []string) {
	t.Helper()
	s := Shape{ID: "t1", Kind: bus.KindChat, Model: "m\"", Created: 7}
	events, whole := NewMessage(s, false), NewMessage(s, true)
	stream := events.Begin(nil)
	for i := range chunks {
		var err error
		if stream, err = events.Chunk(stream, &chunks[i]); err != nil {
			t.Fatal(err)
		}
		if _, err = whole.Chunk(nil, &chunks[i]); err != nil {
			t.Fatal(err)
		}
	}
	stream = events.Finish(stream, last)
	whole.Finish(nil, last)
	message, kinds = accumulated(t, stream)
	var object map[string]any
	if err := json.Unmarshal(whole.Object(), &object); err != nil {
		t.Fatalf("%s: %v", whole.Object(), err)
	}
	if !reflect.DeepEqual(message, object) {
		t.Fatalf("the events say %v\nthe object  %v", message, object)
	}
	return message, kinds
}

func chunkOf(text, choice string) bus.Chunk {
	c := bus.Chunk{Text: text}
	if choice != "" {
		c.Extra = []bus.Extra{{Choice: json.RawMessage(choice)}}
	}
	return c
}

func callChunk(i int, id, name, args string) bus.Chunk {
	return chunkOf("", fmt.Sprintf(`{"index":0,"delta":{"tool_calls":[{"index":%d,"id":%q,"function":`+
		`{"name":%q,"arguments":%s}}]}}`, i, id, name, Out(nil).Str(args)))
}

// What a message's events say, and what its object says, is what the agent sent.
func TestMessageEvents(t *testing.T) {
	m, kinds := both(t, []bus.Chunk{
		chunkOf("", `{"index":0,"delta":{"reasoning":"let \"me"}}`),
		chunkOf("", `{"index":0,"delta":{"reasoning_content":" see"}}`),
		chunkOf("It\n", ""), chunkOf("is ", ""),
		callChunk(0, "c1", "f", ""), callChunk(1, "", "g", "{"), callChunk(0, "", "", `{"a":1}`),
		callChunk(1, "", "", "}"),
	}, &bus.Result{Task: "t1", Hub: "h", Agent: "a", Finish: "tool_calls", Thought: 3,
		Usage: market.Usage{Prompt: 10, Cached: 4, Output: 6}, Cost: 5, Premium: 2})
	text, _ := json.Marshal(m)
	for _, want := range []string{`"id":"msg_t1"`, `"role":"assistant"`, `"model":"m\""`,
		`"stop_reason":"tool_use"`,
		`{"signature":"t1","thinking":"let \"me see","type":"thinking"},{"text":"It\nis ","type":"text"},` +
			`{"id":"c1","input":{"a":1},"name":"f","type":"tool_use"},{"id":"toolu_t1_1","input":{},"name":"g","type":"tool_use"}`,
		`"usage":{"cache_creation_input_tokens":0,"cache_read_input_tokens":4,"input_tokens":6,"output_tokens":6,` +
			`"output_tokens_details":{"thinking_tokens":3}}`, `"paid":7e-9`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s\nwithout %s", text, want)
		}
	}
	if all := fmt.Sprint(kinds); !strings.HasPrefix(all, "[message_start") ||
		!strings.HasSuffix(all, "message_delta message_stop]") {
		t.Errorf("events %v", kinds)
	}
	for _, c := range []struct {
		finish, stop, reason string
		sequence             any
	}{{"stop", "", "end_turn", nil}, {"stop", `"END"`, "stop_sequence", "END"},
		{"stop", "7", "end_turn", nil},
		{"length", "", "max_tokens", nil}, {"content_filter", "", "refusal", nil}} {
		last := &bus.Result{Finish: c.finish, Stop: json.RawMessage(c.stop)}
		m, _ := both(t, []bus.Chunk{chunkOf("x", "")}, last)
		if m["stop_reason"] != c.reason || m["stop_sequence"] != c.sequence {
			t.Errorf("%s %s: %v, %v", c.finish, c.stop, m["stop_reason"], m["stop_sequence"])
		}
	}
	// a call that was cut is none that a tool takes for whole
	m, _ = both(t, []bus.Chunk{callChunk(0, "c1", "rm", `{"path": "/tmp`)}, &bus.Result{Finish: "length"})
	got := fmt.Sprint(m["content"])
	if m["stop_reason"] != "max_tokens" || !strings.Contains(got, "INVALID_JSON") {
		t.Errorf("%s: %s", m["stop_reason"], got)
	}
	if m, _ := both(t, nil, &bus.Result{Finish: "stop"}); len(m["content"].([]any)) != 0 {
		t.Errorf("nothing was said, and it has %v", m["content"])
	}
}

// Whatever an engine says in whatever order, what clients make of the stream is the whole answer.
func TestMessageStreamsAddUp(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for range 300 {
		var chunks []bus.Chunk
		var args []string
		for range rng.IntN(12) {
			switch rng.IntN(5) {
			case 0:
				chunks = append(chunks, chunkOf("", `{"delta":{"reasoning":"t \u2028"}}`))
			case 1, 2:
				chunks = append(chunks, chunkOf(strings.Repeat("é\n\"", 1+rng.IntN(3)), ""))
			case 3:
				args = append(args, `{"a":[1,{"b":"}"}]}`)
				chunks = append(chunks, callChunk(len(args)-1, "", "f", ""))
			default:
				if i := rng.IntN(len(args) + 1); i < len(args) && args[i] != "" && i == len(args)-1 {
					n := 1 + rng.IntN(len(args[i]))
					chunks, args[i] = append(chunks, callChunk(i, "", "", args[i][:n])), args[i][n:]
				}
			}
		}
		both(t, chunks, &bus.Result{Finish: []string{"stop", "length", "tool_calls"}[rng.IntN(3)]})
	}
}

// An agent that says what no engine does, or too much, ends the answer.
func TestMessageOfABadAgent(t *testing.T) {
	for says, chunks := range map[string][]bus.Chunk{
		"no engine sends":     {chunkOf("", `{"forged":1}`)},
		"part of tool call 1": {callChunk(1, "", "f", "")},
		"more arguments": {callChunk(0, "", "f", "{}"), chunkOf("x", ""),
			callChunk(0, "", "", "{}")},
		"has more than":           {callChunk(0, "", "f", strings.Repeat("x", MaxWhole+1))},
		"begins tool call 128 of": {callChunk(128, "", "f", "")},
	} {
		m := NewMessage(Shape{ID: "t1", Kind: bus.KindChat}, false)
		var err error
		for i := range chunks {
			if err == nil {
				_, err = m.Chunk(nil, &chunks[i])
			}
		}
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
	m, text := NewMessage(Shape{}, true), chunkOf(strings.Repeat("x", MaxWhole+1), "")
	if _, err := m.Chunk(nil, &text); bus.CodeOf(err) != bus.CodeTooLarge {
		t.Errorf("a whole answer of %d bytes: %v", MaxWhole+1, err)
	}
	m = NewMessage(Shape{}, false)
	if _, err := m.Chunk(nil, &text); err != nil || m.Size() > 4<<10 {
		t.Errorf("a stream of as much: %v, %d bytes are kept", err, m.Size())
	}
}

// A model may call a tool with what is no object: the dialogue goes on all the same, whether its client was
// given the answer whole or put it together of events.
func TestInputsThatAreNoObjects(t *testing.T) {
	for args, want := range map[string]string{`null`: `{}`, ` `: `{}`, `[1]`: `{"INVALID_JSON":"[1]"}`,
		`"{}"`: `{"INVALID_JSON":"\"{}\""}`, `{"a":`: `{"INVALID_JSON":"{\"a\":"}`, ` {"a": 1}`: `{"a":1}`} {
		m := NewMessage(Shape{}, true)
		said, _ := json.Marshal(args)
		m.Chunk(nil, &bus.Chunk{Extra: []bus.Extra{{Choice: fmt.Appendf(nil, `{"delta":{"tool_calls":[{"index":0,`+
			`"id":"c","type":"function","function":{"name":"f","arguments":%s}}]}}`, said)}}})
		m.Finish(nil, &bus.Result{})
		var whole struct {
			Content []struct{ Input json.RawMessage }
		}
		if err := json.Unmarshal(m.Object(), &whole); err != nil || string(whole.Content[0].Input) != want {
			t.Errorf("%s: %v, %s, want %s", args, err, m.Object(), want)
			continue
		}
		for _, input := range []string{want, args} {
			if !json.Valid([]byte(input)) {
				continue
			}
			chat, no := ReadMessages(fmt.Appendf(nil, `{"messages":[{"role":"user","content":"a"},{"role":"assistant",`+
				`"content":[{"type":"tool_use","id":"c","name":"f","input":%s}]},{"role":"user","content":"b"}]}`, input))
			arguments, _ := json.Marshal(want)
			if no != nil || !strings.Contains(string(chat), `"arguments":`+string(arguments)) {
				t.Errorf("%s handed back: %v, %s", input, no, chat)
			}
		}
	}
}

// Refusals have the types by which Anthropic's clients sort them.
func TestMessageRefusals(t *testing.T) {
	for code, want := range map[bus.Code]string{bus.CodeBadRequest: "invalid_request_error",
		CodeInvalidKey: "authentication_error", bus.CodeInsufficientFunds: "billing_error",
		bus.CodeUnknownClient: "permission_error", bus.CodeUnknownModel: "not_found_error",
		bus.CodeDuplicate: "conflict_error", bus.CodeTooLarge: "request_too_large",
		CodeRateLimited: "rate_limit_error", bus.CodeInternal: "api_error", bus.CodeEngineFailed: "api_error",
		bus.CodeUnavailable: "overloaded_error", bus.CodeCancelled: "invalid_request_error",
		bus.CodePromptTooLong: "invalid_request_error"} {
		paid := market.Credits(0)
		why := Refusal{Code: code, Message: "no", Task: "t1", Request: "r1", RetryMS: 5, Paid: &paid}
		var e struct {
			Type  string
			Error struct {
				Type, Message string
				Souk          map[string]any
			}
			Request string `json:"request_id"`
		}
		if err := json.Unmarshal(why.AppendMessage(nil), &e); err != nil || e.Type != "error" ||
			e.Error.Type != want || e.Error.Souk["code"] != string(code) || e.Request != "r1" ||
			!strings.HasSuffix(e.Error.Message, "no") {
			t.Errorf("%s: %v %+v", code, err, e)
		}
		long := strings.HasPrefix(e.Error.Message, "prompt is too long")
		if long != (code == bus.CodePromptTooLong) {
			t.Errorf("%s: %s", code, e.Error.Message)
		}
		event := string(NewMessage(Shape{}, false).Fail(nil, why))
		data, ok := strings.CutPrefix(event, "event: error\ndata: ")
		if !ok || !strings.HasSuffix(data, "}\n\n") {
			t.Errorf("%q", event)
		}
	}
}

// FuzzMessages checks that whatever is taken is a chat in order, and that nothing takes long.
func FuzzMessages(f *testing.F) {
	f.Add([]byte(`{"model":"m","max_tokens":5,"system":[{"type":"text","text":"s"}],"messages":[{"role":"user","content":"a"}]}`))
	f.Add([]byte(`{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"thinking","thinking":"t"},` +
		`{"type":"tool_use","id":"c","name":"f","input":{"a":[1]}}]},{"role":"system","content":"s"},` +
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":[{"type":"text","text":"r"}]}]}]}`))
	f.Add([]byte(`{"tools":[{"name":"f","input_schema":{}}],"tool_choice":{"type":"any"},"thinking":{"type":"adaptive"},` +
		`"output_config":{"effort":"low","format":{"type":"json_schema","schema":{}}},"messages":[{"role":"user","content":"a"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		chat, no := ReadMessages(data)
		if no != nil {
			if no.Code == "" || no.Message == "" {
				t.Fatalf("refused with %v", no)
			}
			return
		}
		var c struct {
			Messages []struct {
				Role  string
				ID    string            `json:"tool_call_id"`
				Calls []json.RawMessage `json:"tool_calls"`
			}
		}
		if err := json.Unmarshal(chat, &c); err != nil || len(c.Messages) == 0 {
			t.Fatalf("%q is taken as %s: %v", data, chat, err)
		}
		for i, m := range c.Messages {
			if i > 0 && m.Role == c.Messages[i-1].Role && m.Role != "tool" || m.Role == "system" && i > 0 ||
				(m.ID != "") != (m.Role == "tool") {
				t.Fatalf("%q is taken as %s", data, chat)
			}
		}
		if _, err := Measure(chat); err != nil && bus.CodeOf(err) == bus.CodeEmptyPrompt {
			t.Fatalf("%q is taken as %s: %v", data, chat, err)
		}
	})
}
