package openai

import (
	"fmt"
	"strings"
	"testing"

	"souk/bus"
)

// What an engine keeps beside the tokens does not go along, so answers under it cannot go on elsewhere.
func TestCanContinue(t *testing.T) {
	const chat = `"messages":[{"role":"user","content":"Hi"}]`
	for _, c := range []struct{ body, no string }{
		{chat, ""},
		{`"prompt":"Once"`, ""},
		{chat + `,"temperature":0.7,"seed":3,"stop":["a","b"],"max_tokens":9,"repetition_penalty":1.1,"logit_bias":{"5":1},"min_p":0.1`, ""},
		{chat + `,"n":1,"presence_penalty":0,"frequency_penalty":0.0,"logprobs":false,"top_logprobs":null,"tools":[],"tool_choice":"auto"`, ""},
		{chat + `,"response_format":{"type":"text"}`, ""},
		{chat + `,"min_tokens":5`, ""},
		{chat + `,"frequency_penalty":0.5,"presence_penalty":0,"repetition_penalty":1.0`, ""},
		{chat + `,"frequency_penalty":0.5,"presence_penalty":0.1`, ""},
		{chat + `,"presence_penalty":-0.5`, ""},
		{chat + `,"presence_penalty":0.5,"repetition_penalty":1.1`, "presence_penalty"},
		{chat + `,"frequency_penalty":0.5,"repetition_penalty":1.1`, "frequency_penalty"},
		{chat + `,"frequency_penalty":"much"`, "frequency_penalty"},
		{`"messages":[{"role":"user","content":[{"type":"text","text":"Hi"}]}]`, ""},
		{chat + `,"response_format":{"type":"json_object"}`, "response_format"},
		{chat + `,"structured_outputs":{"choice":["a"]}`, "structured_outputs"},
		{chat + `,"tools":[{"type":"function"}]`, ""},
		{chat + `,"tools":[{"type":"function"}],"tool_choice":"auto","parallel_tool_calls":false`, ""},
		{chat + `,"tools":[{"type":"function"}],"tool_choice":"required"`, "tool_choice"},
		{chat + `,"tools":[{"type":"function"}],"tool_choice":{"type":"function"}`, "tool_choice"},
		{chat + `,"reasoning_effort":"low","include_reasoning":true`, ""},
		{chat + `,"include_reasoning":false`, "include_reasoning"},
		{chat + `,"tool_choice":"required"`, "tool_choice"},
		{chat + `,"n":2`, "n"},
		{chat + `,"logprobs":true,"top_logprobs":5`, ""},
		{`"prompt":"Once","logprobs":5`, ""},
		{`"prompt":"Once","logprobs":-1`, "logprobs"},
		{chat + `,"logprobs":"yes"`, "logprobs"},
		{chat + `,"logprobs":true,"top_logprobs":-1`, "top_logprobs"},
		{chat + `,"presence_penalty":"much"`, "presence_penalty"},
		{chat + `,"bad_words":["x"]`, "bad_words"},
		{chat + `,"min_tokens":5,"stop":"x"`, "min_tokens"},
		{chat + `,"something_new":1`, "something_new"},
		{chat + `,"prompt_cache_key":"k","prompt_cache_retention":"24h","prompt_cache_options":{"ttl":"30m"}`,
			""},
		{chat + `,"metadata":{"a":"b"},"store":true,"service_tier":"auto","safety_identifier":"u"`, ""},
		{chat + `,"modalities":["text"],"prediction":{"type":"content","content":"x"}`, ""},
		{`"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]`, "messages"},
		{`"prompt":"Once","echo":true`, "echo"},
	} {
		_, err := CanContinue(&bus.Resume{Text: "so far"}, []byte("{"+c.body+"}"))
		switch {
		case c.no == "" && err != nil, c.no != "" && err == nil:
			t.Errorf("%s: %v", c.body, err)
		case err != nil && (bus.CodeOf(err) != bus.CodeUnsupportedField ||
			!strings.HasPrefix(asError(err).Message, c.no+":")):
			t.Errorf("%s: %v, want %s to be named", c.body, err, c.no)
		}
	}
	if _, err := CanContinue(new(bus.Resume), []byte("[")); err == nil {
		t.Error("a body that is no object can be continued")
	}
}

// Log probabilities are no state of an engine; whatever its parsers add is.
func TestExtraOfLogprobsAlone(t *testing.T) {
	for choice, ok := range map[string]bool{
		`{"index":0,"delta":{"content":"a"},"logprobs":{"content":[]},"token_ids":[1]}`:                  true,
		`{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":{"content":[]}}`: true,
		`{"index":0,"text":"a","logprobs":{"tokens":["a"]}}`:                                             true,
		`{"index":1,"delta":{"content":"a"},"logprobs":{"content":[]}}`:                                  false,
		`{"index":0,"delta":{"reasoning":"a"},"logprobs":{"content":[]}}`:                                false,
		`{"index":0,"delta":{"tool_calls":[{"index":0}]},"logprobs":{"content":[]}}`:                     false,
		`{}`: false,
		`[`:  false,
	} {
		if reasoning, calls, got := Parsed(bus.Extra{Choice: []byte(choice)}); got != ok || reasoning != "" ||
			calls != nil {
			t.Errorf("%s: %q, %v, %v", choice, reasoning, calls, got)
		}
	}
}

// A tool call or the end of reasoning is read by an engine's parsers alone.
func TestWhatOnlyParsersRead(t *testing.T) {
	const tools = `"tools":[{"type":"function"}]`
	for _, c := range []struct {
		body   string
		r      bus.Resume
		parses bool
		no     string
	}{
		{`{}`, bus.Resume{Text: "so far"}, false, ""},
		{`{"stop":"x","logprobs":true}`, bus.Resume{Text: "so far"}, false, ""},
		{"{" + tools + "}", bus.Resume{Text: "so far"}, true, ""},
		{"{" + tools + `,"tool_choice":"none"}`, bus.Resume{Text: "so far"}, false, ""},
		{`{"tools":[],"tool_choice":"auto"}`, bus.Resume{Text: "so far"}, false, ""},
		{"{" + tools + `,"stop":["x"]}`, bus.Resume{Text: "so far"}, true, "stop"},
		{"{" + tools + `,"logprobs":true}`, bus.Resume{Text: "so far"}, true, "logprobs"},
		{"{" + tools + `,"stop":[],"logprobs":false}`, bus.Resume{Calls: []string{"c-1"}}, true, ""},
		{"{" + tools + `,"tool_choice":"required"}`, bus.Resume{Text: "so far"}, true, "tool_choice"},
		{`{"reasoning_effort":"low"}`, bus.Resume{Text: "so far"}, true, ""},
		{`{}`, bus.Resume{Reasoning: "let me think"}, true, ""},
		{`{}`, bus.Resume{Text: "so far", Reasoning: "let me think"}, false, ""},
		{`{"stop":["x"]}`, bus.Resume{Text: "so far", Reasoning: "let me think"}, false, "stop"},
	} {
		parses, err := CanContinue(&c.r, []byte(c.body))
		if parses != (c.parses && c.no == "") {
			t.Errorf("%s after %+v: %v", c.body, c.r, parses)
		}
		if (err == nil) != (c.no == "") || err != nil && !strings.HasPrefix(asError(err).Message, c.no+":") {
			t.Errorf("%s after %+v: %v, want %q to be named", c.body, c.r, err, c.no)
		}
	}
}

func TestExtraOfParsers(t *testing.T) {
	for choice, want := range map[string]string{
		`{"index":0,"delta":{"reasoning":"a"},"logprobs":null,"token_ids":[1]}`:                                  `a map[]`,
		`{"index":0,"delta":{"reasoning_content":"b"}}`:                                                          `b map[]`,
		`{"index":0,"delta":{"reasoning_content":"c","reasoning":"c"}}`:                                          `c map[]`,
		`{"index":0,"delta":{"role":"assistant","reasoning":"a","content":"b"}}`:                                 `a map[]`,
		`{"index":0,"delta":{"reasoning":"a","tool_calls":null}}`:                                                `a map[]`,
		`{"index":0,"delta":{"reasoning":"a","tool_calls":[{"index":1,"id":"call-1","function":{"name":"f"}}]}}`: `a map[1:call-1]`,
		`{"index":0,"delta":{"tool_calls":[{"index":1,"function":{"arguments":"{"}}]}}`:                          ` map[]`,

		`{"index":0,"delta":{"tool_calls":[{"index":-1,"id":"c"}]}}`:      "no",
		`{"index":0,"delta":{"tool_calls":[{"id":"c"}]}}`:                 "no",
		`{"index":0,"delta":{"tool_calls":[{"index":128,"id":"c"}]}}`:     "no",
		`{"index":0,"delta":{"tool_calls":{}}}`:                           "no",
		`{"index":0,"delta":{"reasoning":1}}`:                             "no",
		`{"index":0,"delta":{"audio":"a"}}`:                               "no",
		`{"index":1,"delta":{"reasoning":"a"}}`:                           "no",
		`{"index":0,"delta":{"reasoning":"a"},"logprobs":{"content":[]}}`: "no",
		`{"index":0,"text":"a"}`:                                          "no",
		`[`:                                                               "no",
	} {
		reasoning, calls, ok := Parsed(bus.Extra{Choice: []byte(choice)})
		if got := fmt.Sprintf("%s %v", reasoning, calls); ok != (want != "no") || ok && got != want {
			t.Errorf("%s: %q, %v", choice, got, ok)
		}
	}
}
