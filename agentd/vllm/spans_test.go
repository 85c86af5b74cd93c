package vllm

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"souk/agentd"
	"souk/bus"
	"souk/bus/sight"
)

// The engine's own spans stand within that of the request to it, and what the engine says against a prompt is
// in none.
func TestTheEngineIsToldOfTheSpan(t *testing.T) {
	var parent string
	refuses := false
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		parent = r.Header.Get("Traceparent")
		if refuses {
			http.Error(w, `{"error":{"message":"the prompt Hello there is bad"}}`, http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		send(w, role, finish, done)
	}).URL
	kept := tracetest.NewInMemoryExporter()
	provider := trace.NewTracerProvider(trace.WithSyncer(kept))
	e := engineAt(t, url, func(*agentd.EngineConfig) {})
	e.Spans = sight.NewSpans(provider)
	r := hello
	r.Trace = bus.Trace{Parent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
	if s := ask(t, e, r); s.Err != nil {
		t.Fatal(s.Err)
	}
	spans := kept.GetSpans()
	if len(spans) != 1 || spans[0].Name != "engine.request" ||
		parent != "00-"+r.Trace.ID()+"-"+spans[0].SpanContext.SpanID().String()+"-01" ||
		spans[0].Parent.SpanID().String() != "00f067aa0ba902b7" {
		t.Fatalf("the engine hears of %s, spans %+v", parent, spans)
	}
	kept.Reset()
	refuses = true
	var own *agentd.EngineError
	if s := ask(t, e, r); !errors.As(s.Err, &own) {
		t.Fatal(s.Err)
	}
	s := kept.GetSpans()[0]
	if s.Status.Code != codes.Error || s.Status.Description != string(bus.CodeEngineRefused) ||
		len(s.Events) > 0 {
		t.Errorf("%+v", s)
	}
	for _, kv := range s.Attributes {
		if strings.Contains(kv.Value.String(), "Hello") {
			t.Errorf("%s quotes the prompt", kv.Key)
		}
	}
	r.Trace = bus.Trace{Parent: strings.TrimSuffix(r.Trace.Parent, "1") + "0"}
	kept.Reset()
	ask(t, e, r)
	if len(kept.GetSpans()) != 0 || parent != r.Trace.Parent {
		t.Errorf("of a trace that is not sampled there are %v, and the engine hears %s", kept.GetSpans(), parent)
	}
	provider.Shutdown(context.Background())
}
