package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"souk/bus"
	"souk/bus/bustest"
	"souk/cmd/daemon"
	"souk/cmd/local"
)

func run(ctx context.Context, path string, errs io.Writer, args ...string) int {
	return daemon.Run(ctx, daemon.Command(role()), append([]string{"--config", path}, args...), io.Discard,
		errs)
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "g.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestBadConfiguration(t *testing.T) {
	for text, want := range map[string]string{
		"listen: 0.0.0.0:8080\n":               "g.yaml:1: listen: \"0.0.0.0:8080\" is not on loopback; keys",
		"listen: x\n":                          "write host:port",
		"gateway: {tls: {cert: c.pem}}\n":      "g.yaml:1: tls: give the files of both",
		"gateway: {proxies: [10.0.0.0/99]}\n":  "g.yaml:1: proxies[0]: \"10.0.0.0/99\": write an address",
		"gateway: {proxy_header: true}\n":      "g.yaml:1: proxy_header: say by proxies",
		"gateway: {drain: 0s}\n":               "g.yaml:1: drain: 0s is not from 1ns to 1h0m0s",
		"gateway: {max_open: 0}\n":             "g.yaml:1: max_open: 0 is not from 1",
		"gateway: {max_memory: 99999999}\n":    "g.yaml:1: max_memory: 99999999 is less than twice what max_conns",
		"gateway: {max_opne: 3}\n":             `unknown field "gateway.max_opne": write max_open`,
		"gateway: {id: 'a b'}\n":               "g.yaml:1: id: \"a b\" is not an id",
		"hub: {domain: math}\n":                "run `hub --config",
		"market: {nats: \"http://127.0.0.1\"}": "write nats://host:port",
	} {
		var errs bustest.Buffer
		if code := run(t.Context(), write(t, text), &errs, "--check-config"); code != daemon.ExitUsage ||
			!strings.Contains(errs.String(), want) {
			t.Errorf("%s: exit code %d, want %q in\n%s", text, code, want, &errs)
		}
	}
}

// Beyond loopback a gateway listens with TLS or behind proxies, and so does its health.
func TestBeyondLoopback(t *testing.T) {
	for _, text := range []string{"gateway: {tls: {cert: c.pem, key: k.pem}}\n", "gateway: {proxies: [10.0.0.7]}\n"} {
		var errs bustest.Buffer
		text = "listen: 0.0.0.0:8080\nhealth: {listen: 0.0.0.0:9408, token_file: token}\n" + text
		if code := run(t.Context(), write(t, text), &errs, "--check-config"); code != daemon.ExitOK {
			t.Errorf("%s: exit code %d: %s", text, code, &errs)
		}
	}
}

func TestTheExampleIsAConfiguration(t *testing.T) {
	var errs bustest.Buffer
	if code := run(t.Context(), write(t, example), &errs, "--check-config"); code != daemon.ExitOK {
		t.Errorf("exit code %d\n%s", code, &errs)
	}
}

// scrape reads a daemon's metrics as Prometheus does.
func scrape(t *testing.T, health string) map[string]*dto.MetricFamily {
	t.Helper()
	r, err := http.Get("http://" + health + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	p := expfmt.NewTextParser(model.UTF8Validation)
	all, err := p.TextToMetricFamilies(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// The daemon beside a market serves the market's keys, says that it is ready, and drains.
func TestServe(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	cfg := local.Default()
	cfg.Listen, *cfg.HTTP = "127.0.0.1:0", "127.0.0.1:0"
	m, err := local.Start(t.Context(), local.Options{Dir: t.TempDir(), Config: cfg})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	key, err := local.ReadKey(m.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(m.KeyFile); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	creds, err := m.Keys.Ensure(bus.RoleGateway, bus.IDs{Name: "gateway-2"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	at, health := bustest.FreePort(t), bustest.FreePort(t)
	file := func(listen, health string) string {
		return write(t, fmt.Sprintf("listen: %s\nmarket: {nats: '%s', etcd: ['%s'], creds: '%s'}\n"+
			"health: {listen: '%s'}\n", listen, m.State.NATS,
			strings.TrimPrefix(m.State.Etcd, "https://"), creds, health))
	}
	ctx, stop := context.WithCancel(t.Context())
	var errs bustest.Buffer
	done := make(chan int)
	go func() { done <- run(ctx, file(at, health), &errs) }()
	ask := func() (answer struct {
		Choices []struct{ Message struct{ Content string } }
	}, status int) {
		r, err := http.NewRequest("POST", "http://"+at+"/v1/chat/completions",
			strings.NewReader(`{"messages":[{"role":"user","content":"What is a souk?"}],"max_tokens":5}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+key)
		r.Header.Set("Idempotency-Key", "one") // so it is kept
		got, err := http.DefaultClient.Do(r)
		if err != nil {
			return answer, 0
		}
		defer got.Body.Close()
		json.NewDecoder(got.Body).Decode(&answer)
		return answer, got.StatusCode
	}
	for end := time.Now().Add(time.Minute); ; <-time.After(10 * time.Millisecond) {
		a, status := ask()
		if status == 200 && a.Choices[0].Message.Content != "" {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("status %d after 20 s:\n%s", status, &errs)
		}
	}
	for name, good := range map[string]func(float64) bool{
		"souk_gateway_memory_bytes":       func(v float64) bool { return v > 1000 && v < 1<<20 },
		"souk_gateway_memory_limit_bytes": func(v float64) bool { return v == 512<<20-8192*16<<10 },
		"souk_gateway_open_answers":       func(v float64) bool { return v == 0 },
		"souk_gateway_kept_answers":       func(v float64) bool { return v == 1 },
	} {
		f := scrape(t, health)[name]
		if f == nil || f.GetType() != dto.MetricType_GAUGE || f.GetHelp() == "" || len(f.Metric) != 1 ||
			!good(f.Metric[0].GetGauge().GetValue()) {
			t.Errorf("/metrics has %s: %v", name, f)
		}
	}
	// another of its id would hear its answers, and cancel those whose clients have left it
	within, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var twin bustest.Buffer
	if code := run(within, file(bustest.FreePort(t), bustest.FreePort(t)), &twin); code != daemon.ExitWrong ||
		!strings.Contains(twin.String(), "\ngateway: the market has a gateway gateway-2 already, process ") ||
		!strings.HasSuffix(twin.String(), ": gateway.id, and souk auth add gateway NAME\n") {
		t.Errorf("a second one of its id: exit code %d\n%s", code, &twin)
	}
	stop()
	if code := <-done; code != daemon.ExitOK {
		t.Errorf("exit code %d:\n%s", code, &errs)
	}
	if strings.Contains(errs.String(), key[20:]) || strings.Contains(errs.String(), "What is") {
		t.Errorf("it logs a key or a prompt:\n%s", &errs)
	}
}
