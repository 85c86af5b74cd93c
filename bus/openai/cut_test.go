package openai

import (
	"encoding/json"
	"strings"
	"testing"

	"souk/bus"
)

// An item that the limit on tokens cut is incomplete, in its own event and in the response: a client must not
// call a function by half of its arguments. What was whole before it is completed.
func TestACutItemIsIncomplete(t *testing.T) {
	const thought = `{"index":0,"delta":{"reasoning":"hm"}}`
	const whole = `{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","type":"function",` +
		`"function":{"name":"f","arguments":"{}"}}]}}`
	const half = `{"index":0,"delta":{"tool_calls":[{"index":1,"id":"b","type":"function",` +
		`"function":{"name":"g","arguments":"{\"x"}}]}}`
	for _, c := range []struct{ name, extra, text, finish, want string }{
		{"a text that is cut", "", "It is", "length", "incomplete"},
		{"a text that is filtered", "", "It is", "content_filter", "incomplete"},
		{"a text", "", "It is", "stop", "completed"},
		{"a thought, then a text that is cut", thought, "It", "length", "completed incomplete"},
		{"a thought that is cut", thought, "", "length", "incomplete"},
		{"a call, and half of a second", whole + half, "", "length", "completed incomplete"},
		{"half of a call, and half of a second", strings.Replace(half, `"index":1`, `"index":0`, 1) + half, "",
			"length", "incomplete incomplete"},
		{"two calls", whole + strings.Replace(half, `{\"x`, `{}`, 1), "", "tool_calls",
			"completed completed"},
		{"a call, then a text that is cut", whole, "So", "length", "completed incomplete"},
	} {
		r := NewResponse(Shape{ID: "t"}, filledAsked(t))
		stream := r.Begin(nil)
		say := func(chunk bus.Chunk) {
			var err error
			if stream, err = r.Chunk(stream, &chunk); err != nil {
				t.Fatal(c.name, err)
			}
		}
		for _, choice := range strings.SplitAfter(c.extra, "}}]}}") {
			if choice != "" {
				say(bus.Chunk{Extra: []bus.Extra{{Choice: []byte(choice)}}})
			}
		}
		if c.text != "" {
			say(bus.Chunk{Text: c.text})
		}
		stream = r.Finish(stream, &bus.Result{Finish: c.finish})

		type item struct{ Status string }
		ended := map[int]string{}
		var inObject []string
		for _, line := range strings.Split(string(stream), "\n") {
			data, ok := strings.CutPrefix(line, "data: ")
			if !ok {
				continue
			}
			var e struct {
				Type     string
				At       int `json:"output_index"`
				Item     item
				Response struct{ Output []item }
			}
			if err := json.Unmarshal([]byte(data), &e); err != nil {
				t.Fatal(c.name, err)
			}
			if e.Type == "response.output_item.done" {
				ended[e.At] = e.Item.Status
			}
			inObject = nil
			for _, x := range e.Response.Output {
				inObject = append(inObject, x.Status)
			}
		}
		var inEvents []string
		for i := range len(ended) {
			inEvents = append(inEvents, ended[i])
		}
		if e, o := strings.Join(inEvents, " "), strings.Join(inObject, " "); e != c.want || o != c.want {
			t.Errorf("%s: items end as %q, the response has %q, want %q", c.name, e, o, c.want)
		}
	}
}

// An item that is nothing but an id names an earlier one: OpenAI's clients may leave its type out.
func TestAReferenceWithoutAType(t *testing.T) {
	known := func(id string) ([]byte, bool) {
		return []byte(`{"type":"message","role":"assistant","content":"said"}`), id == "msg_1"
	}
	for _, kind := range []string{``, `,"type":null`, `,"type":"item_reference"`,
		`,"role":null,"content":null`} {
		r, no := ReadResponses([]byte(`{"input":[{"id":"msg_1"`+kind+`},{"role":"user","content":"x"}]}`), known)
		if no != nil || !strings.Contains(string(r.Chat), `"said"`) {
			t.Errorf("%s: %v", kind, no)
		}
	}
	if _, no := ReadResponses([]byte(`{"input":[{"id":"msg_2"}]}`), known); no == nil ||
		!strings.Contains(no.Message, `no item "msg_2" is kept`) {
		t.Errorf("one that is not kept: %v", no)
	}
	if _, no := ReadResponses([]byte(`{"input":[{"id":"msg_1","content":"x"}]}`), known); no == nil ||
		!strings.Contains(no.Message, "role") {
		t.Errorf("a message without a role: %v", no)
	}
}
