package conformance

import (
	"bufio"
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"souk/bus/bustest"
)

// vocabulary are some token ids that the server has, each once: those of a text.
func (s *suite) vocabulary(t *testing.T) (out []int) {
	t.Helper()
	const text = "The quick brown fox jumps over the lazy dog while 47 wizards (all named Beatrix!) " +
		"quietly examine a jukebox; why? Nobody knows."
	for _, id := range ids(s.ask(t, "/tokenize",
		object{"prompt": text, "add_special_tokens": false})["tokens"]) {
		if !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	if len(out) < 10 {
		t.Fatalf("only %d different tokens in %q", len(out), text)
	}
	return out
}

// cached asks for one token after a prompt, and returns how much of it was in the cache.
func (s *suite) cached(t *testing.T, salt string, prompt []int) int {
	t.Helper()
	v := s.ask(t, "/v1/completions", object{"prompt": prompt, "max_tokens": 1, "cache_salt": salt})
	return number(dig(v, "usage", "prompt_tokens_details", "cached_tokens"))
}

// prefixCache: full blocks, from the start, at most all but the last token; output blocks too; a salt keeps
// apart.
func (s *suite) prefixCache(t *testing.T) {
	if s.NoDetails {
		t.Skip("the server does not report cached_tokens")
	}
	b, salt, words := s.block, fresh(t), s.vocabulary(t)
	prompt := func(start, n int) []int {
		out := make([]int, n)
		for i := range out {
			out[i] = words[(start+i*i+i)%len(words)]
		}
		return out
	}
	p := prompt(1, 4*b)
	want := func(what string, got, want int) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %d tokens cached, want %d (block size %d)", what, got, want, b)
		}
	}
	want("cold", s.cached(t, salt, p), 0)
	want("all full blocks but the last token's", s.cached(t, salt, p), 3*b)
	want("one token more", s.cached(t, salt, append(prompt(1, 4*b), words[0])), 4*b)
	want("another salt", s.cached(t, salt+"-other", p), 0)
	other := prompt(1, 4*b)
	other[0] = another(words, other[0])
	want("the first token differs", s.cached(t, salt, other), 0)
	other = prompt(1, 4*b)
	other[b+b/2] = another(words, other[b+b/2])
	want("the second block differs", s.cached(t, salt, other), b)
	want("less than a block", s.cached(t, salt, prompt(1, b-1)), 0)

	first := prompt(2, b+1)
	v := s.ask(t, "/v1/completions",
		object{"prompt": first, "max_tokens": 2 * b, "ignore_eos": true, "return_token_ids": true,
			"cache_salt": salt})
	out := ids(dig(v, "choices", 0, "token_ids"))
	if len(out) != 2*b {
		t.Fatalf("%d output tokens, want %d", len(out), 2*b)
	}
	want("the output of an earlier request", s.cached(t, salt, append(append(first, out...), words[0])), 3*b)
}

// another is some token but not.
func another(words []int, not int) int {
	if words[0] != not {
		return words[0]
	}
	return words[1]
}

// running reads the gauge.
func (s *suite) running(t *testing.T) int {
	t.Helper()
	return int(s.scrape(t).value(t, "vllm:num_requests_running"))
}

// open starts a long stream and returns once its first token has come.
func (s *suite) open(ctx context.Context, t *testing.T) *http.Response {
	t.Helper()
	body := s.named(chat("Go on and on.",
		object{"max_tokens": s.maxLen / 2, "ignore_eos": true, "stream": true}))
	r, err := s.client.Do(s.request(ctx, t, "POST", "/v1/chat/completions", body))
	if err != nil {
		t.Fatal(err)
	}
	if r.StatusCode != 200 {
		t.Fatalf("long stream: %s", r.Status)
	}
	if _, err := bufio.NewReader(r.Body).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	return r
}

// leave: closing the connection frees the slot at once, and the engine stops computing.
func (s *suite) leave(t *testing.T) {
	bustest.Eventually(t, "the server is idle before the test", func() bool { return s.running(t) == 0 })
	before := s.scrape(t)
	ctx, hangUp := context.WithCancel(t.Context())
	r := s.open(ctx, t)
	defer r.Body.Close()
	bustest.Eventually(t, "the stream shows as running", func() bool { return s.running(t) == 1 })
	hangUp()
	bustest.Eventually(t, "the slot is free", func() bool { return s.running(t) == 0 })
	after := s.scrape(t)
	made := after.value(t, "vllm:generation_tokens_total") - before.value(t, "vllm:generation_tokens_total")
	if made < 1 || made >= float64(s.maxLen/2) {
		t.Errorf("%v tokens were made, want at least 1 and fewer than were asked for", made)
	}
	for _, reason := range []string{"stop", "length", "abort"} {
		name := `vllm:request_success_total finished_reason=` + reason
		if d := after.value(t, name) - before.value(t, name); d != 0 {
			t.Errorf("%s grew by %v: a request that was left is no success", name, d)
		}
	}
	if after.value(t, "vllm:kv_cache_usage_perc") != 0 {
		t.Error("kv_cache_usage_perc is not 0 on an idle server")
	}
}

// queueFull: beyond the limit a request gets 503, as plain JSON also when it wanted a stream, without
// Retry-After.
func (s *suite) queueFull(t *testing.T) {
	if s.QueueLimit == 0 {
		t.Skip("the server has no limit that we know of")
	}
	ctx, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	for range s.QueueLimit {
		defer s.open(ctx, t).Body.Close()
	}
	for _, stream := range []bool{false, true} {
		r, b := s.do(t, s.request(t.Context(), t, "POST", "/v1/chat/completions",
			s.named(chat("x", object{"max_tokens": 1, "stream": stream}))))
		const body = `{"error":{"message":"The engine is currently busy and cannot accept new requests. Please try again later or on a different instance.","type":"Service Unavailable","param":null,"code":503}}`
		if r.StatusCode != 503 || string(b) != body || r.Header.Get("Retry-After") != "" {
			t.Errorf("stream %v: %s %s", stream, r.Status, b)
		}
	}
	hangUp()
	bustest.Eventually(t, "there is room again", func() bool { return s.running(t) == 0 })
	s.ask(t, "/v1/chat/completions", chat("x", object{"max_tokens": 1}))
}

// metrics: every name, label and bucket edge of the recorded page is there, and one request moves what it
// must.
func (s *suite) metrics(t *testing.T) {
	want := parseMetrics(t, string(recorded(t, "metrics.prom")))
	got := s.scrape(t)
	for _, name := range want.names {
		if known, ok := missingMetric(name); ok && s.StandIn {
			if got.has(name) {
				t.Errorf("%s is there, but the table of differences says: %s", name, known.StandIn)
			}
			continue
		}
		if strings.HasPrefix(name, "vllm:tool_call_parser_") {
			continue // only with the flags for tools
		}
		if strings.HasPrefix(name, "vllm:") && !got.has(name) {
			t.Errorf("%s is missing", name)
		}
	}
	before := s.scrape(t)
	s.ask(t, "/v1/chat/completions", chat("How many?", object{"max_tokens": 7, "ignore_eos": true}))
	var after metricsPage
	bustest.Eventually(t, "the request is counted", func() bool {
		after = s.scrape(t)
		return after.value(t, "vllm:request_success_total finished_reason=length") > before.value(t,
			"vllm:request_success_total finished_reason=length")
	})
	grew := func(name string) float64 { return after.value(t, name) - before.value(t, name) }
	tokens := number(s.ask(t, "/tokenize", chat("How many?", nil))["count"])
	for name, want := range map[string]float64{
		"vllm:generation_tokens_total":           7,
		"vllm:prompt_tokens_total":               float64(tokens),
		"vllm:prefix_cache_queries_total":        float64(tokens),
		"vllm:time_to_first_token_seconds_count": 1,
		"vllm:inter_token_latency_seconds_count": 6,
		"vllm:e2e_request_latency_seconds_count": 1,
		"vllm:request_generation_tokens_sum":     7,
		"vllm:request_prompt_tokens_count":       1,
		"vllm:request_params_max_tokens_sum":     7,
		"vllm:num_preemptions_total":             0,
		"vllm:request_decode_time_seconds_count": 1,
	} {
		if _, lacks := missingMetric(name); lacks && s.StandIn {
			continue
		}
		if got := grew(name); got != want {
			t.Errorf("%s grew by %v, want %v", name, got, want)
		}
	}
	if !s.StandIn { // which has neither
		name, by := "vllm:request_prefill_kv_computed_tokens_sum", "vllm:prompt_tokens_by_source_total source=local_compute"
		if got, want := grew(name), grew(by); got != want {
			t.Errorf("%s grew by %v, want %v", name, got, want)
		}
	}
}
