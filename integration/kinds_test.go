package integration

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"souk/agentd/vllmsim"
	"souk/bus"
	"souk/bus/bustest"
)

// A server of another kind, as it comes, is sold: without metrics, versions, token ids and cache salts. Who
// asks what another one asked before learns nothing of that by a bill, though the engine has it cached.
func TestAServerOfAnotherKindIsSold(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"sglang", "llamacpp", "library"} {
		engine, err := vllmsim.New(vllmsim.Config{Model: "gpt-oss-20b"})
		if err != nil {
			t.Fatal(err)
		}
		defer engine.Close()
		var looks, breaks atomic.Int64
		front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/v1/models":
				looks.Add(1)
				io.WriteString(w, `{"data":[{"id":"gpt-oss-20b","owned_by":"`+kind+`"}]}`)
			case "/health":
				looks.Add(1)
				if kind == "library" { // Ollama has none
					http.NotFound(w, r)
				}
			case "/v1/chat/completions":
				body, _ := io.ReadAll(r.Body)
				for _, foreign := range []string{"return_token_ids", "cache_salt"} {
					if strings.Contains(string(body), foreign) {
						t.Errorf("%s: it was sent %s", kind, foreign)
					}
				}
				if breaks.Load() > 0 {
					w.Header().Set("Content-Type", "text/event-stream")
					io.WriteString(w, event(`{"index":0,"delta":{"content":"so"},"finish_reason":null}`, ""))
					w.(http.Flusher).Flush()
					breaks.Add(-1)
					panic(http.ErrAbortHandler)
				}
				r.Body = io.NopCloser(strings.NewReader(string(body)))
				engine.ServeHTTP(w, r)
			case "/v1/completions":
				engine.ServeHTTP(w, r)
			default:
				http.NotFound(w, r)
			}
		}))
		defer front.Close()
		m := start(t, strings.Replace(one, "{profile: steady}", `{url: "`+front.URL+`"}`, 1)+
			"agentd: {scrape_every: 10ms}\n")
		long := strings.Repeat("The souk sells spices, and cloth by the ell. ", 40)
		cached := func(client string) int {
			t.Helper()
			a, err := m.Ask(t.Context(), chat(long, func(task *bus.Task) { task.Client = client }))
			if err != nil || a.Result.Code != "" || a.Result.Usage.Output == 0 || a.Result.Unmetered {
				t.Fatalf("%s: %+v, %v", kind, a.Result, err)
			}
			return a.Result.Usage.Cached
		}
		if n := cached("dev"); n != 0 {
			t.Errorf("%s: %d tokens of a first prompt are cached", kind, n)
		}
		seen := looks.Load()
		bustest.Eventually(t, "it was looked at a few times", func() bool { return looks.Load() > seen+5 })
		if n := cached("other"); n != 0 {
			t.Errorf("%s: another client is told of %d tokens that were asked before", kind, n)
		}
		if n := cached("dev"); n == 0 {
			t.Errorf("%s: a client's own tokens are not found again", kind)
		}
		breaks.Store(1)
		a, err := m.Ask(t.Context(), chat("Hello"))
		if err != nil || a.Result.Code != bus.CodeEngineFailed || a.Result.Paid() != 0 {
			t.Errorf("%s: an answer that broke off: %+v, %v", kind, a.Result, err)
		}
		bustest.Eventually(t, "the next task is served", func() bool {
			a, err := m.Ask(t.Context(), chat("Hello again"))
			return err == nil && a.Result.Code == ""
		})
	}
}

// An answer that its engine breaks off goes on at one of the same kind, past those that go on with none.
func TestAnAnswerGoesOnPastOtherKinds(t *testing.T) {
	t.Parallel()
	engine, err := vllmsim.New(vllmsim.Config{Model: "gpt-oss-20b"})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	var broken atomic.Bool
	front := func(kind string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path == "/v1/models" && kind != "vllm":
				io.WriteString(w, `{"data":[{"id":"gpt-oss-20b","owned_by":"`+kind+`"}]}`)
			case r.URL.Path == "/metrics" && kind != "vllm":
				http.NotFound(w, r)
			case r.URL.Path == "/v1/chat/completions" && broken.CompareAndSwap(false, true):
				whole := httptest.NewRecorder()
				engine.ServeHTTP(whole, r)
				w.Header().Set("Content-Type", "text/event-stream")
				io.WriteString(w, strings.Join(strings.SplitAfter(whole.Body.String(), "\n\n")[:10], ""))
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			default:
				engine.ServeHTTP(w, r)
			}
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	only := one[strings.Index(one, "  - {id: only"):strings.Index(one, "speedup")]
	agents := ""
	for _, a := range [][3]string{{"first", "0.9", "vllm"}, {"a", "0.8", "sglang"}, {"b", "0.8", "llamacpp"},
		{"last", "0.5", "vllm"}} {
		agents += strings.NewReplacer("only", a[0], "0.7", a[1], "{profile: steady}",
			`{url: "`+front(a[2])+`"}`).Replace(only)
	}
	m := start(t, strings.Replace(one, only, agents, 1))
	a, err := m.Ask(t.Context(), chat("Hello"))
	if err != nil || a.Result.Code != "" || a.Result.Agent != "last" || !broken.Load() {
		t.Errorf("%+v, %v", a.Result, err)
	}
}
