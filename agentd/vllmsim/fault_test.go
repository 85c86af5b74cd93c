package vllmsim

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"souk/bus/bustest"
)

const longStream = `{"model":"tiny","messages":[{"role":"user","content":"Go on."}],"max_tokens":1000,"ignore_eos":true,"stream":true,"stream_options":{"include_usage":true}}`

func (s *Server) busy() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.engine.unfinished()
}

func (s *Server) made() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	var m dto.Metric
	if err := s.engine.stats.generated.Write(&m); err != nil {
		panic(err)
	}
	return int(m.GetCounter().GetValue())
}

// read reads a stream until it ends or breaks: its text, how many events had content, and the error.
func read(t *testing.T, s *Server, body string) (code int, text string, events int, err error) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	q, err := http.NewRequestWithContext(ctx, "POST", s.URL()+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Content-Type", "application/json")
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		return 0, "", 0, err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	text = string(b)
	return r.StatusCode, text, strings.Count(text, `"delta":{"content":"`), err
}

func inject(t *testing.T, s *Server, f Fault) {
	t.Helper()
	if err := s.Inject(f); err != nil {
		t.Fatal(err)
	}
}

func TestFaultsOnStreams(t *testing.T) {
	s := start(t, Config{Profile: Steady, Speedup: 50})
	t.Run("reset", func(t *testing.T) {
		inject(t, s, Fault{Kind: Reset, After: 5, Times: 1})
		_, text, n, err := read(t, s, longStream)
		if n != 5 || !errors.Is(err, io.ErrUnexpectedEOF) || strings.Contains(text, "DONE") {
			t.Errorf("%d tokens, %v; want 5 and an unexpected end", n, err)
		}
	})
	t.Run("broken", func(t *testing.T) {
		inject(t, s, Fault{Kind: Broken, After: 5, Times: 1})
		code, text, n, err := read(t, s, longStream)
		const end = `data: {"error": {"message": "EngineCore encountered an issue. See stack trace (above) for the root cause.", "type": "InternalServerError", "param": null, "code": 500}}` + "\n\ndata: [DONE]\n\n"
		if code != 200 || n != 5 || err != nil || !strings.HasSuffix(text, end) {
			t.Errorf("%d, %d tokens, %v, %s", code, n, err, text)
		}
	})
	t.Run("abort", func(t *testing.T) {
		inject(t, s, Fault{Kind: Abort, After: 5, Times: 1})
		_, text, n, err := read(t, s, longStream)
		if n != 5 || err != nil || !strings.Contains(text, `"finish_reason":"abort"`) ||
			!strings.Contains(text, `"completion_tokens":5`) || !strings.HasSuffix(text, "data: [DONE]\n\n") {
			t.Errorf("%d tokens, %v, %s", n, err, text)
		}
	})
	t.Run("status", func(t *testing.T) {
		inject(t, s, Fault{Kind: Status, Code: 502, Times: 2})
		for _, want := range []int{502, 502} {
			if code, text, _, _ := read(t, s, longStream); code != want ||
				!strings.Contains(text, `{"error":{`) {
				t.Errorf("%d %s, want %d", code, text, want)
			}
		}
	})
	t.Run("in their order, then none", func(t *testing.T) {
		inject(t, s, Fault{Kind: Status, Code: 501, Times: 1})
		inject(t, s, Fault{Kind: Reset, After: 1, Times: 1})
		if code, _, _, _ := read(t, s, longStream); code != 501 {
			t.Errorf("first: %d, want 501", code)
		}
		if _, _, n, err := read(t, s, longStream); n != 1 || err == nil {
			t.Errorf("second: %d tokens, %v; want 1 and an error", n, err)
		}
		if _, text, n, err := read(t, s, longStream); n != 1000 || err != nil ||
			!strings.Contains(text, `"completion_tokens":1000`) {
			t.Errorf("third: %d tokens, %v; want all", n, err)
		}
	})
	t.Run("hang and stall hold the connection and free the slot when the client leaves", func(t *testing.T) {
		for _, f := range []Fault{{Kind: Hang, Times: 1}, {Kind: Stall, After: 3, Times: 1}} {
			inject(t, s, f)
			ctx, leave := context.WithCancel(t.Context())
			q, _ := http.NewRequestWithContext(ctx, "POST", s.URL()+"/v1/chat/completions",
				strings.NewReader(strings.Replace(longStream, "1000", "8000", 1)))
			q.Header.Set("Content-Type", "application/json")
			if f.Kind == Stall {
				r, err := http.DefaultClient.Do(q)
				if err != nil {
					t.Fatal(err)
				}
				lines := bufio.NewReader(r.Body)
				for n := 0; n < 3; {
					l, err := lines.ReadString('\n')
					if err != nil {
						t.Fatal(err)
					}
					if strings.Contains(l, `"delta":{"content":"`) {
						n++
					}
				}
			} else {
				go func() { _, _ = http.DefaultClient.Do(q) }()
				bustest.Eventually(t, "the request is taken", func() bool { return s.busy() == 1 })
			}
			leave()
			bustest.Eventually(t, string(f.Kind)+": the slot is free", func() bool { return s.busy() == 0 })
		}
	})
}

func TestFaultsOnWholeAnswers(t *testing.T) {
	s := start(t, Config{})
	whole := strings.Replace(longStream, `"stream":true,"stream_options":{"include_usage":true}`,
		`"stream":false`, 1)
	inject(t, s, Fault{Kind: Broken, After: 5, Times: 1})
	if code, text, _, _ := read(t, s, whole); code != 500 || !strings.Contains(text, "EngineCore") {
		t.Errorf("broken: %d %s", code, text)
	}
	inject(t, s, Fault{Kind: Abort, After: 5, Times: 1})
	if code, text, _, _ := read(t, s, whole); code != 200 ||
		!strings.Contains(text, `"finish_reason":"abort"`) {
		t.Errorf("abort: %d %s", code, text)
	}
	inject(t, s, Fault{Kind: Reset, Times: 1})
	if _, _, _, err := read(t, s, whole); err == nil {
		t.Error("reset: an answer came")
	}
	for _, bad := range []Fault{{}, {Kind: "nonsense"}, {Kind: Reset, After: -1}, {Kind: Status, Code: 404},
		{Kind: Hang, Times: -1}} {
		if err := s.Inject(bad); err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
}

// A frozen engine looks well and says nothing; when it goes on, the answer is whole.
func TestFreeze(t *testing.T) {
	s := start(t, Config{Profile: Steady, Speedup: 50})
	s.Freeze(true)
	done := make(chan string)
	go func() {
		_, text, _, _ := read(t, s, longStream)
		done <- text
	}()
	bustest.Eventually(t, "the request is taken", func() bool { return s.busy() == 1 })
	if r, err := http.Get(s.URL() + "/health"); err != nil || r.StatusCode != 200 {
		t.Errorf("/health: %v", err)
	}
	if n := s.made(); n != 0 {
		t.Errorf("%d tokens while frozen", n)
	}
	s.Freeze(false)
	if text := <-done; !strings.Contains(text, `"completion_tokens":1000`) {
		t.Errorf("after the thaw: %.300s", text)
	}
}

func TestTerminate(t *testing.T) {
	s := start(t, Config{Profile: Steady})
	done := make(chan string)
	go func() {
		_, text, _, _ := read(t, s, longStream)
		done <- text
	}()
	bustest.Eventually(t, "tokens flow", func() bool { return s.made() > 2 })
	s.Terminate()
	text := <-done
	if !strings.Contains(text, `"finish_reason":"abort"`) || !strings.Contains(text, `"usage"`) ||
		!strings.HasSuffix(text, "data: [DONE]\n\n") {
		t.Errorf("SIGTERM leaves a clean end that says abort: %s", text)
	}
	if code, text, _, _ := read(t, s, longStream); code != 500 ||
		!strings.Contains(text, "cannot schedule new futures after shutdown") {
		t.Errorf("a request afterwards: %d %s", code, text)
	}
}

func TestDrain(t *testing.T) {
	s := start(t, Config{Profile: Steady, Speedup: 20})
	done := make(chan string)
	go func() {
		_, text, _, _ := read(t, s, longStream)
		done <- text
	}()
	bustest.Eventually(t, "tokens flow", func() bool { return s.made() > 2 })
	if err := s.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	if text := <-done; !strings.Contains(text, `"completion_tokens":1000`) {
		t.Errorf("what ran when the drain began: %.300s", text)
	}
	if code, _, _, _ := read(t, s, longStream); code != 500 {
		t.Errorf("a request afterwards: %d, want 500", code)
	}
}

func TestRestart(t *testing.T) {
	s := start(t, Config{Profile: Steady})
	done := make(chan error)
	go func() {
		_, _, _, err := read(t, s, longStream)
		done <- err
	}()
	bustest.Eventually(t, "tokens flow", func() bool { return s.made() > 2 })
	url := s.URL()
	if err := s.Restart(10 * time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err == nil {
		t.Error("an open stream ended well")
	}
	if s.URL() != url {
		t.Errorf("it came back at %s, not %s", s.URL(), url)
	}
	if n := s.made(); n != 0 {
		t.Errorf("counters begin at %d", n)
	}
	if code, _, _, _ := read(t, s, strings.Replace(longStream, "1000", "2", 1)); code != 200 {
		t.Errorf("after the restart: %d", code)
	}
}

func TestOrders(t *testing.T) {
	s := start(t, Config{Admin: true})
	for _, order := range []struct {
		body string
		want int
	}{
		{`{"heal":true}`, 200}, {`{"kind":"odd"}`, 400}, {`{"knid":"hang"}`, 400}, {`{"events":"odd"}`, 400},
		{`{"kind":"status","code":503,"times":1}`, 200},
	} {
		if code, text := post(t, s, "/sim/fault", order.body); code != order.want {
			t.Errorf("%s: %d %s, want %d", order.body, code, text, order.want)
		}
	}
	if code, _, _, _ := read(t, s, longStream); code != 503 {
		t.Errorf("an ordered fault: %d, want 503", code)
	}
}

// Who asks is told what the cache holds, and once of each request what it found.
func TestTheCacheIsTold(t *testing.T) {
	s := start(t, Config{Admin: true})
	var in Inside
	look := func() {
		t.Helper()
		r, err := http.Get(s.URL() + "/sim/cache")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		in = Inside{}
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(id string) {
		t.Helper()
		r, err := http.NewRequest(http.MethodPost, s.URL()+"/v1/completions",
			strings.NewReader(`{"prompt":[`+strings.Repeat("300,", 40)+`301],"max_tokens":1}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-Request-Id", id)
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
	}
	if look(); in.Blocks != 0 || len(in.Found) > 0 {
		t.Errorf("of a new engine: %+v", in)
	}
	ask("first")
	ask("second")
	want := []Found{{"first", 41, 0}, {"second", 41, 32}}
	if look(); in.Blocks != 2 || in.Copies != 2 || !slices.Equal(in.Found, want) {
		t.Errorf("%+v, want two blocks and %v", in, want)
	}
	if look(); len(in.Found) > 0 {
		t.Errorf("told twice: %v", in.Found)
	}
}
