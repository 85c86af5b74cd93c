package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"souk/bus"
)

// A prompt has no more tokens than bytes; what is estimated at a quarter of them may have four times as many.
func TestAPromptIsBoundedByItsBytes(t *testing.T) {
	template := bus.Template{Fixed: 20, Each: 8, Tools: 200, Wide: 3}
	for _, c := range []struct {
		name, body string
		least      int // tokens that some tokenizer and template make of it
		loose      int
	}{
		{"one token a byte", `{"messages":[{"role":"user","content":"` + strings.Repeat("!?", 1000) + `"}]}`,
			2000 + 11, bus.LooseNone},
		{"a completion", `{"prompt":"` + strings.Repeat("!?", 1000) + `"}`, 2000, bus.LooseNone},
		{"characters that a normal form takes apart", `{"prompt":"` + strings.Repeat("\U0001D160", 100) +
			`"}`, 1200, bus.LooseNone},
		{"escapes", `{"messages":[{"role":"user","content":"\u4e2d\u4e2d"}]}`, 6, bus.LooseNone},
		{"many messages", `{"messages":[` + strings.Repeat(`{"role":"user","content":"."},`, 99) +
			`{"role":"user","content":"."}]}`, 100 * 7, bus.LooseNone},
		{"many parts", `{"messages":[{"role":"user","content":[` +
			strings.Repeat(`{"type":"text","text":"."},`, 99) + `"."]}]}`, 100 * 7, bus.LooseNone},
		{"thinking off", `{"messages":[{"role":"user","content":"."}],"chat_template_kwargs":{"enable_thinking":false}}`, 1, bus.LooseNone},
		{"a word for the template",
			`{"messages":[{"role":"user","content":"."}],"chat_template_kwargs":{"bos_token":"xxxx"}}`, 1,
			bus.LooseCounted},
		{"a member that nobody knows", `{"messages":[{"role":"user","content":".","feelings":"good"}]}`, 1,
			bus.LooseCounted},
		{"an earlier answer's reasoning", `{"messages":[{"role":"assistant","content":".","reasoning":"` +
			strings.Repeat("!?", 500) + `"},{"role":"user","content":"."}]}`, 1000, bus.LooseNone},
		{"a picture", `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://x/y"}}]}]}`, 1, bus.LooseMedia},
		{"a schema that a template may show",
			`{"messages":[{"role":"user","content":"."}],"response_format":{"type":"json_schema","json_schema":{"name":"` + strings.Repeat("x", 500) + `"}}}`, 500, bus.LooseNone},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := mustDecode(t, c.body, nil).Prompt
			bound, ok := template.Bound(&p)
			if bound < c.least || p.Loose != c.loose || ok != (c.loose == bus.LooseNone) {
				t.Errorf("bound %d (%v), want %d at least: %+v", bound, ok, c.least, p)
			}
		})
	}
	for _, c := range []struct{ name, member string }{
		{"documents", `"documents":[{"title":"a","text":"b"}]`},
		{"chat_template", `"chat_template":"{% for i in range(100000) %}!?{% endfor %}"`},
		{"a list for the template", `"chat_template_kwargs":{"documents":[{"text":"b"}]}`},
		{"a long text for the template", `"chat_template_kwargs":{"bos_token":"` + strings.Repeat("!?", 500) +
			`"}`},
		{"a name spelled otherwise", `"chat\u005ftemplate":"{{ messages }}"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if task, err := decode(t, `{"messages":[{"role":"user","content":"hi"}],`+c.member+`}`,
				nil); err == nil || err.Code != bus.CodeUnsupportedField {
				t.Errorf("%v, taken as %+v", err, task)
			}
		})
	}
}

// However a template writes tools and calls, on one line or on many, there is room for it.
func TestToolsAreBoundedHoweverTheyAreWritten(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 5))
	var value func(depth int) any
	value = func(depth int) any {
		switch k := r.IntN(8); {
		case k == 0 && depth < 6:
			m := map[string]any{}
			for range r.IntN(6) {
				m[strings.Repeat("k", 1+r.IntN(9))] = value(depth + 1)
			}
			return m
		case k <= 2 && depth < 6:
			var list []any
			for range r.IntN(6) {
				list = append(list, value(depth+1))
			}
			return list
		case k == 3:
			return r.IntN(2) == 0
		case k == 4:
			return nil
		case k == 5:
			return json.Number([]string{"1e15", "7", "-2.5", "1E5"}[r.IntN(4)])
		}
		return strings.Repeat("é\"", r.IntN(5))
	}
	longest := func(v any) int { // as Python's json.dumps(indent=4) would
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		data = bytes.ReplaceAll(data, []byte("1e15"), []byte("1000000000000000.0"))
		data = bytes.ReplaceAll(data, []byte("1E5"), []byte("100000.0"))
		data = bytes.ReplaceAll(data, []byte("é"), []byte(`\u00e9`))
		var out bytes.Buffer
		if err := json.Indent(&out, data, "", "    "); err != nil {
			t.Fatal(err)
		}
		return out.Len()
	}
	for range 300 {
		tool := map[string]any{"type": "function",
			"function": map[string]any{"name": "f", "parameters": value(0)}}
		data, err := json.Marshal([]any{tool, tool})
		if err != nil {
			t.Fatal(err)
		}
		p := mustDecode(t, fmt.Sprintf(`{"messages":[{"role":"user","content":"x"}],"tools":%s}`, data),
			nil).Prompt
		if least := longest([]any{tool, tool}); p.Text < least || p.Tools != 2 || p.Loose != bus.LooseNone {
			t.Fatalf("%d bytes counted, a template may write %d: %s", p.Text, least, data)
		}
	}
	calls := mustDecode(t, `{"messages":[{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"a\":[`+
		strings.Repeat("1e15,", 99)+`1e15]}"}}]},{"role":"tool","tool_call_id":"1","content":"x"}]}`,
		nil).Prompt
	if calls.Text < 100*20 || calls.Loose != bus.LooseNone || calls.Pieces != 3 {
		t.Errorf("%+v", calls)
	}
}
