package integration

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"souk/agentd/vllmsim"
	"souk/bus"
	"souk/bus/bustest"
)

// event is one event of a stream, as vLLM writes it.
func event(choice, more string) string {
	return `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"gpt-oss-20b","choices":[` +
		choice + `]` + more + "}\n\n"
}

func said(text string) string {
	return fmt.Sprintf(`{"index":0,"delta":{"content":%q},"token_ids":[1],"finish_reason":null}`, text)
}

// An engine may say anything. Whatever it says, its client gets one clear last word, pays for nothing beyond
// what the hold allows, and the next task, before an engine that is well, is served.
func TestEnginesThatMisbehave(t *testing.T) {
	const finished = `{"index":0,"delta":{},"finish_reason":"stop"}`
	for name, c := range map[string]struct {
		stream func(w io.Writer) bool // writes on; false: it has ended
		code   bus.Code
		most   int // output tokens that may be billed
	}{
		"garbage": {func(w io.Writer) bool {
			io.WriteString(w, "\x00\xff garbage without an end of line"+strings.Repeat("x", 4096))
			return false
		}, bus.CodeEngineFailed, 0},
		"events that are no JSON": {func(w io.Writer) bool {
			io.WriteString(w, "data: {\"choices\":[{\"delta\":\n\ndata: ][\n\n")
			return false
		}, bus.CodeEngineFailed, 0},
		"an answer that never ends": {func(w io.Writer) bool {
			_, err := io.WriteString(w, event(said("and on "), ""))
			return err == nil
		}, "", 40},
		"a usage beyond what was asked for": {func(w io.Writer) bool {
			io.WriteString(w, event(`{"index":0,"delta":{"content":"Hello"},"finish_reason":null}`, "")+
				event(finished, "")+
				event("", `,"usage":{"prompt_tokens":1000000,"completion_tokens":1000000,"total_tokens":2000000}`)+"data: [DONE]\n\n")
			return false
		}, "", 40},
		"a usage below zero": {func(w io.Writer) bool {
			io.WriteString(w, event(said("Hello"), "")+event(finished, "")+
				event("", `,"usage":{"prompt_tokens":-5,"completion_tokens":-7,"total_tokens":-12}`)+
				"data: [DONE]\n\n")
			return false
		}, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			engine, err := vllmsim.New(vllmsim.Config{Model: "gpt-oss-20b"})
			if err != nil {
				t.Fatal(err)
			}
			defer engine.Close()
			var bad atomic.Bool
			bad.Store(true)
			front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if !strings.HasSuffix(r.URL.Path, "/chat/completions") || !bad.Load() {
					engine.ServeHTTP(w, r)
					return
				}
				io.Copy(io.Discard, r.Body)
				w.Header().Set("Content-Type", "text/event-stream")
				for end := time.After(time.Minute); c.stream(w); {
					w.(http.Flusher).Flush()
					select {
					case <-r.Context().Done():
						return
					case <-end:
						return
					default:
					}
				}
			}))
			defer front.Close()
			m := start(t, strings.Replace(one, "{profile: steady}", `{url: "`+front.URL+`"}`, 1))
			before := balance(t, m, "dev")
			a, err := m.Ask(t.Context(), chat("Hello"))
			if err != nil || a.Result.Code != c.code {
				t.Fatalf("%+v, %v; want code %q", a.Result, err, c.code)
			}
			r := a.Result
			if c.most > 0 && r.Usage.Output > c.most {
				t.Errorf("%d output tokens are billed, at most %d were asked for", r.Usage.Output, c.most)
			}
			bustest.Eventually(t, "it is paid as its client was told",
				func() bool { return before-balance(t, m, "dev") == r.Paid() })
			if c.code != "" && r.Paid() != 0 {
				t.Errorf("it cost %s", r.Paid())
			}
			// The worst case of forty tokens and a short prompt at this card is far below a thousandth.
			if r.Paid() < 0 || r.Paid() > 1_000_000 {
				t.Errorf("%s was paid", r.Paid())
			}
			bad.Store(false)
			bustest.Eventually(t, "the next task is served", func() bool {
				a, err := m.Ask(t.Context(), chat("Hello again"))
				return err == nil && a.Result.Code == ""
			})
		})
	}
}
