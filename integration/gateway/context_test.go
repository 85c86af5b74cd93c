package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// How many tokens a prompt has is estimated by its bytes. Where that is more than the context and the truth
// is not, the engine serves it; where the truth is, too, the engine refuses it; and what surely does not fit
// is refused before anybody is asked.
func TestAnEstimateRefusesNoPromptThatFits(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	h := start(t, strings.Replace(strings.Replace(pooling, "max_body: 524288", "max_body: 8388608", 1),
		"profile: instant}", "profile: steady}", 1))
	*h.canaries = append(*h.canaries, "information information")
	const word = " information" // one token of twelve bytes
	for _, x := range []struct {
		name, route, body string
		status            int
		want              string
	}{
		{"a prompt that fits", "/v1/chat/completions", fmt.Sprintf(
			`{"max_tokens":3,"messages":[{"role":"user","content":"%s"}]}`, strings.Repeat(word, 4000)),
			http.StatusOK, `"completion_tokens":3`},
		{"an answer for which less room is left", "/v1/chat/completions", fmt.Sprintf(
			`{"max_tokens":900,"ignore_eos":true,"messages":[{"role":"user","content":"%s"}]}`,
			strings.Repeat(word, 8100)), http.StatusOK, `"finish_reason":"length"`},
		{"a prompt that does not", "/v1/chat/completions", fmt.Sprintf(
			`{"messages":[{"role":"user","content":"%s"}]}`, strings.Repeat(word, 9000)),
			http.StatusBadRequest, `"context_length_exceeded"`},
		{"one that surely does not", "/v1/chat/completions", fmt.Sprintf(
			`{"messages":[{"role":"user","content":"%s"}]}`, strings.Repeat(word, 30_000)),
			http.StatusBadRequest, `is longer than any agent's context`},
		{"a text of 3 MB to embed", "/v1/embeddings",
			`{"input":"` + strings.Repeat("abc ", 750_000) + `"}`,
			http.StatusBadRequest, `"context_length_exceeded"`},
		{"one of several", "/v1/embeddings",
			`{"input":["a","b","` + strings.Repeat("abc ", 100_000) + `","c"]}`,
			http.StatusBadRequest, `"context_length_exceeded"`},
	} {
		r := h.do("POST", x.route, x.body, h.key)
		if r.status != x.status || !strings.Contains(r.body, x.want) {
			t.Errorf("%s: %d %.300s", x.name, r.status, r.body)
		}
	}
}
