package gateway_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"souk/bus"
)

// message is an answer of /v1/messages, or an event of one, or its refusal.
type message struct {
	ID, Type, Role, Model string
	Content               []struct{ Type, Text string }
	StopReason            string `json:"stop_reason"`
	Usage                 map[string]any
	Souk                  map[string]any
	Delta                 struct {
		Text       string
		StopReason string `json:"stop_reason"`
	}
	Error *struct {
		Type, Message string
		Souk          map[string]any
	}
	Request string `json:"request_id"`
}

func (r reply) message(t testing.TB) (m message) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.body), &m); err != nil {
		t.Fatalf("%d %s: %v", r.status, r.body, err)
	}
	return m
}

func TestMessages(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	h := start(t, one)
	const ask = `{"model":"auto","max_tokens":20,"temperature":0,"messages":[{"role":"user","content":"What is a souk?"}]%s}`
	own := []string{"X-Api-Key", h.key, "Anthropic-Version", "2023-06-01", "Anthropic-Beta", "x"}
	r := h.do("POST", "/v1/messages", fmt.Sprintf(ask, ""), "", own...)
	m := r.message(t)
	if r.status != 200 || m.Type != "message" || m.Role != "assistant" || len(m.Content) != 1 ||
		m.Content[0].Text == "" || m.StopReason != "max_tokens" || m.Usage["output_tokens"] != 20.0 ||
		m.Model != "gpt-oss-20b" || m.Souk["receipt"] == nil ||
		r.header.Get("X-Souk-Receipt") != m.Souk["receipt"] {
		t.Fatalf("%d %s", r.status, r.body)
	}
	// the market is asked what a chat asks, and is paid as much
	c := h.do("POST", "/v1/chat/completions", chat(`,"temperature":0`), h.key).object(t)
	in := m.Usage["input_tokens"].(float64) + m.Usage["cache_read_input_tokens"].(float64)
	if c.Choices[0].Message.Content != m.Content[0].Text || c.Usage["prompt_tokens"] != in {
		t.Errorf("as a chat it is answered %+v, as a message %s", c, r.body)
	}

	stream := h.do("POST", "/v1/messages", fmt.Sprintf(ask, `,"stream":true`), h.key)
	text, kinds, last := "", "", message{}
	for line := range strings.Lines(stream.body) {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			e := reply{body: data}.message(t)
			text += e.Delta.Text
			if !strings.HasSuffix(kinds, e.Type+" ") {
				kinds += e.Type + " "
			}
			if e.Type == "message_delta" {
				last = e
			}
		}
	}
	if text != m.Content[0].Text || last.Delta.StopReason != "max_tokens" ||
		last.Usage["output_tokens"] != 20.0 || last.Souk["paid"] == nil || kinds != "message_start content_block_start content_block_delta content_block_stop "+
		"message_delta message_stop " || stream.header.Get("X-Souk-Task") != last.Souk["task"] {
		t.Errorf("%s: %s", kinds, stream.body)
	}

	// once and again, and not as the chat that asks the same
	once := func(more string) reply {
		return h.do("POST", "/v1/messages", fmt.Sprintf(ask, more), h.key, "Idempotency-Key", "k")
	}
	if a, b := once(""), once(""); a.status != 200 || a.body != b.body {
		t.Errorf("%s\nand again %s", a.body, b.body)
	}
	r = once(`,"metadata":{"user_id":"u"}`)
	if r.status != http.StatusUnprocessableEntity || r.message(t).Error == nil {
		t.Errorf("with a member beside: %d %s", r.status, r.body)
	}
	again := h.do("POST", "/v1/messages", fmt.Sprintf(ask, `,"stream":true`), h.key, "Idempotency-Key", "s")
	if n := strings.Count(again.body, "id: "); n < 6 || strings.Count(again.body, "event: ") != n {
		t.Errorf("a stream that is kept has %d ids: %s", n, again.body)
	}

	count := h.do("POST", "/v1/messages/count_tokens", fmt.Sprintf(ask, ""), "", own...)
	var n struct {
		Tokens int `json:"input_tokens"`
	}
	if json.Unmarshal([]byte(count.body), &n) != nil || count.status != 200 || n.Tokens < 4 || n.Tokens > 20 {
		t.Errorf("%d %s", count.status, count.body)
	}
}

// What is refused is said in Anthropic's form, and whether it may come again as their clients read it.
func TestMessagesAreRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	h := start(t, one)
	poor := h.newKey(bus.APIKey{ID: "poor", Client: "poor"})
	slow := h.newKey(bus.APIKey{ID: "slow", Client: "other", Rate: 0.01})
	const ask = `{"model":"auto","max_tokens":20,"messages":[{"role":"user","content":"What is a souk?"}]}`
	long := strings.Replace(ask, "What", strings.Repeat("x ", 200<<10), 1)
	if r := h.do("POST", "/v1/messages/count_tokens", ask, slow); r.status != 200 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	for _, c := range []struct {
		path, body, key string
		status          int
		kind, says      string
	}{
		{"", ask, "", 401, "authentication_error", "no key"},
		{"", ask, "sk-ant-api03-x", 401, "authentication_error", "sk-souk-"},
		{"", ask, poor, 402, "billing_error", ""},
		{"", strings.Replace(ask, "auto", "claude-x", 1), h.key, 404, "not_found_error", ""},
		{"", long, h.key, 400, "invalid_request_error", "prompt is too long: "},
		{"", large(600<<10, ""), h.key, 413, "request_too_large", ""},
		{"", strings.Replace(ask, `"max_tokens"`, `"max_completion_tokens"`, 1), h.key, 400,
			"invalid_request_error", "send max_tokens"},
		{"/count_tokens", `{"messages":[]}`, h.key, 400, "invalid_request_error", "messages: "},
		{"/count_tokens", ask, slow, 429, "rate_limit_error", ""},
		{"", ask, slow, 429, "rate_limit_error", ""},
		{"/batches", "{}", h.key, 404, "not_found_error", "/v1/messages/batches is not served here"},
	} {
		streamed := strings.Replace(c.body, `"model"`, `"stream":true,"model"`, 1)
		for _, body := range []string{c.body, streamed} {
			r := h.do("POST", "/v1/messages"+c.path, body, "", "X-Api-Key", c.key)
			m := r.message(t)
			if r.status != c.status || m.Type != "error" || m.Error == nil || m.Error.Type != c.kind ||
				!strings.Contains(m.Error.Message, c.says) || m.Error.Souk["code"] == nil ||
				m.Request == "" || m.Request != r.header.Get("Request-Id") {
				t.Errorf("%s %.60q: %d %s", c.path, body, r.status, r.body)
			}
			again, never := r.header.Get("Retry-After") != "", r.header.Get("X-Should-Retry") == "false"
			if again != (r.status == 429) || again == never {
				t.Errorf("%s %.60q: %v", c.path, body, r.header)
			}
		}
	}
	for _, path := range []string{"/v1/messages", "/v1/chat/completions"} {
		if r := h.do("POST", path, ask, h.key, "X-Api-Key", slow); r.status != 401 ||
			!strings.Contains(r.body, "different keys") {
			t.Errorf("%s of two keys: %d %s", path, r.status, r.body)
		}
		if r := h.do("POST", path, ask, h.key, "X-Api-Key", h.key); r.status != 200 {
			t.Errorf("%s of one key in two headers: %d %s", path, r.status, r.body)
		}
	}
}
