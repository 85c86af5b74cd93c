package daemon

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"souk/bus"
	"souk/bus/bustest"
)

const within = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// taker is a collector of traces by OTLP over gRPC.
type taker struct {
	collector.UnimplementedTraceServiceServer
	came chan *tracepb.ResourceSpans
}

func (k *taker) Export(ctx context.Context, q *collector.ExportTraceServiceRequest) (
	*collector.ExportTraceServiceResponse, error) {
	if md, _ := metadata.FromIncomingContext(ctx); strings.Join(md.Get("x-secret"), "") == "s" {
		for _, s := range q.ResourceSpans {
			k.came <- s
		}
	}
	return new(collector.ExportTraceServiceResponse), nil
}

func TestTracesOverGRPCAndByFile(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, k := grpc.NewServer(), &taker{came: make(chan *tracepb.ResourceSpans, 1)}
	collector.RegisterTraceServiceServer(server, k)
	go server.Serve(l)
	defer server.Stop()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+l.Addr().String())
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-secret=s")
	path := filepath.Join(t.TempDir(), "spans")
	spans, end, err := Trace("door", Traces{File: path}, slog.Default())
	if err != nil {
		t.Fatal(err)
	}
	spans.Root("door.place", bus.Trace{Parent: within}, time.Now()).End(time.Now(), bus.CodeNoRoom)
	if err := end(); err != nil {
		t.Fatal(err)
	}
	rs := <-k.came
	service := ""
	for _, a := range rs.Resource.Attributes {
		if a.Key == "service.name" {
			service = a.Value.GetStringValue()
		}
	}
	if s := rs.ScopeSpans[0].Spans[0]; service != "souk-door" || s.Name != "door.place" ||
		s.Status.GetMessage() != "no_room" {
		t.Errorf("%s: %v", service, s)
	}
	data, err := os.ReadFile(path)
	var line struct {
		ResourceSpans []struct {
			ScopeSpans []struct {
				Spans []struct{ TraceID, SpanID, ParentSpanID, Name string }
			}
		}
	}
	if err == nil {
		err = json.Unmarshal(data, &line)
	}
	if err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	if s := line.ResourceSpans[0].ScopeSpans[0].Spans[0]; s.TraceID != within[3:35] ||
		s.ParentSpanID != within[36:52] || len(s.SpanID) != 16 || s.Name != "door.place" {
		t.Errorf("%+v in %s", s, data)
	}
	if info, _ := os.Stat(path); info.Mode() != 0o600 {
		t.Errorf("others may read it: %v", info.Mode())
	}
}

// A file of spans is followed by another one when it is full, and one older is kept.
func TestAFileOfSpansIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spans")
	f, err := openTraces(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Stop(t.Context())
	batch := []*tracepb.ResourceSpans{{SchemaUrl: "x"}}
	for range 3 {
		if err := f.UploadTraces(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		f.size += mostTraces
	}
	now, _ := os.ReadFile(path)
	before, err := os.ReadFile(path + ".1")
	if err != nil || strings.Count(string(now), "\n") != 1 || strings.Count(string(before), "\n") != 1 {
		t.Errorf("%s, before it %s: %v", now, before, err)
	}
}

// Spans are written again once their file can be made again, where it could not follow a full one.
func TestAFileOfSpansThatCannotBeMadeForAWhile(t *testing.T) {
	dir := t.TempDir()
	f, err := openTraces(filepath.Join(dir, "spans"))
	if err != nil {
		t.Fatal(err)
	}
	batch := []*tracepb.ResourceSpans{{SchemaUrl: "x"}}
	if err := f.UploadTraces(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	away := filepath.Join(dir, "away")
	f.path, f.size = filepath.Join(away, "spans"), mostTraces
	for range 2 {
		if f.UploadTraces(t.Context(), batch) == nil {
			t.Error("spans are written into a folder that is not there")
		}
	}
	if err := os.Mkdir(away, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := f.UploadTraces(t.Context(), batch); err != nil {
		t.Errorf("once it is there: %v", err)
	}
	if err := f.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestNothingIsTracedUnlessAskedFor(t *testing.T) {
	for _, env := range [][]string{{},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1", "OTEL_SDK_DISABLED", "true"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER", "none"}} {
		t.Run(strings.Join(env, " "), func(t *testing.T) {
			for i := 0; i < len(env); i += 2 {
				t.Setenv(env[i], env[i+1])
			}
			if spans, _, err := Trace("x", Traces{}, slog.Default()); spans != nil || err != nil {
				t.Errorf("%v, %v", spans, err)
			}
		})
	}
	for _, env := range [][]string{{"OTEL_TRACES_SAMPLER", "sometimes"}, {"OTEL_TRACES_SAMPLER_ARG", "2"},
		{"OTEL_TRACES_SAMPLER_ARG", "NaN"}, {"OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"}} {
		t.Run(strings.Join(env, " "), func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
			t.Setenv(env[0], env[1])
			_, _, err := Trace("x", Traces{}, slog.Default())
			if err == nil || !strings.HasPrefix(err.Error(), env[0]) {
				t.Errorf("%v", err)
			}
		})
	}
	if _, _, err := Trace("x", Traces{File: t.TempDir()}, slog.Default()); err == nil {
		t.Error("a directory is taken for a file of spans")
	}
}

// A hundredth of the requests is traced where nobody says otherwise, and all where their client says so.
func TestWhichShareIsTraced(t *testing.T) {
	file := filepath.Join(t.TempDir(), "spans")
	spans, end, err := Trace("x", Traces{File: file}, slog.Default())
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	traced := 0
	for range 20_000 {
		if spans.Root("gateway.request", bus.Trace{}, time.Now()).Records() {
			traced++
		}
	}
	if traced < 120 || traced > 280 {
		t.Errorf("%d of 20,000 are traced, want some 200", traced)
	}
	if not := within[:53] + "00"; spans.Root("x", bus.Trace{Parent: not}, time.Now()).Records() ||
		!spans.Root("x", bus.Trace{Parent: within}, time.Now()).Records() {
		t.Error("the client's own trace is not followed")
	}
}

// A collector that is not there costs one line in the log, and no end waits for it.
func TestACollectorThatRefuses(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://user:secret@"+l.Addr().String())
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "1")
	var log bustest.Buffer
	spans, end, err := Trace("x", Traces{}, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "it is said", func() bool {
		spans.Root("x", bus.Trace{Parent: within}, time.Now()).End(time.Now(), "")
		return strings.Contains(log.String(), "not all exported")
	})
	for range 100 {
		spans.Root("x", bus.Trace{Parent: within}, time.Now()).End(time.Now(), "")
	}
	end()
	if text := log.String(); strings.Count(text, "\n") != 1 || strings.Contains(text, "secret") {
		t.Errorf("%s", text)
	}
}
