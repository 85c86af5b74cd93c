package vllm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"souk/agentd"
	"souk/agentd/vllmsim"
	"souk/bus"
)

// routed is a server whose routes say so, each after its status; others do not exist.
func routed(t *testing.T, routes map[string]string) *Engine {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		said, known := routes[r.URL.Path]
		if !known {
			said = "404 {}"
		}
		var status int
		fmt.Sscan(said, &status)
		w.WriteHeader(status)
		io.WriteString(w, said[4:])
	}))
	t.Cleanup(s.Close)
	return New(agentd.EngineConfig{URL: s.URL})
}

// What a server pools is told by what it answers: one that generates, too, is to generate, and one that
// scores in another form is not asked for scores.
func TestWhatAServerPools(t *testing.T) {
	const embeds = `200 {"data":[{"index":0,"embedding":[0.5]}],"usage":{"prompt_tokens":1}}`
	const scores = `200 {"results":[{"index":0,"relevance_score":0.5}],"usage":{"prompt_tokens":1}}`
	type routes = map[string]string
	const embeddings, rerank, completions = "/v1/embeddings", "/v1/rerank", "/v1/completions"
	for _, x := range []struct {
		name   string
		routes routes
		want   string
	}{
		{"vLLM, a chat model", routes{completions: "200 {}"}, ""},
		{"vLLM, an embedding model", routes{embeddings: embeds, rerank: scores},
			"embedding rerank"},
		{"vLLM, a reranker", routes{rerank: scores}, "rerank"},
		{"earlier vLLM, a chat model", routes{embeddings: "400 {}", rerank: "400 {}"}, ""},
		{"SGLang, embeddings", routes{embeddings: embeds, rerank: `200 [{"score":1}]`}, "embedding"},
		{"llama.cpp, a chat model", routes{embeddings: "501 {}", completions: "200 {}"}, ""},
		{"Ollama, a chat model", routes{embeddings: embeds, completions: "200 {}"}, ""},
	} {
		if got, err := routed(t, x.routes).pools(t.Context(), "m"); got != x.want || err != nil {
			t.Errorf("%s: %q, %v, want %q", x.name, got, err, x.want)
		}
	}
	for pooling, want := range map[bool]string{true: "embedding rerank", false: ""} {
		sim, err := vllmsim.New(vllmsim.Config{Pooling: pooling})
		if err != nil {
			t.Fatal(err)
		}
		defer sim.Close()
		s := httptest.NewServer(sim)
		defer s.Close()
		info, err := New(agentd.EngineConfig{URL: s.URL}).Info(t.Context())
		if err != nil || info.Pools != want {
			t.Errorf("the stand-in: %q, %v, want %q", info.Pools, err, want)
		}
	}
}

// A pooling task's answer is handed on byte for byte, in pieces that are text each, and only once it is there
// and sound. The engine gets the body with its own model's name.
func TestAPooledAnswer(t *testing.T) {
	answer := `{"data":[{"index":0,"embedding":[0.25]}],"note":"` + strings.Repeat("é", poolingPiece) +
		`","usage":{"prompt_tokens":4}}`
	var body map[string]json.RawMessage
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(b, &body); err != nil {
			t.Error(err)
		}
		io.WriteString(w, answer)
	}))
	defer s.Close()
	e := New(agentd.EngineConfig{URL: s.URL})
	ask := func(ctx context.Context) (text string, pieces int, a agentd.Answer, err error) {
		a, err = e.Complete(ctx, agentd.Request{ID: "h", Kind: bus.KindEmbedding, Model: "bge",
			Salt: "pepper", Body: json.RawMessage(`{"model":"auto","input":"x","user":"ann","cache_salt":"mine"}`)},
			func(c agentd.Chunk) error {
				if (c.Prompt != 0) != (pieces == 0) || !utf8.ValidString(c.Text) {
					t.Errorf("piece %d: %d prompt tokens, %.20q", pieces, c.Prompt, c.Text)
				}
				text, pieces = text+c.Text, pieces+1
				return nil
			})
		return text, pieces, a, err
	}
	text, pieces, a, err := ask(t.Context())
	if err != nil || text != answer || pieces != 3 || a.Usage.Prompt != 4 || a.Usage.Output != 0 ||
		a.Unmetered || a.Finish != "stop" {
		t.Errorf("%d pieces, %d bytes, %+v, %v", pieces, len(text), a, err)
	}
	got := fmt.Sprintf("%s %s %s", body["model"], body["user"], body["cache_salt"])
	if got != `"bge" "ann" "pepper"` {
		t.Errorf("the engine was asked for %s", got)
	}
	answer = `{"data":[]}`
	var own *agentd.EngineError
	text, _, _, err = ask(t.Context())
	if text != "" || !errors.As(err, &own) || own.Code != bus.CodeEngineFailed {
		t.Errorf("no vector: %q, %v", text, err)
	}
	gone, leave := context.WithCancelCause(t.Context())
	leave(agentd.ErrCancelled)
	if _, _, _, err := ask(gone); !errors.Is(err, agentd.ErrCancelled) {
		t.Errorf("cancelled: %v", err)
	}
}

// When a server that is full may be asked again is read from its refusals, and what is no number is not.
func TestRetryAfter(t *testing.T) {
	for says, want := range map[string]time.Duration{"": 0, "7": 7 * time.Second, "-1": 0, "soon": 0,
		"9999999999": 0, "Wed, 21 Oct 2026 07:28:00 GMT": 0} {
		e := engineAt(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", says)
			w.WriteHeader(http.StatusTooManyRequests)
		}).URL)
		embed := agentd.Request{Kind: bus.KindEmbedding, Model: "m", Body: []byte(`{"input":"a"}`)}
		for _, r := range []agentd.Request{hello, embed} {
			_, err := e.Complete(t.Context(), r, func(agentd.Chunk) error { return nil })
			var refused *agentd.EngineError
			if !errors.As(err, &refused) || refused.Code != bus.CodeNoSlot || refused.Again != want {
				t.Errorf("%s: Retry-After: %s: %+v, want %v", r.Kind, says, err, want)
			}
		}
	}
}

// A server that lists a name twice is sold once by it.
func TestANameThatIsListedTwice(t *testing.T) {
	e := routed(t, map[string]string{"/v1/models": `200 {"data":[{"id":"a"},{"id":"b"},{"id":"a"}]}`,
		"/v1/completions": "200 {}"})
	if info, err := e.Info(t.Context()); err != nil || strings.Join(info.Models, " ") != "a b" {
		t.Errorf("%q, %v", info.Models, err)
	}
}

// That a server has no such endpoint is told apart from that it has lost the model.
func TestAnEndpointThatIsMissing(t *testing.T) {
	for says, want := range map[string]bool{"404 Not Found": true, "405 ": true, "501 ": true, "500 ": false,
		"400 ": false, `404 {"error":{"message":"The model m does not exist"}}`: false} {
		e := routed(t, map[string]string{"/v1/chat/completions": says})
		_, err := e.Complete(t.Context(), hello, func(agentd.Chunk) error { return nil })
		var refused *agentd.EngineError
		if !errors.As(err, &refused) || refused.Missing != want ||
			want && refused.Code != bus.CodeUnknownModel {
			t.Errorf("%s: %+v", says, err)
		}
	}
}
