package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"souk/agentd"
	"souk/cmd/daemon"
)

func run(ctx context.Context, args []string, out, errs io.Writer) int {
	return daemon.Run(ctx, daemon.Command(role()), args, out, errs)
}

func command(t *testing.T, text string, args ...string) (int, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agentd.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	code := run(context.Background(), append([]string{"--config", path}, args...), &out, &out)
	return code, out.String()
}

func TestExampleIsAConfiguration(t *testing.T) {
	code, out := command(t, example, "--check-config")
	for _, want := range []string{"node: rack-3", "miss: 0.15", "max_completions: 4096", "within: 1m18s"} {
		if code != daemon.ExitOK || !strings.Contains(out, want) {
			t.Errorf("exit code %d, no %q in:\n%s", code, want, out)
		}
	}
}

// Each change makes the example unusable, and is answered with its line and what is wrong with it.
func TestBadConfiguration(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{"  node: rack-3 ", "  nod: rack-3 ", `agentd.yaml:7: unknown field "agentd.nod": write node`},
		{"hit: 0.03, out: 0.6}                                 #", "hit: 0.3, out: 0.6} #",
			"a cached token may not cost more than a computed one"},
		{"slots: 32", "slots: -1", "agentd.yaml:17: agents[0].slots"},
		{`ports: ["8000-8007"]`, `ports: ["8000-7000"]`,
			`agentd.yaml:22: discover.ports[0]: "8000-7000": write a port`},
		{"    slots: 8\n", "    slots: 8\n    id: own\n", "discover.agent: id, engine.url and engine.kv_events are of"},
		{`ports: ["8000-8007"]`, `ports: ["1-60000"]`, "more than 256 ports"},
		{"nats://127.0.0.1:4222", "nats://10.0.0.7:4222",
			"is not on loopback, and may only be reached by TLS"},
	} {
		text := strings.Replace(example, c.from, c.to, 1)
		if text == example {
			t.Fatalf("the example has no %q", c.from)
		}
		code, out := command(t, text, "--check-config")
		if code != daemon.ExitUsage || !strings.Contains(out, c.want) {
			t.Errorf("%s: exit code %d, want %q in:\n%s", c.to, code, c.want, out)
		}
	}
	// All that is wrong is said at once, each with its line.
	text := strings.NewReplacer("slots: 32", "slots: -1", "progress: 30s", "progress: -30s",
		"drain_timeout: 60s", "lease_ttl: 1s", `ports: ["8000-8007"]`, `ports: ["x"]`,
		"every: 5s ", "every: 5ms ", "    slots: 8\n", "    slots: 0\n", "etcd: [",
		"connect_within: 0s\n  etcd: [", "  connect_within: 60s", "#").Replace(example)
	code, all := command(t, text, "--check-config")
	for _, want := range []string{"agentd.yaml:9: lease_ttl: 1s", "agentd.yaml:12: agents[0].engine.progress",
		"agentd.yaml:18: agents[0].slots: -1", "agentd.yaml:23: discover.ports[0]",
		"agentd.yaml:24: discover.every: 5ms", "agentd.yaml:27: discover.agent.slots: 0",
		"agentd.yaml:3: market.connect_within: 0s"} {
		if code != daemon.ExitUsage || !strings.Contains(all, want) {
			t.Errorf("exit code %d, no %q in:\n%s", code, want, all)
		}
	}
	var out bytes.Buffer
	if code := run(context.Background(), []string{}, &out, &out); code != daemon.ExitUsage ||
		!strings.Contains(out.String(), "config") {
		t.Errorf("%d %s", code, out.String())
	}
	// Without a list, the usual ports are looked at as soon as it is said how what is found there is sold.
	usual := "discover: {agent: {domains: [{domain: math, score: 0.5}], slots: 8, price: {miss: 1, hit: " +
		"0.5, out: 2}}}\n"
	if code, out := command(t, usual, "--check-config"); code != daemon.ExitOK ||
		!strings.Contains(out, "- 8000-8007") {
		t.Errorf("with the usual ports: %d %s", code, out)
	}
	if code, out := command(t, "market: {}\n", "--check-config"); code != daemon.ExitUsage ||
		!strings.Contains(out, "agents: none") {
		t.Errorf("without engines: %d %s", code, out)
	}
}

func TestNoMarketThere(t *testing.T) {
	text := strings.NewReplacer("127.0.0.1:4222", "127.0.0.1:1", "connect_within: 60s",
		"connect_within: 1s").Replace(example)
	if code, out := command(t, text); code != daemon.ExitWrong ||
		!strings.Contains(out, "NATS at nats://127.0.0.1:1 did not answer within 1s") {
		t.Errorf("%d %s", code, out)
	}
}

func TestEnginesThatAreSoldTwice(t *testing.T) {
	agent := func(id, url, model string) agentd.AgentConfig {
		return agentd.AgentConfig{ID: id, Engine: agentd.EngineConfig{URL: url}, Model: model}
	}
	got := soldTwice([]agentd.AgentConfig{agent("a", "", "m"), agent("b", "http://127.0.0.1:8000", "m"),
		agent("c", "", "adapter"), agent("d", "", ""), agent("e", "http://127.0.0.1:8001", "m")})
	if !slices.Equal(got, []string{"b", "d"}) {
		t.Errorf("%q", got)
	}
}
