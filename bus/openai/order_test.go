package openai

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"souk/bus"
)

const (
	callA     = `{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":""}}]}}`
	callAArgs = `{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"x\":1}"}}]}}`
	callB     = `{"delta":{"tool_calls":[{"index":1,"id":"b","function":{"name":"g","arguments":"{}"}}]}}`
	thought   = `{"delta":{"reasoning":"hm"}}`
	declined  = `{"delta":{"refusal":"no"}}`
)

// The events of a response stand in the order in which OpenAI sends them, as recorded in the tests of AI SDK
// (vercel/ai, packages/openai): each item ends before the next begins, calls of functions too; what breaks
// off ends with "error", then "response.failed", and no event closes its items.
func TestTheOrderOfEvents(t *testing.T) {
	const text = "item(message) part text.delta text.done part.done item.done"
	for _, c := range []struct{ name, says, finish, want string }{
		{"a text", "It|is", "stop", "created in_progress " + text + " completed"},
		{"a text that is cut", "It", "length", "created in_progress " + text + " incomplete"},
		{"a call", callA + "|" + callAArgs, "tool_calls", "created in_progress " +
			"item(function_call) args.delta args.done item.done completed"},
		{"two calls", callA + "|" + callAArgs + "|" + callB, "tool_calls", "created in_progress " +
			"item(function_call) args.delta args.done item.done " +
			"item(function_call) args.delta args.done item.done completed"},
		{"a text, then a call", "It|" + callB[:22] + strings.Replace(callB[22:], `"index":1`, `"index":0`, 1),
			"tool_calls", "created in_progress " + text +
				" item(function_call) args.delta args.done item.done completed"},
		{"a call, then a text", callA + "|" + callAArgs + "|So", "stop", "created in_progress " +
			"item(function_call) args.delta args.done item.done " + text + " completed"},
		{"a thought, then a text", thought + "|It", "stop", "created in_progress " +
			"item(reasoning) part reasoning.delta reasoning.done part.done item.done " + text + " completed"},
		{"a refusal", declined, "stop",
			"created in_progress item(message) part refusal.delta refusal.done part.done item.done completed"},
		{"nothing", "", "stop", "created in_progress completed"},
		{"nothing, and it breaks off", "", "", "created in_progress error failed"},
		{"a text that breaks off", "It", "", "created in_progress item(message) part text.delta error failed"},
		{"a call that breaks off", callA, "", "created in_progress item(function_call) error failed"},
	} {
		r := NewResponse(Shape{ID: "t"}, filledAsked(t))
		stream := r.Begin(nil)
		for _, s := range strings.Split(c.says, "|") {
			chunk := bus.Chunk{Text: s}
			if strings.HasPrefix(s, "{") {
				chunk = bus.Chunk{Extra: []bus.Extra{{Choice: []byte(s)}}}
			}
			var err error
			if stream, err = r.Chunk(stream, &chunk); err != nil {
				t.Fatal(c.name, err)
			}
		}
		if c.finish == "" {
			r.Forget()
			stream = r.Fail(stream, Refusal{Code: bus.CodeEngineFailed, Message: "it died", Task: "t"})
		} else {
			stream = r.Finish(stream, &bus.Result{Finish: c.finish})
		}
		if have := strings.Join(shortOrder(t, stream), " "); have != c.want {
			t.Errorf("%s:\n has %s\nwant %s", c.name, have, c.want)
		}
	}
}

// shortOrder lists the kinds of a stream's events; several of a kind in a row count once.
func shortOrder(t testing.TB, stream []byte) (all []string) {
	t.Helper()
	short := strings.NewReplacer("response.", "", "content_part.added", "part", "content_part", "part",
		"output_item.added", "item", "output_item", "item", "function_call_arguments", "args",
		"output_text", "text", "reasoning_text", "reasoning")
	for _, e := range rawEvents(t, stream) {
		var kind string
		var item struct{ Type string }
		json.Unmarshal(e["type"], &kind)
		name := short.Replace(kind)
		if json.Unmarshal(e["item"], &item); name == "item" {
			name = fmt.Sprintf("item(%s)", item.Type)
		}
		if n := len(all); n == 0 || all[n-1] != name {
			all = append(all, name)
		}
	}
	return all
}

func rawEvents(t testing.TB, stream []byte) (all []map[string]json.RawMessage) {
	t.Helper()
	for line := range strings.Lines(string(stream)) {
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		var e map[string]json.RawMessage
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		all = append(all, e)
	}
	return all
}

// Every member that OpenAI's events, items, parts and responses have, has ours; the padding that hides
// lengths of tokens on the wire, and the time of the end, it has not.
func TestTheMembersOfEvents(t *testing.T) {
	at := "sequence_number item_id output_index"
	want := map[string]string{
		"response.created":                       "sequence_number response",
		"response.in_progress":                   "sequence_number response",
		"response.completed":                     "sequence_number response",
		"response.incomplete":                    "sequence_number response",
		"response.failed":                        "sequence_number response",
		"error":                                  "sequence_number error",
		"response.output_item.added":             "sequence_number output_index item",
		"response.output_item.done":              "sequence_number output_index item",
		"response.content_part.added":            at + " content_index part",
		"response.content_part.done":             at + " content_index part",
		"response.output_text.delta":             at + " content_index delta logprobs",
		"response.output_text.done":              at + " content_index text logprobs",
		"response.reasoning_text.delta":          at + " content_index delta",
		"response.reasoning_text.done":           at + " content_index text",
		"response.refusal.delta":                 at + " content_index delta",
		"response.refusal.done":                  at + " content_index refusal",
		"response.function_call_arguments.delta": at + " delta",
		"response.function_call_arguments.done":  at + " arguments",

		"item message":       "id type status content role",
		"item function_call": "id type status arguments call_id name",
		"item reasoning":     "id type summary content",
		"part output_text":   "type annotations logprobs text",
		"response": "id object created_at completed_at status background error incomplete_details " +
			"instructions frequency_penalty max_output_tokens max_tool_calls model output parallel_tool_calls " +
			"presence_penalty previous_response_id prompt_cache_key reasoning safety_identifier " +
			"service_tier store temperature text tool_choice tools top_logprobs top_p truncation usage user " +
			"metadata",
	}
	has := func(what string, v map[string]json.RawMessage) {
		for _, name := range strings.Fields(want[what]) {
			if _, ok := v[name]; !ok {
				t.Errorf("%s has no %s: %v", what, name, v)
			}
		}
	}
	object := func(v json.RawMessage) (o map[string]json.RawMessage) {
		json.Unmarshal(v, &o)
		return o
	}
	seen := map[string]bool{}
	for _, finish := range []string{"stop", "length", ""} {
		r := NewResponse(Shape{ID: "t"}, filledAsked(t))
		stream := r.Begin(nil)
		for _, c := range []bus.Chunk{{Extra: []bus.Extra{{Choice: []byte(thought)}}}, {Text: "It"},
			{Extra: []bus.Extra{{Choice: []byte(declined)}}}, {Extra: []bus.Extra{{Choice: []byte(callA)}}},
			{Extra: []bus.Extra{{Choice: []byte(callAArgs)}}}} {
			var err error
			if stream, err = r.Chunk(stream, &c); err != nil {
				t.Fatal(err)
			}
		}
		if finish == "" {
			stream = r.Fail(stream, Refusal{Code: bus.CodeEngineFailed, Message: "it died", Task: "t"})
		} else {
			stream = r.Finish(stream, &bus.Result{Finish: finish})
		}
		for _, e := range rawEvents(t, stream) {
			var kind string
			json.Unmarshal(e["type"], &kind)
			seen[kind] = true
			has(kind, e)
			if v, ok := e["response"]; ok {
				has("response", object(v))
			}
			for _, name := range []string{"item", "part"} {
				if v := object(e[name]); v != nil {
					json.Unmarshal(v["type"], &kind)
					has(name+" "+kind, v)
				}
			}
		}
	}
	for kind := range want {
		if strings.HasPrefix(kind, "response.") && !seen[kind] {
			t.Errorf("%s was not seen", kind)
		}
	}
}

// A response that broke off says why, and that it failed: who reads no event "error" must not take the
// stream's end for one of the network's, and ask and pay again.
func TestAFailedResponseSaysSo(t *testing.T) {
	r := NewResponse(Shape{ID: "t", Model: "m"}, filledAsked(t))
	stream, err := r.Chunk(r.Begin(nil), &bus.Chunk{Text: "It"})
	if err != nil {
		t.Fatal(err)
	}
	r.Forget()
	stream = r.Fail(stream, Refusal{Code: bus.CodeInsufficientFunds, Message: "nothing is left", Task: "t"})
	all, _ := responseEvents(t, stream)
	last := all[len(all)-1]
	if last.Type != "response.failed" || last.Response.Status != "failed" || last.Response.ID != "resp_t" ||
		last.Response.Model != "m" || last.Response.Usage != nil {
		t.Fatalf("it ends with %+v: %+v", last, last.Response)
	}
	var said struct {
		Response struct {
			Error struct{ Code, Message string }
		}
	}
	events := rawEvents(t, stream)
	raw, _ := json.Marshal(events[len(events)-1])
	if json.Unmarshal(raw, &said); said.Response.Error.Code != "insufficient_quota" ||
		said.Response.Error.Message != "nothing is left" {
		t.Errorf("%s", raw)
	}
}

// The log probabilities of a text come with it: AI SDK reads them there alone.
func TestLogprobsComeWithTheirText(t *testing.T) {
	r := NewResponse(Shape{ID: "t"}, filledAsked(t))
	stream := r.Begin(nil)
	token := func(text, shown string) bus.Chunk {
		return bus.Chunk{Text: shown, Extra: []bus.Extra{{Choice: fmt.Appendf(nil, `{"delta":{"content":%q},`+
			`"logprobs":{"content":[{"token":%q,"logprob":-1,"top_logprobs":[]}]}}`, shown, text)}}}
	}
	for _, c := range []bus.Chunk{token("a", "a"), token("half", ""), token("b", "b"), {Text: "c"},
		token("last", "")} {
		var err error
		if stream, err = r.Chunk(stream, &c); err != nil {
			t.Fatal(err)
		}
	}
	stream = r.Finish(stream, &bus.Result{Finish: "stop"})
	type logged struct{ Token string }
	var deltas, done []string
	for _, e := range rawEvents(t, stream) {
		var kind string
		var logs []logged
		json.Unmarshal(e["type"], &kind)
		json.Unmarshal(e["logprobs"], &logs)
		var names []string
		for _, l := range logs {
			names = append(names, l.Token)
		}
		switch kind {
		case "response.output_text.delta":
			deltas = append(deltas, strings.Join(names, "+"))
		case "response.output_text.done":
			done = names
		}
	}
	if !slices.Equal(deltas, []string{"a", "half+b", ""}) ||
		!slices.Equal(done, []string{"a", "half", "b", "last"}) {
		t.Errorf("with deltas came %q, in the end %q", deltas, done)
	}
}

// An engine may write its calls in turns; what it says of a call that was whole when another began is none.
func TestCallsInTurns(t *testing.T) {
	part := func(i int, id, args string) bus.Chunk {
		return bus.Chunk{Extra: []bus.Extra{{Choice: fmt.Appendf(nil,
			`{"delta":{"tool_calls":[{"index":%d,"id":%q,"function":{"name":"f","arguments":%q}}]}}`, i, id,
			args)}}}
	}
	for _, c := range []struct {
		name  string
		parts []bus.Chunk
		wrong bool
	}{
		{"in turns", []bus.Chunk{part(0, "a", `{"x`), part(1, "b", `{`), part(0, "", `":1}`),
			part(1, "", `}`)}, false},
		{"white space, late", []bus.Chunk{part(0, "a", `{}`), part(1, "b", `{}`), part(0, "", "\n")}, false},
		{"too late", []bus.Chunk{part(0, "a", `{}`), part(1, "b", `{}`), part(0, "", "{}")}, true},
	} {
		r := NewResponse(Shape{ID: "t"}, filledAsked(t))
		stream := r.Begin(nil)
		var err error
		for i := range c.parts {
			if stream, err = r.Chunk(stream, &c.parts[i]); err != nil {
				break
			}
		}
		if wrong := bus.CodeOf(err) == bus.CodeAgentFailed; wrong != c.wrong {
			t.Errorf("%s: %v", c.name, err)
		}
		if err == nil {
			_, output := responseEvents(t, r.Finish(stream, &bus.Result{Finish: "tool_calls"}))
			if len(output) != 2 || !json.Valid([]byte(output[0].Arguments)) ||
				!json.Valid([]byte(output[1].Arguments)) {
				t.Errorf("%s: %+v", c.name, output)
			}
		}
	}
}
