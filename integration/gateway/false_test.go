package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"souk/market"
)

// falseEngine is a server of a model that says five words, and then, where it is asked about lies, what no
// engine says. It goes on until it is left.
func falseEngine(t *testing.T) string {
	m := http.NewServeMux()
	m.HandleFunc("/v1/models", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"data":[{"id":"gpt-oss-20b","max_model_len":32768}]}`)
	})
	m.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "vllm:num_requests_running{model_name=\"gpt-oss-20b\"} 0\n")
	})
	for _, path := range []string{"/health", "/version"} {
		m.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{}`) })
	}
	m.HandleFunc("/v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		for i := 0; r.Context().Err() == nil; i++ {
			delta := fmt.Sprintf(`{"content":"w%d "}`, i)
			if i == 5 && strings.Contains(string(body), "lie") {
				delta = `{"spoken":"by no engine"}`
			}
			fmt.Fprintf(w, `data: {"choices":[{"index":0,"token_ids":[%d],"delta":%s}]}`+"\n\n", i, delta)
			w.(http.Flusher).Flush()
			<-time.After(5 * time.Millisecond)
		}
	})
	s := httptest.NewServer(m)
	t.Cleanup(s.Close)
	return s.URL
}

// sold is a market with one hub and one agent, whose engine is there already.
func sold(engine string) string {
	return strings.NewReplacer("price_row: fireworks/gpt-oss-20b", "price: {miss: 1, hit: 1, out: 3}",
		"{profile: steady}", fmt.Sprintf("{url: %q}", engine)).Replace(one)
}

// An answer that the gateway breaks off, since its agent says what no engine says, is paid as far as it was
// served. Its client hears what that was, and no status that clients repeat by themselves.
func TestWhatIsPaidOfAnAnswerThatLies(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	h := start(t, sold(falseEngine(t)))
	told := market.Credits(0)
	for _, more := range []string{``, `,"n":2`, `,"stream":true`} {
		body := `{"messages":[{"role":"user","content":"lie"}],"max_tokens":2000` + more + `}`
		r := h.do("POST", "/v1/chat/completions", body, h.key, "Idempotency-Key", "x"+more)
		stream, final := strings.Contains(more, "stream"), r.header.Get("X-Should-Retry") == "false"
		switch {
		case !strings.Contains(r.body, "no engine sends"), !stream && (r.status != 424 || !final),
			stream && (r.status != 200 || !strings.Contains(r.body, `"agent_failed"`)):
			t.Errorf("%s: %d %v %s", more, r.status, r.header, r.body)
		case stream:
			h.until("it is taken", func() bool { return h.captured("dev") > told })
			continue
		}
		if r.paid(t) == 0 {
			t.Errorf("%s: nothing is said to be paid: %v %s", more, r.header, r.body)
		}
		told += r.paid(t)
		h.until("what is told is what was taken", func() bool { return h.captured("dev") == told })
		again := h.do("POST", "/v1/chat/completions", body, h.key, "Idempotency-Key", "x"+more)
		if again.status != r.status || again.body != r.body || again.paid(t) != r.paid(t) {
			t.Errorf("%s again: %d %v %s", more, again.status, again.header, again.body)
		}
	}
}
