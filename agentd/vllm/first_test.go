package vllm

import (
	"bytes"
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
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *piped) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}
func (p *piped) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *piped) Addr() net.Addr { return &net.UnixAddr{} }

// inBubble returns an engine behind a handler, within a bubble.
func inBubble(t *testing.T, h http.HandlerFunc, change func(*agentd.EngineConfig)) *Engine {
	l := &piped{conns: make(chan net.Conn), closed: make(chan struct{})}
	s := &http.Server{Handler: h}
	go s.Serve(l)
	cfg := agentd.EngineConfig{URL: "http://engine"}
	if change != nil {
		change(&cfg)
	}
	e := New(cfg)
	e.transport.DialContext = func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		select {
		case l.conns <- far:
			return near, nil
		case <-l.closed:
			return nil, net.ErrClosed
		}
	}
	t.Cleanup(func() {
		s.Close()
		e.Close()
	})
	return e
}

// A first token has the time that its hub gives it. Where its counters move for it alone, or it waits in the
// engine's queue, it has more, unless its operator says how much, which is a bound.
func TestTimeForThePrompt(t *testing.T) {
	type prompt struct {
		tokens, cached int
		takes          time.Duration
	}
	type moves struct { // counters
		prompt  bool          // by this prompt, or by others of which this agent knows nothing
		others  time.Duration // by another stream of this agent, for so long
		waiting int
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
		given  time.Duration // by its hub; 0: it does not say
		moves  moves
		set    time.Duration // first_event
		want   string        // what ends the last; "": it is answered
		within time.Duration
	}{
		{"after a short one", []prompt{short}, prompt{10_000, 0, 70 * s}, 280 * s, moves{}, 0, "", 70 * s},
		{"longer than two minutes", []prompt{short}, prompt{40_000, 0, 280 * s}, 300 * s, moves{}, 0, "",
			280 * s},
		{"the first of all", nil, prompt{20_000, 0, 190 * s}, 800 * s, moves{}, 0, "", 190 * s},
		{"after many that were cached", again, prompt{10_000, 0, 70 * s}, 280 * s, moves{}, 0, "", 70 * s},
		{"longer than its hub says", []prompt{short}, prompt{100, 0, 10 * m}, 30 * s, moves{prompt: true}, 0,
			"", 10 * m},
		{"and they stand still", []prompt{short}, prompt{100, 0, 10 * m}, 30 * s, moves{}, 0, "hangs", 5 * s},
		{"the first of all, while they move", nil, prompt{100, 0, 10 * m}, 30 * s, moves{prompt: true}, 0, "", 10 * m},
		{"and they stand still", nil, prompt{100, 0, 10 * m}, 40 * s, moves{}, 0, "nothing for 40s", 41 * s},
		{"and nobody says how long", nil, prompt{100, 0, 10 * m}, 0, moves{}, 0, "nothing for 2m", 2*m + s},
		{"others alone move them", []prompt{short}, prompt{100, 0, 10 * m}, 30 * s, moves{true, 9 * m, 0}, 0,
			"nothing for 30s", 32 * s},
		{"until they have ended", []prompt{short}, prompt{100, 0, 10 * m}, 50 * s, moves{true, 40 * s, 0}, 0,
			"", 10 * m},
		{"others move them, and it waits", []prompt{short}, prompt{100, 0, 5 * m}, 30 * s,
			moves{true, 9 * m, 1}, 0, "", 5 * m},
		{"it is bounded", []prompt{short}, prompt{9000, 0, 63 * s}, 5 * m, moves{prompt: true}, 40 * s,
			"for 40s", 40 * s},
		{"and gives it time", nil, prompt{100, 0, 10 * m}, 30 * s, moves{}, 11 * m, "", 10 * m},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				now, moved := prompt{}, 0
				e := inBubble(t, func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/metrics" {
						if c.moves.prompt {
							moved++
						}
						fmt.Fprintf(w, "vllm:generation_tokens_total 7\nvllm:kv_cache_usage_perc 0.%d\n"+
							"vllm:num_requests_waiting %d\n", moved, c.moves.waiting)
						return
					}
					body, _ := io.ReadAll(r.Body) // else the server does not notice that its client leaves
					w.Header().Set("Content-Type", "text/event-stream")
					if bytes.Contains(body, []byte("other")) {
						send(w, role)
						for end := time.Now().Add(c.moves.others); time.Now().Before(end); {
							send(w, word)
							select {
							case <-time.After(s / 4):
							case <-r.Context().Done():
								return
							}
						}
						send(w, finish, done)
						return
					}
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
					if r.Prompt = now.tokens; i == len(c.before) {
						r.First = c.given
						if c.moves.others > 0 {
							other := hello
							other.Body = []byte(`{"messages":[{"role":"user","content":"other"}]}`)
							go e.Complete(t.Context(), other, func(agentd.Chunk) error { return nil })
							synctest.Wait()
						}
					}
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
