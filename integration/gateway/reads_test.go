package gateway_test

import (
	"strings"
	"testing"
)

// picture asks about one.
const picture = `{"model":"auto","max_tokens":20,"messages":[{"role":"user","content":[` +
	`{"type":"text","text":"What is a souk?"},{"type":"image_url","image_url":{"url":"https://x.test/y.png"}}]}]}`

// A picture goes to an agent that reads it, also at the hub of another domain; where there is none its client
// is told so, and not to ask again.
func TestWhoReadsPictures(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	t.Parallel()
	const blind = `scores: [{domain: general, score: 0.7}], slots: 8, engine: {profile: steady}`
	eye := strings.Replace(blind, "general", "math", 1)
	two := strings.NewReplacer("math, ", "", "}]\nagents:", "}, {name: math, "+
		"labels: [math]}]\nagents:\n  - {id: eye, model: gpt-oss-20b, price_row: fireworks/gpt-oss-20b, "+eye+"}",
		blind, blind+", agentd: {features: [text]}").Replace(one)
	h := start(t, two)
	r := h.do("POST", "/v1/chat/completions", picture, h.key)
	// the simulated engine is asked, and reads none
	if r.status != 400 || !strings.Contains(r.body, "engine_refused") {
		t.Errorf("with an agent that reads pictures: %d %s", r.status, r.body)
	}
	if r := h.do("POST", "/v1/chat/completions", chat(""), h.key); r.header.Get("X-Souk-Agent") != "only" {
		t.Errorf("a text: %d %v", r.status, r.header)
	}
	h = start(t, strings.Replace(one, blind, blind+", agentd: {features: [text]}", 1))
	for _, path := range []string{"/v1/chat/completions", "/v1/quote"} {
		r := h.do("POST", path, picture, h.key)
		if r.status != 400 || r.object(t).Error.Souk.Code != "unsupported_field" ||
			r.object(t).Error.Param != "messages" || r.header.Get("X-Should-Retry") != "false" {
			t.Errorf("%s, without: %d %s", path, r.status, r.body)
		}
	}
}
