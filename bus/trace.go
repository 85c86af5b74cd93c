package bus

import (
	"context"
	"maps"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Trace is a W3C trace context as it travels in headers, under the lower-case keys traceparent and
// tracestate. Every part passes on what it was given.
type Trace struct{ Parent, State string }

// ID returns the id of the trace, 32 digits; "" of a zero Trace.
func (t Trace) ID() string {
	if len(t.Parent) < len("00-")+32 {
		return ""
	}
	return t.Parent[3:][:32]
}

// PrefixEvery is the distance in bytes between prefixes that end inside a long message.
const PrefixEvery = 512

// w3c reads and writes trace contexts (W3C Trace Context, level 1).
var w3c propagation.TraceContext

// carrier is a Header under lower-case keys. OpenTelemetry's own HeaderCarrier writes Traceparent, which
// other readers of NATS headers, where case counts, do not find.
type carrier Header

func (c carrier) Get(key string) string { return Header(c).Get(key) }
func (c carrier) Set(key, value string) { c[strings.ToLower(key)] = []string{value} }
func (c carrier) Keys() []string        { return slices.Collect(maps.Keys(c)) }

// TraceOf returns the trace context in a header, zero if there is none or it is malformed.
func TraceOf(h Header) Trace {
	if len(h) == 0 {
		return Trace{}
	}
	ctx := w3c.Extract(context.Background(), carrier(h))
	return TraceIn(ctx)
}

// TraceIn returns the trace context of the span in ctx, zero if there is none.
func TraceIn(ctx context.Context) Trace {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return Trace{}
	}
	c := carrier{}
	w3c.Inject(ctx, c)
	return Trace{Parent: c.Get("traceparent"), State: c.Get("tracestate")}
}

// Context returns a context in which spans are made within t.
func (t Trace) Context() context.Context {
	if t.Parent == "" {
		return context.Background()
	}
	return w3c.Extract(context.Background(), carrier(t.Header(nil)))
}

// Sampled reports whether what is done within t is to be traced, too.
func (t Trace) Sampled() bool { return t.Parent != "" && t.Parent[len(t.Parent)-1]&1 == 1 }

// Header returns h with t in it. It makes a header where h is nil, and none for a zero Trace.
func (t Trace) Header(h Header) Header {
	if t.Parent == "" {
		return h
	}
	if h == nil {
		h = make(Header, 2)
	}
	h["traceparent"] = []string{t.Parent}
	if t.State != "" {
		h["tracestate"] = []string{t.State}
	}
	return h
}
