package vllm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"souk/agentd"
	"souk/bus"
	"souk/bus/bustest"
	"souk/bus/openai"
)

// The same expectations of a running server: VLLM_URL=http://127.0.0.1:8000 go test ./agentd/vllm -run
// TestRunningServer
func TestRunningServer(t *testing.T) {
	url := os.Getenv("VLLM_URL")
	if url == "" {
		t.Skip("VLLM_URL names no server")
	}
	ctx := t.Context()
	e := engineAt(t, url)
	info, err := e.Info(ctx)
	if err != nil || len(info.Models) == 0 || info.Version == "" || info.MaxModelLen <= 0 ||
		info.BlockSize <= 0 || info.KVTokens < info.BlockSize {
		t.Fatalf("%+v %v", info, err)
	}
	t.Logf("%+v", info)
	load, err := e.Load(ctx)
	before := load.Generated
	if err != nil || before == nil {
		t.Fatal(load, err)
	}
	body := func(kind, text string) json.RawMessage {
		if kind == bus.KindCompletion {
			return json.RawMessage(fmt.Sprintf(`{"prompt":%q,"ignore_eos":true,"souk":{"worth":1},"model":"nobody's"}`, text))
		}
		return json.RawMessage(fmt.Sprintf(`{"messages":[{"role":"user","content":%q}],"ignore_eos":true,"max_completion_tokens":3}`, text))
	}
	for _, kind := range []string{bus.KindChat, bus.KindCompletion} {
		for turn := range 2 {
			got := ask(t, e, agentd.Request{ID: fmt.Sprint("t-", kind, turn), Kind: kind,
				Model: info.Models[0], MaxTokens: 40,
				Body: body(kind,
					"Tell me of the sea, the ships on it and the men in them. And of what they saw at "+
						"night, when no wind blew and the water lay still as oil under the stars; and of "+
						"the harbours, the merchants, the songs.")})
			a := got.Answer
			if got.Err != nil || a.Finish != "length" || a.Usage.Output != 40 || len(got.Tokens) != 40 ||
				got.Count != 40 || a.Usage.Prompt != got.Prompt || got.Prompt == 0 || a.Unmetered ||
				a.NoCacheReport || a.TTFT <= 0 {
				t.Errorf("%s: %+v", kind, got)
			}
			if turn == 1 && a.Usage.Cached < info.BlockSize {
				t.Errorf("%s asked twice: %d of %d tokens cached", kind, a.Usage.Cached, a.Usage.Prompt)
			}
			t.Logf("%s: %d of %d cached, TTFT %v, ITL %v", kind, a.Usage.Cached, a.Usage.Prompt, a.TTFT,
				a.ITL)
		}
	}
	var refused *agentd.EngineError
	if got := ask(t, e, agentd.Request{Kind: bus.KindChat, Model: "nobody's", MaxTokens: 1,
		Body: body("", "x")}); !errors.As(got.Err, &refused) || refused.Status != 404 ||
		refused.Code != bus.CodeEngineRefused {
		t.Errorf("unknown model: %v", got.Err)
	}
	mine := errors.New("enough")
	a, err := e.Complete(ctx, agentd.Request{Kind: bus.KindChat, Model: info.Models[0], MaxTokens: 4000,
		Body: body("", "Count to a million.")}, func(c agentd.Chunk) error {
		if c.Count > 0 {
			return mine
		}
		return nil
	})
	if err != mine || !a.Unmetered || a.Usage.Prompt == 0 {
		t.Errorf("cut: %+v %v", a, err)
	}
	bustest.Eventually(t, "the slot is free", func() bool {
		page, err := e.get(context.Background(), "/metrics")
		running, n := -1.0, dialectOf("vllm").generated(page)
		for _, m := range samples(page, "vllm:num_requests_running") {
			running = m.GetUntyped().GetValue()
		}
		return err == nil && running == 0 && *n > *before && *n < *before+4000
	})
}

// Whatever is written into a prompt, a running server computes no more of it than its bytes and the
// measured template say; and what they do not say it counts beforehand, as it computes it.
func TestRunningServerWithinTheBound(t *testing.T) {
	url := os.Getenv("VLLM_URL")
	if url == "" {
		t.Skip("VLLM_URL names no server")
	}
	e := engineAt(t, url)
	info, err := e.Info(t.Context())
	if err != nil || info.Template == nil {
		t.Fatalf("%+v %v", info, err)
	}
	t.Logf("%+v", *info.Template)
	tool := func(name string) string {
		return `{"type":"function","function":{"name":"` + name +
			`","parameters":{"type":"object","properties":{"!":{"type":"number","enum":[1e15,1e15,1e15,1e15]}}}}}`
	}
	for name, body := range map[string]string{
		"punctuation": `{"messages":[{"role":"user","content":"` + strings.Repeat("!?", 2000) + `"}]}`,
		"notes": `{"messages":[{"role":"user","content":"` + strings.Repeat("\U0001D160", 500) +
			`"}]}`,
		"many messages": `{"messages":[` +
			strings.Repeat(`{"role":"user","content":"!"},{"role":"assistant","content":""},`, 200) +
			`{"role":"user","content":"!"}]}`,
		"parts": `{"messages":[{"role":"user","content":[` +
			strings.Repeat(`{"type":"text","text":"!"},`, 400) + `"!"]}]}`,
		"tools": `{"messages":[{"role":"user","content":"!"}],"tools":[` + strings.Repeat(tool("!")+",", 30) +
			tool("?") + `]}`,
		"calls": `{"messages":[{"role":"user","content":"!"},{"role":"assistant","tool_calls":[` +
			strings.Repeat(`{"id":"1","type":"function","function":{"name":"f","arguments":"{\"!\":[1e15,1e15,1e15,1e15]}"}},`, 30) +
			`{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"1","content":"!"}]}`,
		"a word for the template": `{"messages":[{"role":"user","content":"!"}],"chat_template_kwargs":{"bos_token":"` + strings.Repeat("!?", 31) + `"}}`,
		"effort":                  `{"messages":[{"role":"user","content":"!"}],"reasoning_effort":"high","response_format":{"type":"json_object"}}`,
		"completion":              `{"prompt":"` + strings.Repeat("!?", 2000) + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			p, err := openai.Measure([]byte(body))
			if err != nil {
				t.Fatal(err)
			}
			r := agentd.Request{Kind: bus.KindChat, Model: info.Models[0], MaxTokens: 1,
				Body: json.RawMessage(body), Count: true}
			if name == "completion" {
				r.Kind = bus.KindCompletion
			}
			counted, computed := 0, 0
			if _, err := e.Complete(t.Context(), r, func(c agentd.Chunk) error {
				counted, computed = counted+c.Counted, computed+c.Prompt
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			bound, ok := info.Template.Bound(&p)
			t.Logf("%d bytes, estimate %d, bound %d (%v), computed %d", p.Bytes, p.Tokens, bound, ok,
				computed)
			if ok && computed > bound || computed != counted || computed == 0 {
				t.Errorf("computed %d, bound %d, counted %d", computed, bound, counted)
			}
		})
	}
}
