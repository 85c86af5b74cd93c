package sight

import (
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"souk/bus"
	"souk/market"
)

// Spans makes the spans of a part of the market. Nil makes none, at no cost.
type Spans struct{ tracer trace.Tracer }

// NewSpans returns what makes spans by a provider.
func NewSpans(p trace.TracerProvider) *Spans { return &Spans{p.Tracer("souk")} }

// Span is a piece of work that is timed, or none.
type Span struct {
	Trace bus.Trace // what is done for it travels with this
	span  trace.Span
}

// Root begins a span of a request that comes from outside, within the trace that it came with or a new one,
// where the sampler wants that.
func (s *Spans) Root(name string, within bus.Trace, at time.Time) Span {
	if s == nil {
		return Span{Trace: within}
	}
	return s.begin(name, within, at, trace.SpanKindServer)
}

// Begin begins a span within a trace that is sampled; else none.
func (s *Spans) Begin(name string, within bus.Trace, at time.Time, kind trace.SpanKind,
	links ...trace.Link) Span {
	if s == nil || !within.Sampled() {
		return Span{Trace: within}
	}
	return s.begin(name, within, at, kind, trace.WithLinks(links...))
}

func (s *Spans) begin(name string, within bus.Trace, at time.Time, kind trace.SpanKind,
	more ...trace.SpanStartOption) Span {
	ctx, span := s.tracer.Start(within.Context(), name,
		append(more, trace.WithSpanKind(kind), trace.WithTimestamp(at))...)
	if !span.IsRecording() {
		return Span{Trace: within}
	}
	return Span{Trace: bus.TraceIn(ctx), span: span}
}

// Link names another span, in whose trace something was done for.
func Link(t bus.Trace) trace.Link {
	return trace.Link{SpanContext: trace.SpanContextFromContext(t.Context())}
}

// Records reports whether there is a span: only then what it is told is of use.
func (s Span) Records() bool { return s.span != nil }

// Set tells of what it does.
func (s Span) Set(what ...attribute.KeyValue) {
	if s.span != nil {
		none := func(kv attribute.KeyValue) bool { return !kv.Valid() }
		s.span.SetAttributes(slices.DeleteFunc(what, none)...)
	}
}

// First notes when the first token came.
func (s Span) First(at time.Time) {
	if s.span != nil {
		s.span.AddEvent("gen_ai.first_token", trace.WithTimestamp(at))
	}
}

// End ends the span; a code says that it failed. The code is all that it tells of an error, whose message may
// quote a prompt.
func (s Span) End(at time.Time, code bus.Code) {
	if s.span == nil {
		return
	}
	if code != "" {
		text := Plainly(string(code))
		s.span.SetAttributes(attribute.String("souk.code", text), attribute.String("error.type", text))
		s.span.SetStatus(codes.Error, text)
	}
	s.span.End(trace.WithTimestamp(at))
}

// EndAs ends the span of a request that has a line, and tells what that says.
func (s Span) EndAs(n *Line) {
	if s.span == nil {
		return
	}
	if n.Status != 0 {
		s.Set(attribute.Int("http.response.status_code", n.Status))
	}
	s.Set(Text("souk.request", n.Request), Text("souk.client", n.Client), Text("souk.task", n.Task),
		Text("souk.hub", n.Hub), Text("souk.agent", n.Agent))
	if n.Usage != (market.Usage{}) {
		s.Set(Text("souk.paid", n.Paid.String()), Text("souk.receipt", n.Receipt),
			Text("gen_ai.response.model", n.Model))
		s.Set(Usage(n.Usage)...)
	} else {
		s.Set(Text("gen_ai.request.model", n.Model))
	}
	if !n.First.IsZero() {
		s.First(n.First)
	}
	s.End(n.End, n.Code)
}

// Text is an attribute that anybody may have chosen. Where it is empty there is none.
func Text(name, value string) attribute.KeyValue {
	if value == "" {
		return attribute.KeyValue{}
	}
	return attribute.String(name, Plainly(value))
}

// Usage returns the attributes of an answer's tokens.
func Usage(u market.Usage) []attribute.KeyValue {
	return []attribute.KeyValue{attribute.Int("gen_ai.usage.input_tokens", u.Prompt),
		attribute.Int("gen_ai.usage.cache_read.input_tokens", u.Cached),
		attribute.Int("gen_ai.usage.output_tokens", u.Output)}
}

// Operation returns the attributes of a kind of task.
func Operation(kind, model string) []attribute.KeyValue {
	operation := map[string]string{"": "chat", bus.KindChat: "chat", bus.KindCompletion: "text_completion",
		bus.KindEmbedding: "embeddings"}[kind]
	if operation == "" {
		operation = kind
	}
	return []attribute.KeyValue{Text("gen_ai.operation.name", operation), Text("gen_ai.request.model", model),
		attribute.String("gen_ai.provider.name", "souk")}
}
