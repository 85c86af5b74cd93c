package integration

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"souk/bus/bustest"
)

// jaeger starts a real Jaeger 2 that keeps traces in memory, where one is installed or SOUK_JAEGER names one,
// and returns where it takes spans by OTLP over HTTP and where it shows them.
func jaeger(t *testing.T) (takes, shows string) {
	t.Helper()
	command := os.Getenv("SOUK_JAEGER")
	if command == "" {
		var err error
		if command, err = exec.LookPath("jaeger"); err != nil {
			t.Skip("jaeger is not installed, and SOUK_JAEGER names none: deploy/sight.md says how to have one")
		}
	}
	var at [3]string
	for i := range at {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		at[i] = l.Addr().String()
		l.Close()
	}
	file := filepath.Join(t.TempDir(), "jaeger.yaml")
	err := os.WriteFile(file, fmt.Appendf(nil, `
service:
  extensions: [jaeger_storage, jaeger_query]
  pipelines: {traces: {receivers: [otlp], exporters: [jaeger_storage_exporter]}}
  telemetry: {metrics: {level: none}}
extensions:
  jaeger_storage: {backends: {memory: {memory: {max_traces: 100}}}}
  jaeger_query: {storage: {traces: memory}, http: {endpoint: %q}, grpc: {endpoint: %q}}
receivers: {otlp: {protocols: {http: {endpoint: %q}}}}
exporters: {jaeger_storage_exporter: {trace_storage: memory}}
`, at[0], at[1], at[2]), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	var said bustest.Buffer
	c := exec.Command(command, "--config", file)
	c.Stdout, c.Stderr = &said, &said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Process.Kill()
		c.Wait()
		if t.Failed() {
			t.Logf("jaeger: %.4000s", said.String())
		}
	})
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		a, err := http.Get("http://" + at[0] + "/api/services")
		if err == nil {
			a.Body.Close()
			var c net.Conn
			if c, err = net.Dial("tcp", at[2]); err == nil {
				c.Close()
				return "http://" + at[2], "http://" + at[0]
			}
		}
		if time.Now().After(end) {
			t.Fatalf("jaeger does not listen: %v\n%.4000s", err, said.String())
		}
	}
}

// A real Jaeger shows a streamed request with each of its spans, within the right ones.
func TestJaegerShowsARequest(t *testing.T) {
	takes, shows := jaeger(t)
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", takes+"/v1/traces")
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
	c := &tracing{t: t, m: start(t, two, hard)}
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	if status, body := c.asked("00-"+trace+"-00f067aa0ba902b7-01", hard.Turns[0].User); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	names, within := map[string]string{}, map[string]string{} // by id; by name
	bustest.Eventually(t, "jaeger has all spans", func() bool {
		a, err := http.Get(shows + "/api/traces/" + trace)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		var shown struct {
			Data []struct {
				Spans []struct {
					SpanID, OperationName string
					References            []struct{ SpanID string }
				}
			}
		}
		if json.NewDecoder(a.Body).Decode(&shown) != nil || len(shown.Data) != 1 {
			return false
		}
		for _, s := range shown.Data[0].Spans {
			names[s.SpanID] = s.OperationName
		}
		clear(within)
		for _, s := range shown.Data[0].Spans {
			for _, r := range s.References { // of a round, which is also linked to what it is within, one
				within[s.OperationName] = names[r.SpanID]
			}
		}
		return len(within) == len(parents) // a completion that is sent again is settled once more
	})
	for name, want := range parents {
		if got, there := within[name]; got != want || !there {
			t.Errorf("%s stands within %q, want %q", name, got, want)
		}
	}
}
