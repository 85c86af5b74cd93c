package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"souk/agentd/vllmsim"
	"souk/bus/bustest"
	"souk/cmd/local"
)

// Who has an SGLang server and reads README alone gets an answer: its line of souk up sells the server, its
// line of souk submit and its curl are answered, and the log says once what such a server lacks.
func TestTheFirstAnswerOfAnSGLangServer(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	readme := string(text)
	engine, err := vllmsim.New(vllmsim.Config{Model: "qwen"})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	sglang := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/models":
			io.WriteString(w, `{"data":[{"id":"qwen","object":"model","owned_by":"sglang"}]}`)
		case "/health":
		case "/v1/chat/completions", "/v1/completions":
			engine.ServeHTTP(w, r)
		default: // without --enable-metrics
			http.NotFound(w, r)
		}
	}))
	defer sglang.Close()
	t.Chdir(t.TempDir()) // souk-data is here
	// line returns what README has behind bin/souk in its first line with a mark, up to the comment.
	line := func(mark string) []string {
		_, behind, _ := strings.Cut(readme, mark)
		behind, _, _ = strings.Cut(behind, "\n")
		behind, _, found := strings.Cut(behind, "#")
		if !found {
			t.Fatalf("README has no line with %q", mark)
		}
		args := []string{strings.Fields(mark)[1]}
		if quoted := strings.TrimSpace(behind); strings.HasPrefix(quoted, `"`) {
			return append(args, strings.Trim(quoted, `"`))
		}
		return append(args, strings.Fields(behind)...)
	}
	if !strings.Contains(readme, "bin/souk up --vllm http://127.0.0.1:30000     # SGLang") {
		t.Error("README has no line for SGLang, at its port")
	}
	up := line("bin/souk up")
	up[len(up)-1] = sglang.URL
	var log, out bustest.Buffer
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		c := root()
		c.SetOut(&out)
		c.SetErr(&log)
		c.SetArgs(append(up, "--listen", "127.0.0.1:0")) // other tests have the default's
		ended <- c.ExecuteContext(ctx)
	}()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("souk up: %v: %s", err, &log)
		}
	}()
	bustest.Eventually(t, "it says what to ask", func() bool {
		return strings.Contains(out.String(), "Ask it something:") || len(ended) > 0
	})
	var answer, bill strings.Builder
	c := root()
	c.SetOut(&answer)
	c.SetErr(&bill)
	c.SetArgs(line("bin/souk submit"))
	if err := c.ExecuteContext(t.Context()); err != nil || strings.TrimSpace(answer.String()) == "" ||
		!strings.Contains(bill.String(), "by vllm-1 of general | receipt general/") {
		t.Errorf("%v: %q, %s", err, &answer, &bill)
	}
	state, err := local.ReadState("souk-data")
	if err != nil {
		t.Fatal(err)
	}
	_, curl, _ := strings.Cut(readme, "    curl localhost:8080")
	curl, _, _ = strings.Cut(curl, "\n\n")
	said, err := exec.Command("sh", "-c", "curl -s "+state.HTTP+curl).CombinedOutput()
	if err != nil || !strings.Contains(string(said), `"content":"`) ||
		!strings.Contains(string(said), `"receipt":"`) {
		t.Errorf("curl %s%s: %v: %s", state.HTTP, curl, err, said)
	}
	if n := strings.Count(log.String(), "the engine is sold without what it does not have"); n != 1 {
		t.Error(fmt.Sprintf("the log says %d times what the engine lacks: ", n), &log)
	}
}
