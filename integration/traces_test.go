package integration

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	spanpb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"souk/agentd/vllmsim"
	"souk/bus"
	"souk/bus/bustest"
	"souk/cmd/local"
	"souk/cmd/replay"
)

// tracing is a collector of traces by OTLP over HTTP, and a market that sends it all of its spans.
type tracing struct {
	t *testing.T
	m *local.Market

	mu    sync.Mutex
	spans map[string]*spanpb.Span // by id
	raw   bytes.Buffer
}

func traced(t *testing.T, yaml string, ds ...replay.Dialogue) *tracing {
	t.Helper()
	c := &tracing{t: t, spans: map[string]*spanpb.Span{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(r.Body)
		var q collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(data, &q)
		}
		if err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("X-Secret") != "collectors" {
			t.Errorf("%s: %v", r.URL, err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.raw.Write(data)
		for _, rs := range q.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				for _, s := range ss.Spans {
					c.spans[hex.EncodeToString(s.SpanId)] = s
				}
			}
		}
	}))
	t.Cleanup(server.Close) // after the market, which sends its last
	// metrics go elsewhere
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", server.URL+"/v1/traces")
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-secret=collectors")
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
	c.m = start(t, yaml, ds...)
	return c
}

// of returns the spans of a trace by name, once those named are there, each so often.
func (c *tracing) of(trace string, want map[string]int) (out map[string][]*spanpb.Span) {
	c.t.Helper()
	bustest.Eventually(c.t, fmt.Sprintf("trace %s has %v", trace, want), func() bool {
		out = map[string][]*spanpb.Span{}
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, s := range c.spans {
			if hex.EncodeToString(s.TraceId) == trace {
				out[s.Name] = append(out[s.Name], s)
			}
		}
		for name, n := range want {
			if len(out[name]) < n {
				return false
			}
		}
		return true
	})
	return out
}

// parent returns the name of a span's parent; "" where that is not here.
func (c *tracing) parent(s *spanpb.Span) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.spans[hex.EncodeToString(s.ParentSpanId)]; p != nil {
		return p.Name
	}
	return ""
}

// value returns an attribute as text.
func value(s *spanpb.Span, name string) string {
	for _, kv := range s.Attributes {
		if kv.Key == name {
			if n := kv.Value.GetIntValue(); n != 0 {
				return fmt.Sprint(n)
			}
			return kv.Value.GetStringValue()
		}
	}
	return ""
}

// asked streams an answer over HTTP within a trace.
func (c *tracing) asked(traceparent, question string) (status int, body string) {
	c.t.Helper()
	key, err := local.ReadKey(c.m.KeyFile)
	if err != nil {
		c.t.Fatal(err)
	}
	q, _ := json.Marshal(question)
	r, err := http.NewRequestWithContext(c.t.Context(), "POST", c.m.State.HTTP+"/v1/chat/completions",
		strings.NewReader(`{"stream":true,"messages":[{"role":"user","content":`+string(q)+`}]}`))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+key)
	if traceparent != "" {
		r.Header.Set("Traceparent", traceparent)
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return a.StatusCode, string(text)
}

// parents says within which span each is made.
var parents = map[string]string{"gateway.request": "", "door.place": "gateway.request",
	"hub.admit": "door.place", "hub.round": "hub.admit", "agent.serve": "hub.admit",
	"engine.request": "agent.serve", "hub.settle": "agent.serve"}

func TestOneTraceOfOneRequest(t *testing.T) {
	c := traced(t, two, hard)
	const trace, client = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	if status, body := c.asked("00-"+trace+"-"+client+"-01", hard.Turns[0].User); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	all := c.of(trace, map[string]int{"gateway.request": 1, "door.place": 1, "hub.admit": 1, "hub.round": 1,
		"agent.serve": 1, "engine.request": 1, "hub.settle": 1})
	if len(all) != len(parents) {
		t.Errorf("%d kinds of spans, want %d", len(all), len(parents))
	}
	for name, spans := range all {
		if len(spans) != 1 || c.parent(spans[0]) != parents[name] {
			t.Errorf("%d of %s, within %q, want 1 within %q", len(spans), name, c.parent(spans[0]), parents[name])
		}
		if s := spans[0]; s.EndTimeUnixNano < s.StartTimeUnixNano || s.Status.GetCode() != 0 {
			t.Errorf("%s: %v", name, s)
		}
	}
	root, serve := all["gateway.request"][0], all["agent.serve"][0]
	if hex.EncodeToString(root.ParentSpanId) != client {
		t.Errorf("the client's span is %s, the parent of the gateway's %x", client, root.ParentSpanId)
	}
	if links := all["hub.round"][0].Links; len(links) != 1 ||
		!bytes.Equal(links[0].SpanId, all["hub.admit"][0].SpanId) {
		t.Errorf("the round is linked to %v", links)
	}
	for name, want := range map[string]string{"gen_ai.operation.name": "chat",
		"gen_ai.response.model":      "gpt-oss-20b",
		"gen_ai.usage.output_tokens": value(root, "gen_ai.usage.output_tokens"), "souk.agent": "first",
		"souk.paid": value(root, "souk.paid"), "souk.receipt": value(root, "souk.receipt")} {
		if got := value(serve, name); got != want || got == "" {
			t.Errorf("%s of agent.serve is %q, want %q", name, got, want)
		}
	}
	if len(root.Events) != 1 || value(root, "http.route") != "/v1/chat/completions" ||
		value(root, "http.response.status_code") != "200" {
		t.Errorf("gateway.request: %v", root)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	key, _ := local.ReadKey(c.m.KeyFile)
	for _, secret := range []string{hard.Turns[0].User, "is a place for coffee", key, key[len(key)-20:]} {
		if bytes.Contains(c.raw.Bytes(), []byte(secret)) {
			t.Errorf("the collector has %.20q", secret)
		}
	}
}

// An answer that breaks off and goes on elsewhere is one trace: of both agents, and of both ways there.
func TestATraceGoesOnElsewhere(t *testing.T) {
	c := traced(t, two, hard)
	first := c.m.Engine("first")
	defer first.Heal()
	for i := range 20 {
		first.Heal()
		if err := first.Inject(vllmsim.Fault{Kind: vllmsim.Reset, After: 5, Times: 1}); err != nil {
			t.Fatal(err)
		}
		bustest.Eventually(t, "eight slots are free", func() bool { return c.m.Free() == 8 })
		trace := fmt.Sprintf("%032x", i+1)
		if status, body := c.asked("00-"+trace+"-00f067aa0ba902b7-01", hard.Turns[0].User); status != 200 {
			t.Fatalf("%d %s", status, body)
		}
		all := c.of(trace, map[string]int{"gateway.request": 1, "hub.settle": 1, "agent.serve": 1,
			"door.place": 1})
		if len(all["door.place"]) == 1 {
			continue // the first was not chosen
		}
		all = c.of(trace, map[string]int{"agent.serve": 2, "engine.request": 2, "hub.settle": 2,
			"hub.round": 2, "hub.admit": 2})
		failed := 0
		for name, spans := range all {
			for _, s := range spans {
				if c.parent(s) != parents[name] {
					t.Errorf("%s stands within %q, want %q", name, c.parent(s), parents[name])
				}
				if name == "agent.serve" && value(s, "souk.code") == string(bus.CodeEngineFailed) {
					failed++
				}
			}
		}
		if root := all["gateway.request"][0]; failed != 1 || value(root, "souk.agent") != "second" ||
			root.Status.GetCode() != 0 {
			t.Errorf("%d agents failed, want 1; %v", failed, root)
		}
		return
	}
	t.Fatal("the first agent is never chosen")
}

// Whoever asks decides whether the request is traced where it says so. Else a hundredth is, and who is not
// traced costs no span; what is no trace context is none, and the request is served.
func TestWhoIsTraced(t *testing.T) {
	t.Setenv("OTEL_TRACES_SAMPLER", "parentbased_always_off")
	c := traced(t, two, hard)
	for _, hostile := range []string{"", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00",
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01", "ff-" + strings.Repeat("f", 49) + "-01",
		strings.Repeat("0-", 4000), "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more", "\x80\xff"} {
		if status, body := c.asked(hostile, hard.Turns[0].User); status != 200 {
			t.Errorf("%.80q: %d %s", hostile, status, body)
		}
	}
	const last = "0af7651916cd43dd8448eb211c80319c"
	c.asked("00-"+last+"-00f067aa0ba902b7-01", hard.Turns[0].User)
	c.of(last, map[string]int{"gateway.request": 1, "hub.settle": 1})
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if hex.EncodeToString(s.TraceId) != last {
			t.Errorf("a span %s of %x", s.Name, s.TraceId)
		}
	}
}

// A collector that takes what is sent and never answers holds up nobody, neither requests nor the end.
func TestACollectorThatHangs(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	came := make(chan struct{}, 1)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			select {
			case came <- struct{}{}:
			default:
			}
		}
	}()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+l.Addr().String()) // of metrics, too
	t.Setenv("OTEL_TRACES_SAMPLER", "always_on")
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
	t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "40")
	cfg, err := local.ParseConfig("test.yaml", []byte(two))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "spans")
	cfg.Traces.File = file
	m, err := local.Start(t.Context(), local.Options{Dir: t.TempDir(), Config: cfg,
		Log: slog.New(slog.DiscardHandler), Known: []replay.Dialogue{hard}, Within: 4 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	c := &tracing{t: t, m: m}
	for range 10 {
		if status, body := c.asked("", hard.Turns[0].User); status != 200 {
			t.Fatalf("%d %s", status, body)
		}
	}
	<-came
	begun := time.Now()
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); took > 8*time.Second {
		t.Errorf("it takes %v to end", took)
	}
	// what is written down stands there all the same
	data, err := os.ReadFile(file)
	if err != nil || bytes.Count(data, []byte(`"name":"engine.request"`)) < 10 {
		t.Errorf("%d engine.request in %d bytes, %v", bytes.Count(data, []byte("engine.request")), len(data), err)
	}
}
