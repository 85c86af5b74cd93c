package serve

import (
	"fmt"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"souk/bus"
	"souk/bus/sight"
	"souk/hub"
)

// However many messages are never answered, so many spans are open and no more; an answer ends its own.
func TestSpansOfMessages(t *testing.T) {
	kept := tracetest.NewInMemoryExporter()
	s := spans{by: sight.NewSpans(trace.NewTracerProvider(trace.WithSyncer(kept))), domain: "math",
		open: map[string]sight.Span{}}
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	header := bus.Trace{Parent: parent}.Header(nil)
	for i := range 2*mostSpans + 1 {
		got := s.hear("hub.admit", bus.Msg{Reply: fmt.Sprint("inbox.", i), Header: header})
		if got.ID() != parent[3:35] || got.Parent == parent {
			t.Fatalf("it goes on with %+v", got)
		}
	}
	if len(s.open) != 1 || len(kept.GetSpans()) != 2*mostSpans {
		t.Fatalf("%d are open, %d have ended", len(s.open), len(kept.GetSpans()))
	}
	kept.Reset()
	last := fmt.Sprint("inbox.", 2*mostSpans)
	for range 2 {
		s.answered(hub.Message{Subject: last, Body: &bus.Answer{Result: &bus.Result{Code: bus.CodeNoRoom}}})
	}
	if got := kept.GetSpans(); len(s.open) != 0 || len(got) != 1 || got[0].Status.Description != "no_room" {
		t.Errorf("%d are open, ended: %+v", len(s.open), got)
	}
	kept.Reset()
	a := s.hear("hub.admit", bus.Msg{Reply: "a", Header: header})
	b := s.hear("hub.admit", bus.Msg{Reply: "b", Header: header})
	s.rounds(time.Now(), []bus.Dispatch{{Round: 7}, {Round: 7, Task: bus.Task{Trace: a}},
		{Round: 8}, {Round: 7, Task: bus.Task{Trace: b}}})
	got := kept.GetSpans()
	if len(got) != 1 || len(got[0].Links) != 2 || got[0].Parent.SpanID().String() != a.Parent[36:52] ||
		got[0].Links[1].SpanContext.SpanID().String() != b.Parent[36:52] {
		t.Errorf("rounds: %+v", got)
	}
}
