// Package clients has stock clients of OpenAI's API use the market by base URL and key alone.
package clients

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"souk/agentd/vllmsim"
	"souk/bus"
	"souk/cmd/local"
)

// calls is an engine's answer with a tool call, as vLLM writes it.
const calls = `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"gpt-oss-20b","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}

data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"gpt-oss-20b","choices":[{"index":0,"delta":{"content":null,"tool_calls":[{"id":"call-1","type":"function","index":0,"function":{"name":"weather"}}]},"logprobs":null,"finish_reason":null,"token_ids":null}]}

data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"gpt-oss-20b","choices":[{"index":0,"delta":{"content":null,"tool_calls":[{"index":0,"function":{"arguments":"{\"city\": "}}]},"logprobs":null,"finish_reason":null,"token_ids":[1,2]}]}

data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"gpt-oss-20b","choices":[{"index":0,"delta":{"content":null,"tool_calls":[{"index":0,"function":{"arguments":"\"Oslo\"}"}}]},"logprobs":null,"finish_reason":null,"token_ids":[3,4]}]}

data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"gpt-oss-20b","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"tool_calls"}]}

data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"gpt-oss-20b","choices":[],"usage":{"prompt_tokens":60,"completion_tokens":6,"total_tokens":66}}

data: [DONE]

`

// another is a second call, where the engine is given a second tool.
const another = `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"gpt-oss-20b","choices":[{"index":0,"delta":{"tool_calls":[{"id":"call-2","type":"function","index":1,"function":{"name":"clock"}}]},"logprobs":null,"finish_reason":null}]}

data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"gpt-oss-20b","choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"function":{"arguments":"{\"zone\": \"CET\"}"}}]},"logprobs":null,"finish_reason":null,"token_ids":[5,6]}]}

`

// steps lists the calls of a coding agent's model: tool, name of its argument, argument. The tools are those
// of anthropic_agent.py or of Claude Code.
func steps(body string) [][3]string {
	run := [3]string{"run", "command", "python3 main.py"}
	switch {
	case strings.Contains(body, `"read_file"`):
		return [][3]string{{"read_file", "path", "main.py"}, run}
	case strings.Contains(body, `"name":"Bash"`):
		run[0] = "Bash"
		return [][3]string{{"Bash", "command", "cat main.py"}, run}
	}
	return nil
}

// engineCalls writes what an engine calls of the tools that a request gives it, and reports whether there are
// any. Told to, it breaks off within the first call.
func engineCalls(w http.ResponseWriter, path, body string) bool {
	if done, all := strings.Count(body, `"tool_call_id"`), steps(body); done < len(all) {
		step := all[done]
		w.Header().Set("Content-Type", "text/event-stream")
		strings.NewReplacer("weather", step[0], "city", step[1], "Oslo", step[2],
			"call-1", fmt.Sprint("call-", done)).WriteString(w, calls)
		return true
	}
	if !strings.Contains(body, `"weather"`) || !strings.HasSuffix(path, "/chat/completions") ||
		strings.Contains(body, `"tool_call_id"`) {
		return false
	}
	w.Header().Set("Content-Type", "text/event-stream")
	events := strings.SplitAfter(calls, "\n\n")
	if strings.Contains(body, "Break off") {
		io.WriteString(w, strings.Join(events[:3], ""))
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	if strings.Contains(body, `"clock"`) {
		events[3] += another
	}
	io.WriteString(w, strings.Join(events, ""))
	return true
}

// market has one engine, a simulated one that calls a tool where it is given any.
func market(t *testing.T) (m *local.Market, url, key, slow string) {
	t.Helper()
	engine, err := vllmsim.New(vllmsim.Config{Model: "gpt-oss-20b", MaxModelLen: 128 << 10})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { engine.Close() })
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if engineCalls(w, r.URL.Path, string(body)) {
			return
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		engine.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	return marketOver(t, front.URL, "gpt-oss-20b")
}

// marketOver has one agent, of the engine at a URL.
func marketOver(t *testing.T, engine, model string) (m *local.Market, url, key, slow string) {
	t.Helper()
	cfg, err := local.ParseConfig("test.yaml", []byte(`
listen: 127.0.0.1:0
domains:
  - {name: general, general: true, labels: [general, humanities, social, law, medicine, math, science, finance, code]}
agents:
  - id: only
    model: `+model+`
    price_row: fireworks/gpt-oss-20b
    scores: [{domain: general, score: 0.7}]
    engine: {url: "`+engine+`"}
  - id: pools
    model: bge-m3
    price: {miss: 0.1}
    scores: [{domain: general, score: 0.7}]
    engine: {profile: instant, pooling: true}
clients: {dev: 10, other: 10}
agentd: {scrape_every: 50ms}
`))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if m, err = local.Start(t.Context(), local.Options{Dir: dir, Config: cfg}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(m.Err(), m.Close(),
			local.CheckLedger(context.Background(), dir, t.Output())); err != nil {
			t.Error(err)
		}
	})
	if key, err = local.ReadKey(m.KeyFile); err != nil {
		t.Fatal(err)
	}
	slow, err = local.NewKey(t.Context(), m.Registry, nil, bus.APIKey{Client: "dev", Rate: 1})
	if err != nil {
		t.Fatal(err)
	}
	return m, m.State.HTTP + "/v1", key, slow
}

// Each client's own quick-start, a stream, a tool call, usage, an error, a request that is put off: by base
// URL and key alone. SOUK_PYTHON names a Python that has the packages, NODE_PATH a node_modules folder.
func TestClients(t *testing.T) {
	m, url, key, slow := market(t)
	python := cmp.Or(os.Getenv("SOUK_PYTHON"), "python3")
	for script, with := range map[string]string{"curl.sh": "sh", "openai_python.py": python,
		"openai_embeddings.py": python, "langchain_rag.py": python, "cohere_python.py": python,
		"litellm_python.py": python, "langchain_python.py": python, "openai_node.cjs": "node",
		"ai_sdk.mjs": "node", "langchain_node.mjs": "node", "openai_agents.py": python,
		"autogen_python.py": python, "open_webui.py": python,
		"nats_python.py": python, "anthropic_python.py": python, "anthropic_agent.py": python,
		"anthropic_node.mjs": "node", "claude_code.sh": "sh"} {
		t.Run(script, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			c := exec.CommandContext(ctx, with, script)
			c.Env = append(os.Environ(), "OPENAI_BASE_URL="+url, "OPENAI_API_KEY="+key,
				"ANTHROPIC_BASE_URL="+strings.TrimSuffix(url, "/v1"), "ANTHROPIC_API_KEY="+key,
				"SLOW_API_KEY="+slow, "SOUK_NATS="+m.State.NATS, "SOUK_CREDS="+m.CredsFile)
			out, err := c.CombinedOutput()
			var exit *exec.ExitError
			switch {
			case errors.Is(err, exec.ErrNotFound), errors.As(err, &exit) && exit.ExitCode() == 77:
				t.Skipf("what %s uses is not installed", script)
			case err != nil || !slices.Contains(strings.Split(string(out), "\n"), "ok"):
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
