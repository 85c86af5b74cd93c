package vllm

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"souk/agentd"
)

// Silence is a hang where the server's counters stand still, and patience where they move: then the stream
// was preempted. /health, which says that all is well, is not asked.
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
				c.FirstEvent, c.Progress, c.Suspect, c.Probe = 5*time.Second, 600*time.Millisecond,
					40*time.Millisecond, 60*time.Millisecond
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

// Streams that stop together are all told so: that one of them said something after the others did is no sign
// of life.
func TestHangOfSeveralStreams(t *testing.T) {
	next := make(chan struct{}, 1)
	next <- struct{}{}
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" {
			fmt.Fprintf(w, "vllm:generation_tokens_total{engine=\"0\"} 7\n")
			return
		}
		<-next
		w.Header().Set("Content-Type", "text/event-stream")
		send(w, role, word)
		time.AfterFunc(20*time.Millisecond, func() { next <- struct{}{} })
		<-r.Context().Done()
	}).URL
	e := engineAt(t, url, func(c *agentd.EngineConfig) {
		c.FirstEvent, c.Progress, c.Suspect, c.Probe = 9*time.Second, 9*time.Second, 40*time.Millisecond,
			time.Second
	})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if got := ask(t, e, hello); got.Err == nil || !strings.Contains(got.Err.Error(), "hangs") {
				t.Errorf("%v, want a hang", got.Err)
			}
		})
	}
	all.Wait()
}

// For the first logprobs, the first grammar, an engine compiles for seconds and does nothing else: neither
// that request nor those that run are taken for hanging. The second one says nothing new.
func TestTheFirstRequestOfAKindMayTakeLonger(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	const suspect = 40 * time.Millisecond
	compiled, has := make(chan struct{}, 2), make(chan struct{}, 2)
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" {
			fmt.Fprintf(w, "vllm:generation_tokens_total{engine=\"0\"} 7\n")
			return
		}
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		switch text := string(body); {
		case strings.Contains(text, "long"):
			send(w, role, word)
		case strings.Contains(text, "logprobs"):
		default:
			send(w, role, word, finish, done)
			return
		}
		has <- struct{}{}
		select {
		case <-compiled:
			send(w, role, word, finish, done)
		case <-r.Context().Done():
		}
	}).URL
	e := engineAt(t, url, func(c *agentd.EngineConfig) {
		c.FirstEvent, c.Progress, c.Suspect, c.Probe = 9*time.Second, 9*time.Second, suspect, time.Second
	})
	with := func(member string) agentd.Request {
		r := hello
		r.Body = []byte(`{"messages":[{"role":"user","content":"x"}],` + member + `}`)
		return r
	}
	if got := ask(t, e, hello); got.Err != nil { // something to judge by
		t.Fatal(got.Err)
	}
	first := make(chan error)
	go func() { first <- ask(t, e, with(`"logprobs":true`)).Err }()
	<-has
	go func() { first <- ask(t, e, with(`"user":"long"`)).Err }()
	<-has
	select {
	case err := <-first:
		t.Fatalf("while the engine compiles: %v", err)
	case <-time.After(20 * suspect):
	}
	for range 2 {
		compiled <- struct{}{}
		if err := <-first; err != nil {
			t.Error(err)
		}
	}
	got := ask(t, e, with(`"logprobs":true`))
	if got.Err == nil || !strings.Contains(got.Err.Error(), "hangs") {
		t.Errorf("of logprobs it had: %v, want a hang", got.Err)
	}
	if e.pace.served != 0 || e.pace.novel != 0 {
		t.Errorf("one that hung has served %b, and has %d requests in hand", e.pace.served, e.pace.novel)
	}
}

// The readings lie within the silence that is suspicious, and add nothing to what it costs.
func TestAHangIsKnownByTheEndOfTheSilence(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	const suspect = 1600 * time.Millisecond
	var mu sync.Mutex
	var said time.Time
	var read []time.Duration // since the word
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.URL.Path == "/metrics" {
			read = append(read, time.Since(said))
			fmt.Fprintf(w, "vllm:generation_tokens_total{engine=\"0\"} 7\n")
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		send(w, role, word)
		said = time.Now()
		mu.Unlock()
		<-r.Context().Done()
		mu.Lock()
	}).URL
	e := engineAt(t, url, func(c *agentd.EngineConfig) {
		c.FirstEvent, c.Progress, c.Suspect, c.Probe = 9*time.Second, 9*time.Second, suspect, time.Second
	})
	got := ask(t, e, hello)
	took := time.Since(said)
	if got.Err == nil || !strings.Contains(got.Err.Error(), "hangs") || took < suspect-20*time.Millisecond {
		t.Errorf("after %v: %v, want a hang after %v", took, got.Err, suspect)
	}
	if len(read) != 2 || read[0] >= suspect || read[1]-read[0] < suspect/5 {
		t.Errorf("counters were read after %v", read)
	}
}
