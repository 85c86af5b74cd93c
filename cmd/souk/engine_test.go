package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
)

// The stand-in as a server of its own: its help, flags that do not fit, and an end by its context.
func TestEngine(t *testing.T) {
	c := engineCommand()
	var help strings.Builder
	c.SetOut(&help)
	c.SetArgs([]string{"--help"})
	if err := c.Execute(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"--max-num-seqs", "--speedup", "instant", "rtxpro6000-llama-3.1-8b"} {
		if !strings.Contains(help.String(), want) {
			t.Errorf("--help does not mention %s", want)
		}
	}
	for _, args := range [][]string{{"--profile", "nonsense"}, {"--port", "99999"}, {"--max-model-len", "-5"},
		{"extra"}, {"--kv-events-config", "{}"}} {
		c := engineCommand()
		c.SetArgs(args)
		c.SetOut(io.Discard)
		if err := c.Execute(); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	out, in := io.Pipe()
	done := make(chan error, 1)
	run := engineCommand()
	run.SetArgs([]string{"--port", "0", "--model", "llama", "--profile", "steady"})
	run.SetOut(in)
	go func() { done <- run.ExecuteContext(ctx) }()
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.Get(strings.TrimSpace(url) + "/v1/models")
	if err != nil {
		t.Fatal(err)
	}
	b, _ := io.ReadAll(r.Body)
	_ = r.Body.Close()
	if !strings.Contains(string(b), `"id":"llama"`) {
		t.Errorf("/v1/models: %s", b)
	}
	page, err := http.NewRequest(http.MethodGet, strings.TrimSpace(url)+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	page.Host = "page.example"
	if r, err = http.DefaultClient.Do(page); err != nil {
		t.Fatal(err)
	}
	_ = r.Body.Close()
	if r.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("a web page that calls itself %s is answered %s", page.Host, r.Status)
	}
	stop()
	if err := <-done; err != nil {
		t.Errorf("it ended with %v", err)
	}
}
