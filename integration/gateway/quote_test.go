package gateway_test

import (
	"encoding/json"
	"strings"
	"testing"

	"souk/bus"
)

type quoted struct {
	Estimate bool
	Client   string
	Domain   string
	Hubs     []struct {
		Hub     string
		ValidMS int64 `json:"valid_ms"`
		Models  []struct {
			Model    string
			TTFTMS   float64 `json:"ttft_ms"`
			Cost     json.Number
			WouldWin bool `json:"would_win"`
		}
	}
}

// quote asks for one until its hub has said something in time: a door waits for 100 ms, and a machine may be
// busy with others.
func (h *house) quote(body, key string) (r reply) {
	h.t.Helper()
	h.until("a hub is heard in time", func() bool {
		r = h.do("POST", "/v1/quote", body, key)
		return !strings.Contains(r.body, "nothing was heard of it within")
	})
	return r
}

// A key asks what a chat or a completion would be given: nothing is paid, no hub has a task, and it needs no
// money.
func TestAQuoteOverHTTP(t *testing.T) {
	h := start(t, one)
	balance := h.do("GET", "/v1/balance", "", h.key).body
	poor := h.newKey(bus.APIKey{ID: "poor1", Client: "poor"})
	stranger := h.newKey(bus.APIKey{ID: "nobody1", Client: "nobody"})
	for _, c := range []struct{ key, client, body string }{
		{h.key, "dev", `{"model":"auto","messages":[{"role":"user","content":"What is a souk?"}],"stream":true}`},
		{h.key, "dev", `{"model":"gpt-oss-20b","prompt":"A souk is"}`},
		{poor, "poor", `{"messages":[{"role":"user","content":"hello"}],"souk":{"terms":{"worth":0.01}}}`},
		{stranger, "nobody", `{"messages":[{"role":"user","content":"hello"}]}`},
	} {
		r := h.quote(c.body, c.key)
		var q quoted
		if err := json.Unmarshal([]byte(r.body), &q); err != nil || r.status != 200 || !q.Estimate ||
			q.Client != c.client || len(q.Hubs) != 1 || q.Hubs[0].ValidMS <= 0 || len(q.Hubs[0].Models) != 1 {
			t.Fatalf("%v: %d %s", err, r.status, r.body)
		}
		m := q.Hubs[0].Models[0]
		cost, err := m.Cost.Float64()
		if m.Model != "gpt-oss-20b" || m.TTFTMS <= 0 || err != nil || cost <= 0 || !m.WouldWin {
			t.Errorf("%s: %+v", c.body, m)
		}
	}
	none := h.quote(`{"messages":[{"role":"user","content":"hello"}],"souk":{"terms":`+
		`{"worth":0.000000002}}}`, h.key)
	if none.status != 200 || !strings.Contains(none.body, `"would_win":false`) {
		t.Errorf("on terms that buy nothing: %d %s", none.status, none.body)
	}
	if got := h.do("GET", "/v1/balance", "", h.key).body; got != balance {
		t.Errorf("balance %s, before the quotes %s", got, balance)
	}
}

// What a quote cannot be of has the status and the code that a request for the answer would have.
func TestAQuoteOverHTTPIsRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	t.Parallel()
	h := start(t, one)
	tied := h.newKey(bus.APIKey{ID: "tied1", Client: "dev", Models: []string{"other"}})
	slow := h.newKey(bus.APIKey{ID: "slow1", Client: "dev", Rate: 0.01})
	hello := `{"messages":[{"role":"user","content":"hello"}]}`
	if r := h.do("POST", "/v1/quote", hello, slow); r.status != 200 && r.status != 503 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	for _, c := range []struct {
		name, key, body string
		status          int
		code            string
	}{
		{"no key", "", hello, 401, "invalid_api_key"},
		{"a key of another model", tied, hello, 404, "model_not_found"},
		{"a key that has asked", slow, hello, 429, "rate_limit_exceeded"},
		{"no JSON", h.key, `{"messages":`, 400, "bad_request"},
		{"nothing", h.key, ``, 400, "bad_request"},
		{"no model", h.key, strings.Replace(hello, "{", `{"model":"gpt-9",`, 1), 404, "model_not_found"},
		{"two answers", h.key, strings.Replace(hello, "{", `{"n":2,`, 1), 400, "unsupported_field"},
		{"two prompts", h.key, `{"prompt":["a","b"]}`, 400, "unsupported_field"},
		{"another kind", h.key, strings.Replace(hello, "{", `{"souk":{"kind":"completion"},`, 1), 400, "bad_request"},
		{"terms", h.key, strings.Replace(hello, "{", `{"souk":{"terms":{"delta":0}},`, 1), 400, "bad_terms"},
		{"too late", h.key, strings.Replace(hello, "{", `{"souk":{"deadline_ms":1},`, 1), 422,
			"past_deadline"},
		{"too long", h.key, strings.Replace(hello, "hello", strings.Repeat("word and more ", 36_000), 1), 400,
			"context_length_exceeded"},
		{"too large", h.key, strings.Repeat(" ", bus.MaxBody+1), 413, "too_large"},
	} {
		r := h.quote(c.body, c.key)
		if got := r.object(t).Error.Code; r.status != c.status || got != c.code {
			t.Errorf("%s: %d %q, want %d %q: %.200s", c.name, r.status, got, c.status, c.code, r.body)
		}
	}
	if r := h.do("GET", "/v1/quote", "", h.key); r.status != 404 && r.status != 405 {
		t.Errorf("GET: %d %s", r.status, r.body)
	}
}
