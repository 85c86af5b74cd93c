package gateway_test

import (
	"strings"
	"testing"
)

// A key says that a session has ended, under the name by which its requests called it: twice is once, and
// nothing is paid. A body says it with the last turn.
func TestASessionEndsOverHTTP(t *testing.T) {
	h := start(t, one)
	balance := h.do("GET", "/v1/balance", "", h.key).body
	for _, c := range []struct{ session, named string }{
		{"s-1", "s-1"}, {"s-1", "s-1"}, {"nobody-knows-it", "nobody-knows-it"},
		{"a%20b", "c8687a08aa5d6ed2044328fa6a697ab8"}, // as prompt_cache_key "a b" is called
	} {
		r := h.do("POST", "/v1/sessions/"+c.session+"/end", "", h.key)
		if r.status != 200 ||
			r.body != `{"object":"session","session":"`+c.named+`","ended":true,"hubs":1}` {
			t.Errorf("%s: %d %s", c.session, r.status, r.body)
		}
	}
	if got := h.do("GET", "/v1/balance", "", h.key).body; got != balance {
		t.Errorf("balance %s, before %s", got, balance)
	}
	if r := h.do("POST", "/v1/sessions/s-1/end", "", "sk-souk-no"); r.status != 401 {
		t.Errorf("without a key: %d %s", r.status, r.body)
	}
	if r := h.do("GET", "/v1/sessions/s-1/end", "", h.key); r.status == 200 {
		t.Errorf("GET: %d %s", r.status, r.body)
	}
	chat := func(souk string) string {
		return `{"max_tokens":8,"messages":[{"role":"user","content":"What is a souk?"}],"souk":{` + souk + `}}`
	}
	if r := h.do("POST", "/v1/chat/completions", chat(`"session":"s-1","session_end":true`), h.key); r.status != 200 {
		t.Errorf("the last turn: %d %s", r.status, r.body)
	}
	r := h.do("POST", "/v1/chat/completions", chat(`"session":"s-1","session_end":"yes"`), h.key)
	if r.status != 400 || !strings.Contains(r.body, "session_end: true or false is expected") {
		t.Errorf("neither true nor false: %d %s", r.status, r.body)
	}
}
