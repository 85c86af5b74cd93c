package clients

import (
	"bufio"
	"cmp"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"souk/agentd"
	"souk/agentd/vllm"
	"souk/bus"
)

// A real server of another kind, where Python has it, or one that runs where SOUK_ENGINE says: it is sold as
// it comes, for longer than a few looks at it, and what another client asked is in nobody's bill.
func TestRealServersOfOtherKinds(t *testing.T) {
	if url := os.Getenv("SOUK_ENGINE"); url != "" {
		info, err := vllm.New(agentd.EngineConfig{URL: url}).Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s %s, without %q", info.Kind, info.Models, info.Lacks)
		sold(t, url, info.Models[0])
		return
	}
	for _, flags := range [][]string{nil, {"metrics"}} {
		c := exec.CommandContext(t.Context(), cmp.Or(os.Getenv("SOUK_PYTHON"), "python3"),
			append([]string{"llamacpp.py"}, flags...)...)
		in, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Skip("there is no Python")
		}
		defer c.Wait()
		defer in.Close()
		url, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			if c.Wait(); c.ProcessState.ExitCode() == 77 {
				t.Skip("what llamacpp.py uses is not installed")
			}
			t.Fatalf("the server ended: %v", c.ProcessState)
		}
		sold(t, strings.TrimSpace(url), "tiny")
	}
}

// sold sells a server, and asks it: a long prompt, short ones for a while, the long one by another client and
// by the first again, and one that no context has room for.
func sold(t *testing.T, url, model string) {
	t.Helper()
	m, _, _, _ := marketOver(t, url, model)
	ask := func(client, question string, tokens int) bus.Result {
		t.Helper()
		body, err := json.Marshal(map[string]any{"max_tokens": tokens, "temperature": 0, "top_k": 1,
			"ignore_eos": true, "messages": []map[string]string{{"role": "user", "content": question}}})
		if err != nil {
			t.Fatal(err)
		}
		task := bus.Task{Client: client, Kind: bus.KindChat, Body: body, Stream: true}
		a, err := m.Ask(t.Context(), task)
		if err != nil {
			t.Fatal(err)
		}
		return a.Result
	}
	long := strings.Repeat("The market of spices. ", 60)
	first := ask("dev", long, 12)
	if first.Code != "" || first.Finish != "length" || first.Usage.Output != 12 || first.Unmetered ||
		first.Usage.Prompt < 200 || first.Usage.Cached != 0 {
		t.Errorf("%+v", first)
	}
	for range 40 { // for longer than a few looks
		if r := ask("dev", "Hello", 8); r.Code != "" {
			t.Fatalf("%+v", r)
		}
	}
	if r := ask("other", long, 4); r.Code != "" || r.Usage.Cached != 0 {
		t.Errorf("another client: %+v", r)
	}
	if r := ask("dev", long, 4); r.Code != "" || r.Usage.Cached < first.Usage.Prompt/2 {
		t.Errorf("the same again, of %d tokens: %+v", first.Usage.Prompt, r)
	}
	if r := ask("dev", strings.Repeat(long, 40), 4); r.Code == "" || r.Paid() != 0 {
		t.Errorf("more than a context: %+v", r)
	}
}
