package openai

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"souk/bus"
)

// An answer keeps the form that its body asks for, or breaks it, or that cannot be told.
func TestForm(t *testing.T) {
	const (
		schema = `"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"type":"object",` +
			`"properties":{"n":{"type":"integer","minimum":1},"who":{"enum":["ann","bob"]},` +
			`"list":{"type":"array","items":{"anyOf":[{"type":"string","maxLength":3},{"type":"null"}]},` +
			`"maxItems":2}},"required":["n"],"additionalProperties":false}}}`
		tools = `"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object",` +
			`"properties":{"x":{"type":"number"}},"required":["x"]}}},{"type":"function","function":{"name":"g"}}]`
	)
	call := func(index int, name, args string) bus.Extra {
		data, _ := json.Marshal(args)
		return bus.Extra{Choice: fmt.Appendf(nil, `{"index":0,"delta":{"tool_calls":[{"index":%d,"id":"1",`+
			`"type":"function","function":{"name":%q,"arguments":%s}}]}}`, index, name, data)}
	}
	deep := strings.Repeat(`{"anyOf":[true,`, 200) + "true" + strings.Repeat("]}", 200)
	for _, c := range []struct {
		asks   string
		text   string
		extra  []bus.Extra
		finish string
		want   string // "none": the body asks for no form
	}{
		{`"temperature":0`, "", nil, "stop", "none"},
		{`"response_format":{"type":"text"}`, "", nil, "stop", "none"},
		{`"response_format":7,"tools":[]`, "", nil, "stop", "none"},
		{`"tool_choice":"none",` + tools, "", nil, "stop", "none"},

		{`"response_format":{"type":"json_object"}`, ` {"a": [1]} `, nil, "stop", "kept"},
		{`"response_format":{"type":"json_object"}`, `{"a": [1]`, nil, "stop", "broken"},
		{`"response_format":{"type":"json_object"}`, `{"a": [1]`, nil, "length", "unknown"},
		{`"response_format":{"type":"json_object"}`, `[1]`, nil, "stop", "broken"},
		{`"response_format":{"type":"json_object"}`, "Here: {}", nil, "stop", "broken"},
		{`"response_format":{"type":"json_object"}`, strings.Repeat(" ", mostFormed) + "x", nil, "stop", "unknown"},

		{schema, `{"n":2,"who":"bob","list":["abc",null]}`, nil, "stop", "kept"},
		{schema, `{"n":2.5}`, nil, "stop", "broken"},
		{schema, `{"n":0}`, nil, "stop", "broken"},
		{schema, `{"who":"ann"}`, nil, "stop", "broken"},
		{schema, `{"n":1,"who":"eve"}`, nil, "stop", "broken"},
		{schema, `{"n":1,"list":["abcd"]}`, nil, "stop", "broken"},
		{schema, `{"n":1,"list":[null,null,null]}`, nil, "stop", "broken"},
		{schema, `{"n":1,"more":1}`, nil, "stop", "broken"},
		{`"response_format":{"type":"json_schema","json_schema":{"schema":` + deep + `}}`, `{}`, nil, "stop", "kept"},
		{`"response_format":{"type":"json_schema","json_schema":{"schema":{"$ref":"#/x"}}}`, `7`, nil, "stop", "broken"},

		{tools, "", []bus.Extra{call(0, "f", `{"x":`), call(0, "", `1}`)}, "tool_calls", "kept"},
		{tools, "", []bus.Extra{call(0, "g", ""), call(1, "f", `{"x":2}`)}, "tool_calls", "kept"},
		{tools, "", []bus.Extra{call(0, "f", `{"x":`)}, "tool_calls", "broken"},
		{tools, "", []bus.Extra{call(0, "f", `{"x":"1"}`)}, "tool_calls", "broken"},
		{tools, "", []bus.Extra{call(0, "h", `{}`)}, "tool_calls", "broken"},
		{tools, "", []bus.Extra{call(1<<40, "f", `{}`)}, "tool_calls", "unknown"},
		{tools, "no need to", nil, "stop", "unknown"},
		{`"tool_choice":"required",` + tools, "no", nil, "stop", "broken"},
		{`"tool_choice":{"type":"function","function":{"name":"f"}},` + tools, "no", nil, "stop", "broken"},
		{`"response_format":{"type":"json_object"},` + tools, "", []bus.Extra{call(0, "g", "{}")}, "stop", "kept"},
		{`"response_format":{"type":"json_object"},` + tools, "no", nil, "stop", "broken"},
	} {
		f := FormOf(bus.KindChat, []byte(`{"messages":[{"role":"user","content":"\"tools\""}],`+c.asks+`}`))
		got := "none"
		if f != nil {
			half := len(c.text) / 2
			f.Add(c.text[:half], nil)
			f.Add(c.text[half:], nil)
			for _, x := range c.extra {
				f.Add("", []bus.Extra{x})
			}
			switch kept, ok := f.Kept(c.finish); {
			case !ok:
				got = "unknown"
			case kept:
				got = "kept"
			default:
				got = "broken"
			}
		}
		if got != c.want {
			t.Errorf("%.90s: %.40q and %d events: %s, want %s", c.asks, c.text, len(c.extra), got, c.want)
		}
	}
	if FormOf(bus.KindCompletion, []byte(`{"response_format":{"type":"json_object"}}`)) != nil {
		t.Error("a completion is judged")
	}
}

func FuzzForm(f *testing.F) {
	f.Add([]byte(`{"response_format":{"type":"json_schema","json_schema":{"schema":{"enum":[[1],{"a":2}]}}}}`),
		`{"a":2}`, []byte(`{"delta":{"tool_calls":[{"index":3,"function":{"name":"f","arguments":"{"}}]}}`))
	f.Add([]byte(`{"tools":[{"function":{"name":"f","parameters":{"items":{"anyOf":[{}]}}}}]}`), "x", []byte("{}"))
	f.Fuzz(func(t *testing.T, body []byte, text string, choice []byte) {
		x := FormOf(bus.KindChat, body)
		if x == nil {
			return
		}
		x.Add(text, []bus.Extra{{Choice: choice}})
		for _, finish := range []string{"stop", "length", ""} {
			if kept, ok := x.Kept(finish); kept && !ok || ok && finish != "stop" {
				t.Fatalf("kept %v, known %v, where it ended by %q", kept, ok, finish)
			}
		}
	})
}
