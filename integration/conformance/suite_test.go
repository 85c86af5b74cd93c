// Package conformance is one suite of tests for anything that speaks vLLM's wire: the stand-in, and a real
// server. What it asks for are the facts that an agent relies on. Known differences are in one table,
// Differences.
//
//	go test ./integration/conformance                                                       the stand-in
//	VLLM_URL=http://127.0.0.1:8001 go test ./integration/conformance -run Real -count=1 -v  a real server
//
// VLLM_API_KEY and VLLM_QUEUE_LIMIT tell of the flags --api-key and --max-num-queued-reqs (not above
// --max-num-seqs: so many streams are opened at once), VLLM_KV_EVENTS and VLLM_KV_REPLAY of the endpoints in
// --kv-events-config, where /kv_event_sources does not. deploy/local starts a real server without a GPU.
package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"souk/agentd/kvevent"
)

// Options say what cannot be found out from the server.
type Options struct {
	StandIn    bool   // expect the stand-in's side of Differences
	APIKey     string // sent with every request, and its absence is tested
	QueueLimit int    // the server runs with --max-num-queued-reqs of this; 0 skips the test
	// the server runs without --enable-prompt-tokens-details: what needs cached_tokens is skipped
	NoDetails bool
	Events    kvevent.Source // where the server publishes; empty: where it says so itself
}

// Run tests the server at baseURL. It makes a few hundred short requests and waits for none longer than a
// minute.
func Run(t *testing.T, baseURL string, o Options) {
	// Who sends on a connection while the server closes it, as it does after 5 s of no use, hears of its end.
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{IdleConnTimeout: time.Second}}
	s := &suite{Options: o, url: strings.TrimRight(baseURL, "/"), client: client}
	s.identify(t)
	t.Logf("%s: model %s, vLLM %s, max_model_len %d, block size %d", s.url, s.model, s.version, s.maxLen,
		s.block)
	t.Run("recordings", s.recordings)
	t.Run("stream", s.stream)
	t.Run("usage in every chunk", s.continuousUsage)
	t.Run("token ids", s.tokenIDs)
	t.Run("refused within a stream", s.lateRefusal)
	t.Run("tokenize", s.tokenize)
	t.Run("defaults of max_tokens", s.maxTokens)
	t.Run("stop strings", s.stopStrings)
	t.Run("stop tokens", s.stopTokens)
	t.Run("choices", s.choices)
	t.Run("continuation", s.continuation)
	t.Run("request ids", s.requestIDs)
	t.Run("prefix cache", s.prefixCache)
	t.Run("kv events", s.kvEvents)
	t.Run("metrics", s.metrics)
	t.Run("a client leaves", s.leave)
	t.Run("queue full", s.queueFull)
	t.Run("api key", s.apiKey)
}

type suite struct {
	Options
	url, model, version string
	maxLen, block       int
	client              *http.Client
}

// object is a decoded JSON object.
type object = map[string]any

// dig follows keys and indices into a decoded JSON value; nil if there is nothing.
func dig(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(object)
			v = m[p]
		case int:
			l, _ := v.([]any)
			if p >= len(l) {
				return nil
			}
			v = l[p]
		}
	}
	return v
}

func number(v any) int {
	f, _ := v.(float64)
	return int(f)
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

// ids reads a list of token ids.
func ids(v any) []int {
	list, _ := v.([]any)
	var out []int
	for _, x := range list {
		out = append(out, number(x))
	}
	return out
}

func (s *suite) request(ctx context.Context, t *testing.T, method, path string, body any) *http.Request {
	t.Helper()
	var r io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		r = bytes.NewReader(b)
	}
	q, err := http.NewRequestWithContext(ctx, method, s.url+path, r)
	if err != nil {
		t.Fatal(err)
	}
	if body != nil {
		q.Header.Set("Content-Type", "application/json")
	}
	if s.APIKey != "" {
		q.Header.Set("Authorization", "Bearer "+s.APIKey)
	}
	return q
}

// do sends a request and reads the whole answer.
func (s *suite) do(t *testing.T, q *http.Request) (*http.Response, []byte) {
	t.Helper()
	r, err := s.client.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", q.Method, q.URL.Path, err)
	}
	return r, b
}

// ask posts a body and decodes an answer that must be a 200.
func (s *suite) ask(t *testing.T, path string, body object) object {
	t.Helper()
	code, v := s.try(t, path, body)
	if code != 200 {
		t.Fatalf("POST %s: %d %v", path, code, v)
	}
	return v
}

func (s *suite) try(t *testing.T, path string, body object) (int, object) {
	t.Helper()
	r, b := s.do(t, s.request(t.Context(), t, "POST", path, s.named(body)))
	var v object
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatalf("POST %s: %d %q: %v", path, r.StatusCode, b, err)
	}
	return r.StatusCode, v
}

// named adds the model.
func (s *suite) named(body object) object {
	out := object{"model": s.model}
	for k, v := range body {
		out[k] = v
	}
	return out
}

// chat is a request with one user message.
func chat(content string, more object) object {
	out := object{"messages": []object{{"role": "user", "content": content}}}
	for k, v := range more {
		out[k] = v
	}
	return out
}

// events reads a stream to its end: the JSON of each event, which must end with [DONE].
func (s *suite) events(t *testing.T, path string, body object) []object {
	t.Helper()
	body = s.named(body)
	body["stream"] = true
	r, b := s.do(t, s.request(t.Context(), t, "POST", path, body))
	if r.StatusCode != 200 {
		t.Fatalf("POST %s: %d %s", path, r.StatusCode, b)
	}
	if got, want := r.Header.Get("Content-Type"), "text/event-stream; charset=utf-8"; got != want {
		t.Errorf("Content-Type = %q, want %q", got, want)
	}
	lines, done := split(b)
	if !done {
		t.Fatalf("the stream does not end with [DONE]: %q", tail(b))
	}
	var out []object
	for _, l := range lines {
		var v object
		if err := json.Unmarshal(l, &v); err != nil {
			t.Fatalf("event %q: %v", l, err)
		}
		out = append(out, v)
	}
	return out
}

// split takes a stream apart: the data of its events, and whether [DONE] was the last.
func split(b []byte) (out [][]byte, done bool) {
	for e := range bytes.SplitSeq(b, []byte("\n\n")) {
		d, ok := bytes.CutPrefix(e, []byte("data: "))
		if !ok {
			continue // comments
		}
		if string(d) == "[DONE]" {
			return out, true
		}
		out = append(out, d)
	}
	return out, false
}

func tail(b []byte) []byte { return b[max(0, len(b)-300):] }

// collected is one choice of a stream: its text, its tokens and the last reason, and the stream's usage.
type collected struct {
	text   string
	ids    []int
	reason string
	stop   any
	usage  object
}

func collect(events []object, index int) (c collected) {
	for _, e := range events {
		if u, ok := e["usage"].(object); ok {
			c.usage = u
		}
		list, _ := e["choices"].([]any)
		for _, ch := range list {
			if number(dig(ch, "index")) != index {
				continue
			}
			c.text += text(dig(ch, "delta", "content")) + text(dig(ch, "text"))
			c.ids = append(c.ids, ids(dig(ch, "token_ids"))...)
			if r := text(dig(ch, "finish_reason")); r != "" {
				c.reason, c.stop = r, dig(ch, "stop_reason")
			}
		}
	}
	return c
}

func (s *suite) identify(t *testing.T) {
	r, b := s.do(t, s.request(t.Context(), t, "GET", "/health", nil))
	if r.StatusCode != 200 || len(b) != 0 {
		t.Errorf("/health: %d %q, want 200 and nothing", r.StatusCode, b)
	}
	_, b = s.do(t, s.request(t.Context(), t, "GET", "/version", nil))
	var v object
	if err := json.Unmarshal(b, &v); err != nil || text(v["version"]) == "" {
		t.Fatalf("/version: %s", b)
	}
	s.version = text(v["version"])
	_, b = s.do(t, s.request(t.Context(), t, "GET", "/v1/models", nil))
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatalf("/v1/models: %v", err)
	}
	s.model, s.maxLen = text(dig(v, "data", 0, "id")), number(dig(v, "data", 0, "max_model_len"))
	if s.model == "" || s.maxLen == 0 {
		t.Fatalf("/v1/models: %s", b)
	}
	n, err := strconv.Atoi(s.scrape(t).label("vllm:cache_config_info", "block_size"))
	if err != nil || n < 1 {
		t.Fatalf("block size in vllm:cache_config_info: %v", err)
	}
	s.block = n
}

// fresh is a salt that nobody used, so that a test finds an empty cache.
func fresh(t *testing.T) string {
	return fmt.Sprintf("%s-%d", strings.ReplaceAll(t.Name(), "/", "."), time.Now().UnixNano())
}
