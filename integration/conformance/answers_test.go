package conformance

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// stream: the role comes first, one finish_reason, usage once and at the end, [DONE].
func (s *suite) stream(t *testing.T) {
	for _, path := range []string{"/v1/chat/completions", "/v1/completions"} {
		body := object{"prompt": "Tell me a story.", "max_tokens": 20, "ignore_eos": true}
		if path == "/v1/chat/completions" {
			body = chat("Tell me a story.", object{"max_tokens": 20, "ignore_eos": true})
		}
		for _, e := range s.events(t, path, body) {
			if e["usage"] != nil {
				t.Errorf("%s: usage, although nobody asked: %v", path, e)
			}
		}
		body["stream_options"] = object{"include_usage": true}
		events := s.events(t, path, body)
		for i, e := range events {
			if e["id"] != events[0]["id"] || e["created"] != events[0]["created"] || e["model"] != s.model {
				t.Errorf("%s: event %d has another id, created or model than the first: %v", path, i, e)
			}
			if i == len(events)-1 {
				break
			}
			if e["usage"] != nil {
				t.Errorf("%s: usage before the last event: %v", path, e)
			}
			if role := text(dig(e, "choices", 0, "delta", "role")); (role == "assistant") != (i == 0 &&
				path == "/v1/chat/completions") {
				t.Errorf("%s: event %d has role %q", path, i, role)
			}
			if reason := text(dig(e, "choices", 0,
				"finish_reason")); (reason == "length") != (i == len(events)-2) {
				t.Errorf("%s: event %d of %d has finish_reason %q", path, i, len(events), reason)
			}
		}
		last := events[len(events)-1]
		if choices, ok := last["choices"].([]any); !ok || len(choices) != 0 {
			t.Errorf("%s: choices of the usage event are %v, want []", path, last["choices"])
		}
		u, _ := last["usage"].(object)
		p, n := number(u["prompt_tokens"]), number(u["completion_tokens"])
		if n != 20 || p < 1 || number(u["total_tokens"]) != p+n {
			t.Errorf("%s: usage is %v, want 20 completion tokens and their sum with the prompt's", path, u)
		}
		if _, ok := dig(u, "prompt_tokens_details", "cached_tokens").(float64); ok == s.NoDetails {
			t.Errorf("%s: usage is %v; cached_tokens there: %v", path, u, ok)
		}
	}
}

func (s *suite) continuousUsage(t *testing.T) {
	if s.StandIn {
		t.Skip("the stand-in refuses it")
	}
	events := s.events(t, "/v1/chat/completions", chat("Count.", object{
		"max_tokens": 6, "ignore_eos": true,
		"stream_options": object{"include_usage": true, "continuous_usage_stats": true},
	}))
	last := 0
	for i, e := range events {
		u, ok := e["usage"].(object)
		if !ok {
			t.Fatalf("event %d has no usage: %v", i, e)
		}
		n := number(u["completion_tokens"])
		if n < last {
			t.Errorf("event %d: completion_tokens fall from %d to %d", i, last, n)
		}
		last = n
		if i < len(events)-1 && u["prompt_tokens_details"] != nil {
			t.Errorf("event %d has prompt_tokens_details, which come last only: %v", i, u)
		}
	}
	if last != 6 {
		t.Errorf("%d completion tokens at the end, want 6", last)
	}
}

// tokenIDs: with return_token_ids a stream carries the prompt's ids once and each output id once.
func (s *suite) tokenIDs(t *testing.T) {
	more := object{"max_tokens": 12, "ignore_eos": true, "return_token_ids": true,
		"stream_options": object{"include_usage": true}}
	events := s.events(t, "/v1/chat/completions", chat("Which way?", more))
	c := collect(events, 0)
	if len(c.ids) != 12 || len(c.ids) != number(c.usage["completion_tokens"]) {
		t.Errorf("%d ids for %v completion tokens", len(c.ids), c.usage["completion_tokens"])
	}
	prompt := ids(events[0]["prompt_token_ids"])
	if len(prompt) != number(c.usage["prompt_tokens"]) {
		t.Errorf("%d prompt ids for %v prompt tokens", len(prompt), c.usage["prompt_tokens"])
	}
	for _, e := range events[1:] {
		if e["prompt_token_ids"] != nil {
			t.Errorf("prompt ids again: %v", e)
		}
	}
	body := object{"prompt": "Which way?", "max_tokens": 12, "ignore_eos": true, "return_token_ids": true}
	events = s.events(t, "/v1/completions", body)
	if got := ids(dig(events[0], "choices", 0, "prompt_token_ids")); len(got) == 0 {
		t.Errorf("completion: no prompt ids in the first event: %v", events[0])
	}
	if got := collect(events, 0).ids; len(got) != 12 {
		t.Errorf("completion: %d ids, want 12", len(got))
	}
	body["prompt"] = prompt
	got := s.ask(t, "/v1/completions", body)
	if fmt.Sprint(ids(dig(got, "choices", 0, "prompt_token_ids"))) != fmt.Sprint(prompt) {
		t.Errorf("a prompt of ids comes back as others: %v", got)
	}
}

// lateRefusal: some of a request is judged once the stream has begun, and refused by an event that has the
// status in it.
func (s *suite) lateRefusal(t *testing.T) {
	if s.StandIn {
		t.Skip("the stand-in refuses these requests in the head")
	}
	for _, more := range []object{
		{"logit_bias": object{"99999999": 1}}, {"allowed_token_ids": []int{}}, {"stop_token_ids": []int{-1}},
		{"logprobs": true, "top_logprobs": -1},
	} {
		events := s.events(t, "/v1/chat/completions", chat("Hello", more))
		if len(events) != 1 || number(dig(events[0], "error", "code")) != http.StatusBadRequest ||
			text(dig(events[0], "error", "message")) == "" {
			t.Errorf("%v: %v, want one event with an error of code 400", more, events)
		}
	}
}

// tokenize: counts are those that are billed, and detokenize undoes it.
func (s *suite) tokenize(t *testing.T) {
	for _, content := range []string{"Hello there", "  leading spaces\n\n\tand tabs ", "naïve café, 北京, 🙂🙂",
		"a=b; // {\"k\": [1, 22, 333, 4444]}", "I'm sure they've won't"} {
		v := s.ask(t, "/tokenize", object{"prompt": content, "add_special_tokens": false})
		tokens := ids(v["tokens"])
		if number(v["count"]) != len(tokens) || number(v["max_model_len"]) != s.maxLen {
			t.Errorf("/tokenize %q: %v", content, v)
		}
		if back := text(s.ask(t, "/detokenize", object{"tokens": tokens})["prompt"]); back != content {
			t.Errorf("detokenize(tokenize(%q)) = %q", content, back)
		}
		messages := chat(content, nil)
		count := number(s.ask(t, "/tokenize", messages)["count"])
		used := number(dig(s.ask(t, "/v1/chat/completions", chat(content, object{"max_tokens": 1})), "usage",
			"prompt_tokens"))
		if count != used {
			t.Errorf("/tokenize counts %d tokens of %q, the chat %d", count, content, used)
		}
	}
}

// maxTokens: a completion gets 16 tokens, a chat all that are left.
func (s *suite) maxTokens(t *testing.T) {
	v := s.ask(t, "/v1/completions", object{"prompt": "Once", "ignore_eos": true})
	if n := number(dig(v, "usage", "completion_tokens")); n != 16 {
		t.Errorf("completion without max_tokens: %d tokens, want 16", n)
	}
	v = s.ask(t, "/v1/chat/completions",
		chat("Once", object{"ignore_eos": true, "max_tokens": 9, "max_completion_tokens": 5}))
	if n := number(dig(v, "usage", "completion_tokens")); n != 5 {
		t.Errorf("max_completion_tokens 5 beside max_tokens 9: %d tokens, want 5", n)
	}
	if s.maxLen > 16384 {
		t.Skip("max_model_len is too large to fill")
	}
	long := strings.Repeat("word ", s.maxLen)
	empty := number(s.ask(t, "/tokenize", chat("", nil))["count"])
	per := number(s.ask(t, "/tokenize", chat(strings.Repeat("word ", 1000), nil))["count"]) - empty
	words := (s.maxLen - empty - 40) * 1000 / per
	v = s.ask(t, "/v1/chat/completions", chat(long[:5*words], object{"ignore_eos": true}))
	if n := number(dig(v, "usage", "total_tokens")); n != s.maxLen {
		t.Errorf("chat without max_tokens: %d tokens in all, want max_model_len %d", n, s.maxLen)
	}
	if got := text(dig(v, "choices", 0, "finish_reason")); got != "length" {
		t.Errorf("finish_reason = %q, want length", got)
	}
	code, v := s.try(t, "/v1/chat/completions",
		chat(strings.Repeat("word word ", s.maxLen), object{"max_tokens": 1}))
	if code != 400 || text(dig(v, "error", "param")) == "" {
		t.Errorf("a prompt that is too long: %d %v, want 400 and the parameter named", code, v)
	}
}

// stopStrings: the text ends before the stop string, streamed or not, and says which.
func (s *suite) stopStrings(t *testing.T) {
	fixed := object{"max_tokens": 60, "seed": 7, "ignore_eos": true}
	whole := text(dig(s.ask(t, "/v1/chat/completions", chat("Go on.", fixed)), "choices", 0, "message",
		"content"))
	stop := ""
	for i := len(whole) / 2; i+3 < len(whole); i++ { // three plain characters from the middle
		if c := whole[i : i+3]; strings.Trim(c, "abcdefghijklmnopqrstuvwxyz ") == "" {
			stop = c
			break
		}
	}
	if stop == "" {
		t.Fatalf("no three letters in a row in %q", whole)
	}
	want := whole[:strings.Index(whole, stop)]
	fixed["stop"] = []string{"\x01never", stop}
	fixed["stream_options"] = object{"include_usage": true}
	c := collect(s.events(t, "/v1/chat/completions", chat("Go on.", fixed)), 0)
	if c.text != want || c.reason != "stop" || c.stop != stop {
		t.Errorf("streamed with stop %q: %q, %s, %v; want %q, stop", stop, c.text, c.reason, c.stop, want)
	}
	delete(fixed, "stream_options")
	v := dig(s.ask(t, "/v1/chat/completions", chat("Go on.", fixed)), "choices", 0)
	if got := text(dig(v, "message", "content")); got != want || dig(v, "stop_reason") != stop {
		t.Errorf("with stop %q: %q, %v; want %q", stop, got, dig(v, "stop_reason"), want)
	}
	fixed["include_stop_str_in_output"] = true
	v = dig(s.ask(t, "/v1/chat/completions", chat("Go on.", fixed)), "choices", 0)
	if got := text(dig(v, "message", "content")); got != want+stop {
		t.Errorf("with stop %q in the output: %q, want %q", stop, got, want+stop)
	}
}

// stopTokens: the token is counted and given as an id, not as text.
func (s *suite) stopTokens(t *testing.T) {
	fixed := object{"max_tokens": 30, "seed": 7, "ignore_eos": true, "return_token_ids": true}
	all := ids(dig(s.ask(t, "/v1/chat/completions", chat("Go on.", fixed)), "choices", 0, "token_ids"))
	if len(all) != 30 {
		t.Fatalf("%d ids, want 30", len(all))
	}
	at := 0
	for all[at] != all[15] {
		at++
	}
	fixed["stop_token_ids"] = []int{all[15]}
	v := s.ask(t, "/v1/chat/completions", chat("Go on.", fixed))
	choice := dig(v, "choices", 0)
	if got := ids(dig(choice, "token_ids")); len(got) != at+1 ||
		number(dig(v, "usage", "completion_tokens")) != at+1 {
		t.Errorf("ids %v, want the first %d of %v", got, at+1, all)
	}
	if text(dig(choice, "finish_reason")) != "stop" || number(dig(choice, "stop_reason")) != all[15] {
		t.Errorf("%v: want finish_reason stop, stop_reason %d", choice, all[15])
	}
	text15 := text(s.ask(t, "/detokenize", object{"tokens": all[:at]})["prompt"])
	if got := text(dig(choice, "message", "content")); got != text15 {
		t.Errorf("text is %q, want that of the tokens before: %q", got, text15)
	}
}

// choices: n and several prompts, whole and streamed; usage is the sum.
func (s *suite) choices(t *testing.T) {
	if s.StandIn {
		t.Skip("the stand-in refuses them")
	}
	body := object{"prompt": []string{"One", "Two two two"}, "n": 2, "max_tokens": 5, "ignore_eos": true}
	v := s.ask(t, "/v1/completions", body)
	list, _ := v["choices"].([]any)
	prompt := 0
	for _, p := range []string{"One", "Two two two"} {
		prompt += number(s.ask(t, "/tokenize", object{"prompt": p})["count"])
	}
	if len(list) != 4 || number(dig(v, "usage", "completion_tokens")) != 20 ||
		number(dig(v, "usage", "prompt_tokens")) != prompt {
		t.Errorf("two prompts, n = 2: %d choices, usage %v; want 4, 20 and %d", len(list), v["usage"], prompt)
	}
	for i, c := range list {
		if number(dig(c, "index")) != i {
			t.Errorf("choice %d has index %v", i, dig(c, "index"))
		}
	}
	more := object{"n": 3, "max_tokens": 5, "ignore_eos": true, "return_token_ids": true,
		"stream_options": object{"include_usage": true}}
	events := s.events(t, "/v1/chat/completions", chat("One", more))
	for i := range 3 {
		c := collect(events, i)
		if c.reason != "length" || len(c.ids) != 5 {
			t.Errorf("choice %d of a stream: %s, %d ids; want length, 5", i, c.reason, len(c.ids))
		}
	}
	if u := collect(events, 0).usage; number(u["completion_tokens"]) != 15 {
		t.Errorf("usage %v, want 15 completion tokens", u)
	}
}

// continuation: an answer that broke off goes on with the same tokens when those that came are sent as the
// prompt's end.
func (s *suite) continuation(t *testing.T) {
	const most = 40
	greedy := object{"max_tokens": most, "ignore_eos": true, "temperature": 0, "return_token_ids": true}
	v := s.ask(t, "/v1/chat/completions", chat("What comes next?", greedy))
	prompt, all := ids(v["prompt_token_ids"]), ids(dig(v, "choices", 0, "token_ids"))
	for _, k := range []int{1, most / 2, most - 1} {
		v := s.ask(t, "/v1/completions", object{
			"prompt": append(prompt[:len(prompt):len(prompt)], all[:k]...), "max_tokens": most - k,
			"ignore_eos": true, "temperature": 0, "return_token_ids": true,
		})
		if got := ids(dig(v, "choices", 0, "token_ids")); !slices.Equal(got, all[k:]) {
			t.Errorf("after %d tokens it goes on with %v, want %v", k, got, all[k:])
		}
		if got := number(dig(v, "usage", "prompt_tokens")); got != len(prompt)+k {
			t.Errorf("after %d tokens of a prompt of %d: prompt_tokens is %d", k, len(prompt), got)
		}
	}
}

// requestIDs: the header is best, then the body, then one of the server's own.
func (s *suite) requestIDs(t *testing.T) {
	for _, c := range []struct{ header, body, want string }{
		{"souk-1", "", "chatcmpl-souk-1"}, {"", "souk-2", "chatcmpl-souk-2"},
		{"souk-3", "souk-4", "chatcmpl-souk-3"},
	} {
		body := s.named(chat("Hi", object{"max_tokens": 1}))
		if c.body != "" {
			body["request_id"] = c.body
		}
		q := s.request(t.Context(), t, "POST", "/v1/chat/completions", body)
		if c.header != "" {
			q.Header.Set("X-Request-Id", c.header)
		}
		_, b := s.do(t, q)
		if !strings.HasPrefix(string(b), `{"id":"`+c.want+`"`) {
			t.Errorf("header %q, body %q: %.60s, want id %s", c.header, c.body, b, c.want)
		}
	}
	a, b := s.ask(t, "/v1/chat/completions", chat("Hi", object{"max_tokens": 1})),
		s.ask(t, "/v1/chat/completions", chat("Hi", object{"max_tokens": 1}))
	if a["id"] == b["id"] {
		t.Errorf("two requests have the id %v", a["id"])
	}
}

func (s *suite) apiKey(t *testing.T) {
	if s.APIKey == "" {
		t.Skip("the server has no key")
	}
	for path, want := range map[string]int{"/v1/models": 401, "/health": 200, "/version": 200,
		"/metrics": 200} {
		q := s.request(t.Context(), t, "GET", path, nil)
		q.Header.Del("Authorization")
		r, b := s.do(t, q)
		if r.StatusCode != want {
			t.Errorf("GET %s without key: %d, want %d", path, r.StatusCode, want)
		}
		if want == http.StatusUnauthorized && string(b) != `{"error":"Unauthorized"}` {
			t.Errorf("GET %s without key: %s", path, b)
		}
	}
}
