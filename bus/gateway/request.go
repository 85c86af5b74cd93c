package gateway

import (
	"cmp"
	"crypto/rand"
	"net/http"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"souk/bus"
	"souk/bus/sight"
)

// requestHeader names a request in its answer, in the gateway's log and in journals.
const requestHeader = "X-Request-Id"

// request is the name of a request, and what is known of it.
type request struct {
	id    string
	ours  bool      // its client gave it none, or none that is plain
	trace bus.Trace // that it came with, or its own
	line  sight.Line
	span  sight.Span
	began bool // an answer, whose end the line tells
}

// requestOf is the name that a request came with, or a new one.
func requestOf(r *http.Request) *request {
	of := new(request)
	if len(r.Header["Traceparent"]) > 0 { // most bring none, and to look for all spellings takes a while
		of.trace = bus.TraceOf(bus.Header(r.Header))
	}
	said := r.Header[requestHeader]
	if len(said) == 1 && said[0] != "" && bus.Plain(said[0], bus.MaxRequest) {
		of.id = said[0]
	} else {
		of.id, of.ours = rand.Text(), true
	}
	of.line = sight.Line{Begin: time.Now(), Request: of.id, Trace: of.trace.ID(), Status: http.StatusOK}
	return of
}

// requestIn is the request that a handler has.
func requestIn(r *http.Request) *request {
	if b, ok := r.Body.(*toEnd); ok {
		return b.of
	}
	return new(request)
}

// label says of a task which request it is of, unless its id does, with which key that came, and its tags.
func (s *Server) label(t *bus.Task, of *request, k *bus.APIKey, tags []bus.Tag) {
	salt := ""
	if s.c.HashTags {
		salt = k.Client
	}
	t.Key, t.Tags = k.ID, bus.Tags(tags, salt)
	if t.ID != of.id && !(of.ours && strings.HasPrefix(t.ID, of.id)) {
		t.Request = of.id
	}
}

// tell logs a request whose handler has ended, unless that began an answer, or the request was for nothing
// that is counted.
func (s *Server) tell(of *request) {
	if !of.began && (of.line.Route != "" || of.line.Code != "") {
		of.line.End = time.Now()
		s.lines.Add(of.line)
		of.span.EndAs(&of.line)
	}
}

// traced begins the span of a request whose key is good: strangers fill no collector.
func (s *Server) traced(of *request) {
	of.span = s.d.Spans.Root("gateway.request", of.trace, of.line.Begin)
	if of.span.Records() {
		of.trace = of.span.Trace
		of.line.Trace = of.trace.ID()
		method, route, _ := strings.Cut(of.line.Route, " ")
		of.span.Set(attribute.String("http.request.method", method), attribute.String("http.route", route))
	}
}

// line returns the line of the request that began an answer, once that has ended. The lock is held.
func (a *answer) line() *sight.Line {
	n := &a.of.line
	n.End, n.Task, n.Model = time.Now(), a.shape.ID, a.shape.Model
	n.Hub, n.Agent = a.accepted.Hub, a.accepted.Agent
	if first := a.first.Load(); first > 0 {
		n.First = n.Begin.Add(time.Duration(first))
	}
	for _, r := range a.results {
		if r == nil {
			continue
		}
		n.Hub, n.Agent, n.Model = cmp.Or(r.Hub, n.Hub), cmp.Or(r.Agent, n.Agent), cmp.Or(r.Model, n.Model)
		n.Usage.Prompt, n.Usage.Cached = n.Usage.Prompt+r.Usage.Prompt, n.Usage.Cached+r.Usage.Cached
		n.Usage.Output += r.Usage.Output
		n.Paid, _ = n.Paid.Add(r.Paid())
		if r.Receipt != nil && a.alone() {
			n.Receipt = r.Receipt.ID
		}
	}
	if why := a.refused; why != nil {
		if n.Code = why.code; !a.began {
			n.Status = why.status()
		}
	}
	return n
}
