package bus

import (
	"strings"
	"testing"
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
		{chat + `,"tools":[{"type":"function"}]`, "tools"},
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
		{`"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]`, "messages"},
		{`"prompt":"Once","echo":true`, "echo"},
	} {
		err := CanContinue([]byte("{" + c.body + "}"))
		switch {
		case c.no == "" && err != nil, c.no != "" && err == nil:
			t.Errorf("%s: %v", c.body, err)
		case err != nil && (CodeOf(err) != CodeUnsupportedField || !strings.HasPrefix(messageOf(err), c.no+":")):
			t.Errorf("%s: %v, want %s to be named", c.body, err, c.no)
		}
	}
	if CanContinue([]byte("[")) == nil {
		t.Error("a body that is no object can be continued")
	}
}

// Log probabilities are no state of an engine; whatever its parsers add is.
func TestExtraOfLogprobsAlone(t *testing.T) {
	for choice, alone := range map[string]bool{
		`{"index":0,"delta":{"content":"a"},"logprobs":{"content":[]},"token_ids":[1]}`:                  true,
		`{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":{"content":[]}}`: true,
		`{"index":0,"text":"a","logprobs":{"tokens":["a"]}}`:                                             true,
		`{"index":0,"delta":{"content":"a"},"logprobs":null}`:                                            false,
		`{"index":1,"delta":{"content":"a"},"logprobs":{"content":[]}}`:                                  false,
		`{"index":0,"delta":{"reasoning":"a"},"logprobs":{"content":[]}}`:                                false,
		`{"index":0,"delta":{"tool_calls":[{"index":0}]},"logprobs":{"content":[]}}`:                     false,
		`{}`: false,
		`[`:  false,
	} {
		if got := (Extra{Choice: []byte(choice)}).Logprobs(); got != alone {
			t.Errorf("%s: %v", choice, got)
		}
	}
}

// What a client says it has is bounded, and text without tokens is no place to go on from.
func TestResumeIsBounded(t *testing.T) {
	for _, c := range []struct {
		r  Resume
		ok bool
	}{
		{Resume{Agent: "a"}, true},
		{Resume{Agent: "a", Seq: 3, Tokens: make([]uint32, MaxResumeTokens), Text: strings.Repeat("x", MaxResumeText)}, true},
		{Resume{Agent: "a", Tokens: make([]uint32, MaxResumeTokens+1)}, false},
		{Resume{Agent: "a", Tokens: []uint32{1}, Text: strings.Repeat("x", MaxResumeText+1)}, false},
		{Resume{Agent: "a", Text: "x"}, false},
		{Resume{}, false},
	} {
		if err := (&Task{Resume: &c.r}).Validate(); (err == nil) != c.ok {
			t.Errorf("%d tokens, %d bytes of %q: %v", len(c.r.Tokens), len(c.r.Text), c.r.Agent, err)
		}
	}
}
