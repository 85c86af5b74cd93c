package serve

import (
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"souk/bus"
	"souk/bus/sight"
	"souk/hub"
)

// spans follow messages until the hub answers them: a task until an agent has it or it is refused, a
// completion until what it settles is durable. The Node knows nothing of them.
type spans struct {
	by     *sight.Spans
	domain string

	mu   sync.Mutex
	open map[string]sight.Span // by inbox
}

// mostSpans bounds the spans that are open: some answers are never given, as after a lost leadership.
const mostSpans = 4096

// hear begins the span of a message, if its sender's is traced, and returns the trace to go on with.
func (s *spans) hear(name string, m bus.Msg) bus.Trace {
	span := s.by.Begin(name, bus.TraceOf(m.Header), time.Now(), trace.SpanKindServer)
	if !span.Records() {
		return span.Trace
	}
	span.Set(attribute.String("souk.domain", s.domain))
	if m.Reply == "" { // nothing is answered
		span.End(time.Now(), "")
		return span.Trace
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) >= mostSpans {
		s.endAll()
	}
	s.open[m.Reply] = span
	return span.Trace
}

// answered ends the span of the message that an answer is to.
func (s *spans) answered(l hub.Message) {
	if s.by == nil {
		return
	}
	s.mu.Lock()
	span, traced := s.open[l.Subject]
	delete(s.open, l.Subject)
	s.mu.Unlock()
	if !traced {
		return
	}
	var code bus.Code
	switch b := l.Body.(type) {
	case *bus.Answer:
		if b.Accepted != nil {
			span.Set(sight.Text("souk.agent", b.Accepted.Agent), sight.Text("souk.task", b.Accepted.Task))
		} else if b.Result != nil {
			code = b.Result.Code
			span.Set(sight.Text("souk.task", b.Result.Task))
		}
	case *bus.CompletionAck:
		code = b.Code
		span.Set(sight.Text("souk.receipt", b.Hold))
	}
	span.End(time.Now(), code)
}

// rounds tells of the rounds whose dispatches were just sent, each linked to its tasks that are traced, and
// within the first of them.
func (s *spans) rounds(begun time.Time, all []bus.Dispatch) {
	if s.by == nil {
		return
	}
	for first := range all {
		d := &all[first]
		if !d.Task.Trace.Sampled() || linked(all[:first], d.Round) != nil {
			continue
		}
		span := s.by.Begin("hub.round", d.Task.Trace, begun, trace.SpanKindInternal, linked(all, d.Round)...)
		awards := 0
		for i := range all {
			if all[i].Round == d.Round {
				awards++
			}
		}
		span.Set(attribute.String("souk.domain", s.domain), attribute.Int64("souk.round", int64(d.Round)),
			attribute.Int("souk.awards", awards))
		span.End(time.Now(), "")
	}
}

// linked returns links to the tasks of a round that are traced.
func linked(all []bus.Dispatch, round uint64) (out []trace.Link) {
	for i := range all {
		if d := &all[i]; d.Round == round && d.Task.Trace.Sampled() {
			out = append(out, sight.Link(d.Task.Trace))
		}
	}
	return out
}

// endAll ends those whose answers will not be given. The lock is held.
func (s *spans) endAll() {
	for inbox, span := range s.open {
		span.End(time.Now(), bus.CodeUnknown)
		delete(s.open, inbox)
	}
}
