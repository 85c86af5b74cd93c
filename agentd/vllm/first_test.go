package vllm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"souk/agentd"
)

// piped is a server that speaks through pipes, so that its time and its engine's are those of a bubble.
type piped struct {
	conns chan net.Conn
	once  sync.Once
}

func (p *piped) Accept() (net.Conn, error) {
	if c, ok := <-p.conns; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (p *piped) Close() error   { p.once.Do(func() { close(p.conns) }); return nil }
func (p *piped) Addr() net.Addr { return &net.UnixAddr{} }

// inBubble returns an engine behind a handler, within a bubble.
func inBubble(t *testing.T, h http.HandlerFunc, change func(*agentd.EngineConfig)) *Engine {
	l := &piped{conns: make(chan net.Conn)}
	s := &http.Server{Handler: h}
	go s.Serve(l)
	cfg := agentd.EngineConfig{URL: "http://engine"}
	if change != nil {
		change(&cfg)
	}
	e := New(cfg)
	e.transport.DialContext = func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		l.conns <- far
		return near, nil
	}
	t.Cleanup(func() {
		s.Close()
		e.Close()
	})
	return e
}

// A first token has the time that its prompt needs at the rate of this engine; before any was seen, time for
// a slow one. Where its counters move it has more, unless its operator says how much, which is a bound.
func TestTimeForThePrompt(t *testing.T) {
	type prompt struct {
		tokens, cached int
		takes          time.Duration
	}
	const ms, s, m = time.Millisecond, time.Second, time.Minute
	short := prompt{10, 0, 70 * ms}
	again := make([]prompt, 40) // all in its cache, after one that was not
	for i := range again {
		again[i] = prompt{2000, 1990, 20 * ms}
	}
	again[0] = prompt{2000, 0, 14 * s}
	for _, c := range []struct {
		name   string
		before []prompt
		last   prompt
		moves  bool          // its counters
		set    time.Duration // first_event
		want   string        // what ends the last; "": it is answered
		within time.Duration
	}{
		{"after a short one", []prompt{short}, prompt{10_000, 0, 70 * s}, false, 0, "", 70 * s},
		{"longer than two minutes", []prompt{short}, prompt{40_000, 0, 280 * s}, false, 0, "", 280 * s},
		{"the first of all", nil, prompt{20_000, 0, 190 * s}, false, 0, "", 190 * s},
		{"after many that were cached", again, prompt{10_000, 0, 70 * s}, false, 0, "", 70 * s},
		{"longer than its rate says", []prompt{short}, prompt{100, 0, 10 * m}, true, 0, "", 10 * m},
		{"and they stand still", []prompt{short}, prompt{100, 0, 10 * m}, false, 0, "hangs", 5 * s},
		{"the first of all, while they move", nil, prompt{100, 0, 10 * m}, true, 0, "", 10 * m},
		{"and they stand still", nil, prompt{100, 0, 10 * m}, false, 0, "nothing for 2m", 2*m + s},
		{"it is bounded", []prompt{short}, prompt{9000, 0, 63 * s}, true, 40 * s, "for 40s", 40 * s},
		{"and gives it time", nil, prompt{100, 0, 10 * m}, false, 11 * m, "", 10 * m},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				now, moved := prompt{}, 0
				e := inBubble(t, func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/metrics" {
						if c.moves {
							moved++
						}
						fmt.Fprintf(w, "vllm:generation_tokens_total 7\nvllm:kv_cache_usage_perc 0.%d\n", moved)
						return
					}
					io.Copy(io.Discard, r.Body) // else the server does not notice that its client leaves
					w.Header().Set("Content-Type", "text/event-stream")
					select {
					case <-time.After(now.takes):
					case <-r.Context().Done():
						return
					}
					ids := strings.TrimSuffix(strings.Repeat("1,", now.tokens), ",")
					usage := fmt.Sprintf(`"usage":{"prompt_tokens":%d,"completion_tokens":3,`+
						`"prompt_tokens_details":{"cached_tokens":%d}}}`, now.tokens, now.cached)
					send(w, strings.Replace(role, "1,2,3", ids, 1), word, finish,
						`data: {"choices":[],`+usage+"\n\n", done)
				}, func(cfg *agentd.EngineConfig) { cfg.FirstEvent = c.set })
				for i, ask := range append(c.before[:len(c.before):len(c.before)], c.last) {
					now = ask
					r, begin := hello, time.Now()
					r.Prompt = now.tokens
					_, err := e.Complete(t.Context(), r, func(agentd.Chunk) error { return nil })
					took := time.Since(begin)
					if i < len(c.before) {
						if err != nil {
							t.Fatal(err)
						}
						continue
					}
					var failed *agentd.EngineError
					switch {
					case c.want == "" && err == nil && took < c.within+s:
					case c.want != "" && errors.As(err, &failed) && failed.Stalled &&
						strings.Contains(failed.Error(), c.want) && took <= c.within:
					default:
						t.Errorf("after %v: %v, want %q within %v", took, err, c.want, c.within)
					}
				}
			})
		})
	}
}
