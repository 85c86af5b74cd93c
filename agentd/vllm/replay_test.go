package vllm

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"souk/agentd"
)

// recording is a file of testdata/http: what a real server said.
type recording struct {
	Request struct {
		Path string
		Body json.RawMessage
	}
	Response struct {
		Status  string
		Headers [][2]string
		Body    string
		Chunks  [][2]any
		End     string
	}
}

func (r recording) chunks() []string {
	var out []string
	for _, c := range r.Response.Chunks {
		out = append(out, c[1].(string))
	}
	return out
}

func recorded(t testing.TB, name string) recording {
	t.Helper()
	data, err := os.ReadFile("testdata/http/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var r recording
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// ends returns how the streams of a fault ended for the client, as their last chunks.
func ends(t testing.TB, fault string) []string {
	t.Helper()
	data, err := os.ReadFile("testdata/faults/" + fault + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var f struct {
		Requests []struct {
			LastChunks [][2]any `json:"last_chunks"`
		}
	}
	if err := json.Unmarshal(data, &f); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, c := range f.Requests[0].LastChunks {
		out = append(out, c[1].(string))
	}
	return out
}

// replay is a server that says what a recording says, one HTTP chunk at a time.
func replay(t testing.TB, r recording) *httptest.Server {
	return serve(t, func(w http.ResponseWriter, _ *http.Request) {
		for _, h := range r.Response.Headers {
			if h[0] != "connection" && h[0] != "transfer-encoding" && h[0] != "content-length" {
				w.Header().Add(h[0], h[1])
			}
		}
		var status int
		fmt.Sscanf(r.Response.Status, "HTTP/1.1 %d", &status)
		w.WriteHeader(status)
		if r.Response.Body != "" {
			w.Write([]byte(r.Response.Body))
		}
		send(w, r.chunks()...)
	})
}

// events serves these chunks as a stream; cut breaks the connection after them.
func events(t testing.TB, cut bool, chunks ...string) *httptest.Server {
	return serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		send(w, chunks...)
		if cut {
			panic(http.ErrAbortHandler)
		}
	})
}

func send(w http.ResponseWriter, chunks ...string) {
	for _, c := range chunks {
		w.Write([]byte(c))
		w.(http.Flusher).Flush()
	}
}

func serve(t testing.TB, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = nil
	s.Start()
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s
}

func engineAt(t testing.TB, url string, change ...func(*agentd.EngineConfig)) *Engine {
	cfg := agentd.EngineConfig{URL: url}
	for _, f := range change {
		f(&cfg)
	}
	e := New(cfg)
	t.Cleanup(e.Close)
	return e
}

var hello = agentd.Request{ID: "math-1-0", Kind: "chat", Model: "tiny", MaxTokens: 8,
	Body: json.RawMessage(`{"messages":[{"role":"user","content":"Hello there"}]}`)}

// said is everything an answer consists of.
type said struct {
	Text   string
	Tokens []uint32
	Count  int
	Prompt int
	Extra  []string
	Answer agentd.Answer
	Err    error
}

func ask(t testing.TB, e *Engine, r agentd.Request) said {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var s said
	s.Answer, s.Err = e.Complete(ctx, r, func(c agentd.Chunk) error {
		for _, x := range c.Extra {
			s.Extra = append(s.Extra, fmt.Sprintf("%d %s", len(s.Text)+x.At, x.Choice))
		}
		s.Text += c.Text
		s.Tokens = append(s.Tokens, c.Tokens...)
		s.Count += c.Count
		s.Prompt += c.Prompt
		if c.Events == 0 {
			t.Error("a chunk without an event")
		}
		return nil
	})
	return s
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func payloads(chunks []string) []string {
	var out []string
	for _, c := range chunks {
		for line := range strings.Lines(c) {
			if rest, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "data: "); ok &&
				rest != "[DONE]" {
				out = append(out, rest)
			}
		}
	}
	return out
}

// stepReader yields at most step bytes a read.
type stepReader struct {
	b    []byte
	step int
}

func (r *stepReader) Read(p []byte) (int, error) {
	if len(r.b) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), r.step)], r.b)
	r.b = r.b[n:]
	return n, nil
}
