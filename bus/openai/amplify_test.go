package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"souk/bus"
)

// A request that names one long item many times is refused before it takes more room than a body may have.
func TestItemsNamedManyTimes(t *testing.T) {
	item := []byte(`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"` +
		strings.Repeat("x", 100<<10) + `"}]}`)
	read := 0
	known := func(string) ([]byte, bool) { read += len(item); return item, true }
	many := strings.Repeat(`{"type":"item_reference","id":"a"},`, bus.MaxBody/35-10)
	_, err := ReadResponses(fmt.Appendf(nil, `{"input":[%s]}`, strings.TrimSuffix(many, ",")), known)
	if err == nil || err.Code != bus.CodeTooLarge {
		t.Errorf("got %.200v, want %s", err, bus.CodeTooLarge)
	}
	if most := 2 * bus.MaxBody; read > most {
		t.Errorf("%d bytes of items were read for one request, want at most %d", read, most)
	}
}

// Very many tools take little more room than their bytes, by either API.
func TestVeryManyTools(t *testing.T) {
	const n = 1 << 14
	many := func(tool string) string { return strings.Repeat(tool+",", n) + tool + "]}" }
	read := map[string]func([]byte) *bus.Error{
		`{"input":"x","tools":[` + many(`{"type":"function","name":"f"}`): func(b []byte) *bus.Error {
			_, no := ReadResponses(b, nil)
			return no
		},
		`{"max_tokens":1,"messages":[{"role":"user","content":"x"}],"tools":[` +
			many(`{"name":"f","input_schema":{}}`): func(b []byte) *bus.Error {
			_, no := ReadMessages(b)
			return no
		},
	}
	for body, read := range read {
		var before, after runtime.MemStats
		data := []byte(body)
		runtime.ReadMemStats(&before)
		no := read(data)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; no != nil || took > 25*uint64(len(data)) {
			t.Errorf("%.40s: %v, took %.1f times its bytes", body, no, float64(took)/float64(len(data)))
		}
	}
}

// An agent that says one byte in turn as thought and as text makes no answer that is many times as large.
func TestManySmallItems(t *testing.T) {
	asked, no := ReadResponses([]byte(`{"input":"x"}`), nil)
	if no != nil {
		t.Fatal(no)
	}
	r := NewResponse(Shape{ID: "t", Kind: bus.KindChat}, asked)
	const step = `{"delta":{"reasoning":"x","content":"y"}}`
	c := &bus.Chunk{Text: "y", Extra: []bus.Extra{{Choice: []byte(step)}}}
	out := r.Begin(nil)
	n := 0
	for ; n < MaxResponse; n++ {
		var err error
		if out, err = r.Chunk(out[:0], c); err != nil {
			if bus.CodeOf(err) != bus.CodeTooLarge {
				t.Fatal(err)
			}
			break
		}
	}
	if got := len(r.Finish(nil, &bus.Result{})); got > 8*MaxResponse {
		t.Errorf("%d chunks of two bytes made a last event of %d bytes, want at most %d", n, got,
			8*MaxResponse)
	}
}

// Each event of a response is one line of data, however the request and the agent's events are laid out.
func TestResponseEventsAreLines(t *testing.T) {
	asked, no := ReadResponses([]byte("{\"input\":\"x\",\"include\":[\"message.output_text.logprobs\"],"+
		"\"metadata\":{\n\n\"a\":\r\"b\"\r\n},"+
		"\"tools\":[\n{\"type\":\"function\",\n\n\"name\":\"f\"}\r]}"), nil)
	if no != nil {
		t.Fatal(no)
	}
	r := NewResponse(Shape{ID: "t", Kind: bus.KindChat, Model: "a\n\nb"}, asked)
	out := r.Begin(nil)
	for _, c := range []*bus.Chunk{
		{Text: "y\n\n\r", Extra: []bus.Extra{{Choice: []byte("{\"delta\":{\n\"content\":\"y\"}," +
			"\r\n\"logprobs\":{\n\"content\":[\n\n{\"token\":\r\"y\",\n\"logprob\":0}\r\n]}}")}}},
		{Extra: []bus.Extra{{Choice: []byte("{\"delta\":{\"tool_calls\":[\n{\"index\":0,\r" +
			"\"id\":\"a\\n\\nb\",\n\"function\":{\"name\":\"f\\n\\r\\ndata: x\",\n\"arguments\":\"{\\n\\n}\"}}]}}")}}},
	} {
		var err error
		if out, err = r.Chunk(out, c); err != nil {
			t.Fatal(err)
		}
	}
	out = r.Finish(out, &bus.Result{Finish: "stop", Hub: "h\n\n", Receipt: &bus.Receipt{ID: "r\n"}})
	out = r.Fail(out, Refusal{Code: bus.CodeInternal, Message: "no\n\ndata: x\r", Task: "t"})
	for i, event := range strings.Split(strings.TrimSuffix(string(out), "\n\n"), "\n\n") {
		lines := strings.Split(event, "\n")
		if len(lines) != 2 || !strings.HasPrefix(lines[0], "event: ") ||
			!strings.HasPrefix(lines[1], "data: {") ||
			strings.ContainsAny(event, "\r") || !json.Valid([]byte(lines[1][len("data: "):])) {
			t.Errorf("event %d: %q", i, event)
		}
	}
}

// Clients that split a stream where Unicode ends a line, as Python's splitlines and httpx's iter_lines do,
// find each event in one line, whatever an agent says, and wherever.
func TestEventsAreLinesOfUnicode(t *testing.T) {
	const ends = "a\u0085b\u2028c\u2029d\u2027\u00c5\u00e2"
	extra := []bus.Extra{{Choice: []byte(`{"delta":{"content":"` + ends + `","reasoning":"` + ends +
		`"},"logprobs":{"content":[{"token":"` + ends + `"}]}}`)},
		{At: len(ends), Choice: []byte(`{"delta":{"refusal":"` + ends + `"}}`)},
		{At: len(ends), Choice: []byte(`{"delta":{"tool_calls":[{"index":0,"id":"` + ends +
			`","function":{"name":"` + ends + `","arguments":"` + ends + `"}}]}}`)}}
	result := &bus.Result{Finish: "stop", Message: ends, Stop: []byte(`"` + ends + `"`)}
	asked, no := ReadResponses([]byte(`{"input":"x","instructions":"`+ends+`"}`), nil)
	if no != nil {
		t.Fatal(no)
	}
	e, r := NewEvents(Shape{ID: "t", Kind: bus.KindChat, Model: ends}, 0), NewResponse(Shape{ID: "t",
		Kind: bus.KindChat, Model: ends}, asked)
	m := NewMessage(Shape{ID: "t", Kind: bus.KindChat, Model: ends}, false)
	chat, response, message := e.Begin(nil), r.Begin(nil), m.Begin(nil)
	for _, c := range []*bus.Chunk{{Text: ends}, {Text: ends, Extra: extra}} {
		var errs [3]error
		chat, errs[0] = e.Chunk(chat, c)
		message, errs[2] = m.Chunk(message, c)
		response, errs[1] = r.Chunk(response, c)
		if err := errors.Join(errs[:]...); err != nil {
			t.Fatal(err)
		}
	}
	chat, response = e.Finish(chat, result), r.Finish(response, result)
	message = m.Finish(message, result)
	for name, stream := range map[string][]byte{"chat": chat, "response": response, "message": message} {
		if strings.ContainsAny(string(stream), "\u0085\u2028\u2029") {
			t.Errorf("%s: an event of several lines: %s", name, stream)
		}
		for line := range strings.Lines(string(stream)) {
			data, is := strings.CutPrefix(line, "data: ")
			if is && !json.Valid([]byte(data)) {
				t.Errorf("%s: %s", name, data)
			}
		}
	}
	var said strings.Builder
	for line := range strings.Lines(string(chat)) {
		var event struct {
			Choices []struct {
				Delta struct{ Content, Reasoning, Refusal string }
			}
		}
		if data, is := strings.CutPrefix(line, "data: "); is && json.Unmarshal([]byte(data), &event) == nil {
			d := event.Choices[0].Delta
			said.WriteString(d.Content + d.Reasoning + d.Refusal)
		}
	}
	if want := strings.Repeat(ends, 4); said.String() != want {
		t.Errorf("%q was read, not %q", said.String(), want)
	}
}

// What is thought in many parts, or items, costs what its text costs.
func TestManyPartsOfReasoning(t *testing.T) {
	const part = `{"type":"reasoning_text","text":"0123456789"}`
	n := bus.MaxBody/(len(part)+24) - 2
	for name, input := range map[string]string{
		"parts": `{"type":"reasoning","content":[` + strings.Repeat(part+",", n) + part + `]}`,
		"items": strings.Repeat(`{"type":"reasoning","content":[`+part+`]},`, n/2) +
			`{"type":"reasoning","content":[` + part + `]}`,
	} {
		body := []byte(`{"input":[` + input + `,{"role":"user","content":"so?"}]}`)
		var made runtime.MemStats
		runtime.ReadMemStats(&made)
		before := made.TotalAlloc
		r, err := ReadResponses(body, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := bytes.Count(r.Chat, []byte("0123456789")); got < n/2 {
			t.Errorf("%s: %d came", name, got)
		}
		runtime.ReadMemStats(&made)
		if got := made.TotalAlloc - before; got > 64<<20 {
			t.Errorf("%s: %d bytes were allocated for a body of %d", name, got, len(body))
		}
	}
}
