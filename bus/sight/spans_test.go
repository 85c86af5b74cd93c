package sight

import (
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	api "go.opentelemetry.io/otel/trace"

	"souk/bus"
)

func TestSpans(t *testing.T) {
	kept := tracetest.NewInMemoryExporter()
	spans := NewSpans(trace.NewTracerProvider(trace.WithSyncer(kept)))
	within := bus.Trace{Parent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
	for _, unsampled := range []bus.Trace{{}, {Parent: strings.TrimSuffix(within.Parent, "1") + "0"}} {
		if s := spans.Begin("x", unsampled, noon, api.SpanKindServer); s.Records() || s.Trace != unsampled {
			t.Errorf("within %q: %+v", unsampled, s)
		}
	}
	var none *Spans
	if s := none.Root("x", within, noon); s.Records() || s.Trace != within {
		t.Errorf("nobody makes %+v", s)
	}
	root := spans.Root("root", within, noon)
	inner := spans.Begin("inner", root.Trace, noon, api.SpanKindClient, Link(root.Trace))
	inner.Set(Text("evil", "\x1b[2J\n"), Text("empty", ""))
	inner.End(noon.Add(time.Second), "bad\x1b")
	n := line()
	root.EndAs(&n)
	got := kept.GetSpans()
	if len(got) != 2 || got[0].Parent.SpanID() != got[1].SpanContext.SpanID() ||
		got[1].Parent.SpanID().String() != "00f067aa0ba902b7" || got[0].Links[0].SpanContext.SpanID() !=
		got[1].SpanContext.SpanID() || got[0].EndTime.Sub(got[0].StartTime) != time.Second ||
		got[0].Status.Description != `bad\x1b` || got[0].DroppedAttributes != 0 {
		t.Errorf("%+v", got)
	}
	for _, kv := range got[0].Attributes {
		if strings.Contains(kv.Value.String(), "\x1b") || kv.Key == "empty" {
			t.Errorf("%s is %q", kv.Key, kv.Value.String())
		}
	}
	if e := got[1].Events; len(e) != 1 || !e[0].Time.Equal(n.First) {
		t.Errorf("first token: %v", e)
	}
}

// Where nothing is traced a span costs nanoseconds, and nothing is allocated for it.
func TestNoSpanCostsNothing(t *testing.T) {
	var none *Spans
	on := NewSpans(trace.NewTracerProvider())
	for _, s := range []*Spans{none, on} {
		if n := testing.AllocsPerRun(100, func() {
			span := s.Begin("x", bus.Trace{}, noon, api.SpanKindServer)
			span.First(noon)
			span.End(noon, "")
		}); n != 0 {
			t.Errorf("%v allocations", n)
		}
	}
}
