package vllm

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"souk/agentd"
)

// Silence is a hang where the server's counters stand still, and patience where they move: then the stream was preempted.
// /health, which says that all is well, is not asked.
func TestHang(t *testing.T) {
	for _, c := range []struct {
		name, want string
		step       int64 // tokens that other streams get between two looks
		broken     bool  // /metrics does not answer either
	}{
		{"counters stand still", "hangs", 0, false},
		{"counters move", "nothing for 600ms", 5, false},
		{"nothing answers", "hangs", 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var tokens atomic.Int64
			url := serve(t, func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.URL.Path == "/metrics" && c.broken:
					<-r.Context().Done()
				case r.URL.Path == "/metrics":
					fmt.Fprintf(w, "vllm:generation_tokens_total{engine=\"0\"} %d\n", tokens.Add(c.step))
				case r.URL.Path == "/health":
					t.Error("/health was asked")
				default:
					w.Header().Set("Content-Type", "text/event-stream")
					send(w, role, word)
					<-r.Context().Done()
				}
			}).URL
			e := engineAt(t, url, func(c *agentd.EngineConfig) {
				c.FirstEvent, c.Progress, c.Suspect, c.Probe = 5*time.Second, 600*time.Millisecond, 40*time.Millisecond, 60*time.Millisecond
			})
			begin := time.Now()
			got := ask(t, e, hello)
			var failed *agentd.EngineError
			if !errors.As(got.Err, &failed) || !failed.Stalled || !strings.Contains(failed.Error(), c.want) {
				t.Errorf("after %v: %v, want %q", time.Since(begin), got.Err, c.want)
			}
		})
	}
}
