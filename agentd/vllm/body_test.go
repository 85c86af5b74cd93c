package vllm

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"souk/agentd"
	"souk/bus/openai"
)

func TestRewrite(t *testing.T) {
	const ours = `{"model":"m\"1","stream":true,"stream_options":{"include_usage":true},"return_token_ids":true,"max_tokens":5`
	for _, c := range []struct{ in, want string }{
		{`{}`, ours + `}`},
		{` { "seed" : 1 , "model":"x"} `, ours + `,"seed" : 1}`},
		{`{"model":"x","souk":{"worth":1,"a":"}"},"stream":false,"max_tokens":9,"max_completion_tokens":9,"return_token_ids":false,"stream_options":null,"n":1}`, ours + `,"n":1}`},
		{`{"model":"a","model":"b","mod\u0065l":"c","\u0073ouk":1,"x":2}`, ours + `,"x":2}`},
		{`{"a":[{"b":"]}\""}, 1.5e3 ],"c":"\\","d":null}`, ours +
			`,"a":[{"b":"]}\""}, 1.5e3 ],"c":"\\","d":null}`},
		{`{"x":NaN,"y":true}`, ours + `,"x":NaN,"y":true}`}, // for the engine to judge
		{``, ""}, {`[]`, ""}, {`{"a":1`, ""}, {`{"a"}`, ""}, {`{"a":}`, ""}, {`{"a":1,}`, ""},
		{`{"a":1}{}`, ""},
		{`{a:1}`, ""}, {`{"a":[1}`, ""}, {`{"a":"x}`, ""}, {`{"a" 1}`, ""}, {`null`, ""},
	} {
		got, _, err := rewrite(nil, []byte(c.in), agentd.Request{Model: `m"1`, MaxTokens: 5}, whole("vllm"))
		if c.want == "" {
			if err == nil {
				t.Errorf("%s: no error but %s", c.in, got)
			}
			continue
		}
		if err != nil || string(got) != c.want {
			t.Errorf("%s\ngot  %s %v\nwant %s", c.in, got, err, c.want)
		}
	}
}

// Every valid object keeps all members but ours, unchanged.
func FuzzRewrite(f *testing.F) {
	for _, s := range []string{`{"messages":[{"role":"user","content":"}"}],"model":"x","souk":{}}`,
		`{"a":{"b":[1,"\\\""]}, "\u0073tream":1}`, `{"a":1,"a":2}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		out, _, err := rewrite(nil, body, agentd.Request{Model: "m", MaxTokens: 5}, whole("vllm"))
		var before, after map[string]json.RawMessage
		if !json.Valid(body) || json.Unmarshal(body, &before) != nil || before == nil {
			return // nothing is promised, but that it returns
		}
		if err != nil {
			t.Fatalf("%q: %v", body, err)
		}
		if err := json.Unmarshal(out, &after); err != nil {
			t.Fatalf("%q became %q: %v", body, out, err)
		}
		want := map[string]string{"model": `"m"`, "stream": "true",
			"stream_options": `{"include_usage":true}`, "return_token_ids": "true", "max_tokens": "5"}
		for k, v := range before {
			switch k {
			case "model", "stream", "stream_options", "max_tokens", "max_completion_tokens",
				"return_token_ids", "souk":
			default:
				want[k] = string(v)
			}
		}
		if len(after) != len(want) {
			t.Errorf("%q became %q", body, out)
		}
		for k, v := range want {
			if !bytes.Equal(after[k], []byte(v)) {
				t.Errorf("%q: %s is %q, want %q", body, k, after[k], v)
			}
		}
	})
}

func TestKinds(t *testing.T) {
	for in, want := range map[string]kinds{
		`{"messages":[],"temperature":1,"max_tokens":5}`: 0,
		`{"logprobs":true,"top_logprobs":3}`:             kindLogprobs,
		`{"logprobs":false,"top_logprobs":null}`:         0,
		`{"response_format":{"type":"json_object"}}`:     kindGrammar,
		`{"response_format":{"type":"text"}}`:            0,
		`{"tools":[],"tool_choice":"auto"}`:              0,
		`{"tools":[{}],"tool_choice":"required"}`:        kindTools | kindChoice,
		`{"top_p":1,"frequency_penalty":0,"seed":0}`:     kindSeed,
		`{"prompt":"a","logprobs":1}`:                    kindLogprobs,
		`{"prompt":"a","logprobs":0}`:                    kindLogprobs,
		`{"prompt_logprobs":0}`:                          kindLogprobs,
		`{"top_p":0.9,"logit_bias":{"1":2}}`:             kindTop | kindBias,
	} {
		if _, got, err := rewrite(nil, []byte(in), agentd.Request{Model: "m"}, whole("vllm")); got != want ||
			err != nil {
			t.Errorf("%s asks for %b, %v; want %b", in, got, err, want)
		}
	}
}

// Whatever an engine is asked to compute, a task or the rest of an answer, it keeps under the salt of the
// dispatch, once and no other, whatever the body says; without one, under none.
func TestEveryPromptIsKeptUnderItsSalt(t *testing.T) {
	for _, body := range []string{`{"prompt":"x"}`, `{"prompt":"x","cache_salt":"mine"}`,
		`{"cache\u005fsalt":"mine","prompt":"x","cache_salt":null}`, `{"prompt":"x","cache_salt":{"a":[1]}}`} {
		for _, salt := range []string{"", "the-groups_own"} {
			r := agentd.Request{Model: "m", MaxTokens: 3, Salt: salt, Body: []byte(body)}
			var members map[string]json.RawMessage
			if err := json.Unmarshal(r.Body, &members); err != nil {
				t.Fatal(err)
			}
			task, _, err := rewrite(nil, r.Body, r, whole("vllm"))
			if err != nil {
				t.Fatal(err)
			}
			rest, err := completion(r, members, []uint32{1, 2}, 1, 3, nil)
			if err != nil {
				t.Fatal(err)
			}
			for what, said := range map[string][]byte{"task": task, "rest": rest} {
				var all []string
				s := openai.Scan(said)
				if !s.Object(func(key openai.Span) bool {
					v, ok := s.Value()
					if string(s.Name(key)) == "cache_salt" {
						all = append(all, string(s.Text(v)))
					}
					return ok
				}) {
					t.Fatalf("%s: %v", said, s.Err())
				}
				want := []string{`"` + salt + `"`}
				if salt == "" {
					want = nil
				}
				if !slices.Equal(all, want) {
					t.Errorf("%s of %s: salts %q, want %q", what, body, all, want)
				}
			}
		}
	}
}
