// Package vllm speaks to a vLLM server: its OpenAI API with streamed answers, its metrics, its identity; and
// to other servers of that API, as far as they have what it has (see dialect). Facts about vLLM are those of
// 0.32.0, checked against recordings of one.
package vllm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"souk/agentd"
	"souk/bus"
	"souk/bus/rawconn"
	"souk/bus/sight"
	"souk/market"
)

// Engine is the client of one server. It is safe for many goroutines.
type Engine struct {
	cfg       agentd.EngineConfig
	base      string
	transport *http.Transport
	drains    sync.WaitGroup
	pace      pace
	beat      beat
	server    atomic.Pointer[server]

	Spans *sight.Spans // nil: none
}

var _ agentd.Engine = (*Engine)(nil)

// New makes a client; it connects when first used.
func New(cfg agentd.EngineConfig) *Engine {
	cfg = cfg.WithDefaults()
	e := &Engine{
		cfg:  cfg,
		base: strings.TrimRight(cfg.URL, "/"),
		beat: beat{every: cfg.RelayEvery},
		transport: &http.Transport{
			DialContext: rawconn.Dialer{Dialer: net.Dialer{Timeout: 5 * time.Second,
				KeepAlive: 15 * time.Second}}.DialContext,
			// one for each stream that ran at once: dialling costs more than keeping
			MaxIdleConnsPerHost:   512,
			IdleConnTimeout:       4 * time.Second, // vLLM closes idle connections after 5 s: be first
			ReadBufferSize:        readSize,
			WriteBufferSize:       16 << 10,
			DisableCompression:    true,
			ResponseHeaderTimeout: 0, // the watchdog's business: headers come with the first event
		},
	}
	e.server.Store(whole(cfg.Kind))
	return e
}

// Close drops idle connections and waits until ended streams have let go of theirs.
func (e *Engine) Close() {
	e.drains.Wait()
	e.transport.CloseIdleConnections()
}

// Complete implements agentd.Engine.
func (e *Engine) Complete(ctx context.Context, r agentd.Request,
	token func(agentd.Chunk) error) (agentd.Answer, error) {
	begun := time.Now()
	span := e.Spans.Begin("engine.request", r.Trace, begun, trace.SpanKindClient)
	r.Trace = span.Trace
	a, err := e.complete(ctx, r, token)
	var own *agentd.EngineError
	if errors.As(err, &own) && own.Said != "" {
		own.Said = string(e.unkeyed([]byte(own.Said)))
	}
	if span.Records() {
		e.end(span, begun, &r, &a, err)
	}
	return a, err
}

// end ends the span of a request.
func (e *Engine) end(span sight.Span, begun time.Time, r *agentd.Request, a *agentd.Answer, err error) {
	var code bus.Code
	var own *agentd.EngineError
	switch {
	case errors.As(err, &own):
		code = own.Code
		if own.Status != 0 {
			span.Set(attribute.Int("http.response.status_code", own.Status))
		}
	case errors.Is(err, agentd.ErrTimeout):
		code = bus.CodeTimeout
	case err != nil:
		code = bus.CodeCancelled
	}
	if u, err := url.Parse(e.base); err == nil {
		span.Set(sight.Text("server.address", u.Host))
	}
	span.Set(sight.Operation(r.Kind, r.Model)...)
	span.Set(sight.Usage(a.Usage)...)
	span.Set(sight.Text("souk.receipt", r.ID))
	if a.TTFT > 0 {
		span.First(begun.Add(a.TTFT))
	}
	span.End(time.Now(), code)
}

// unkeyed removes the node's key from a server's message, since a server that refuses the key may quote it.
func (e *Engine) unkeyed(said []byte) []byte {
	if e.cfg.APIKey == "" {
		return said
	}
	return bytes.ReplaceAll(said, []byte(e.cfg.APIKey), []byte("(the node's key)"))
}

func (e *Engine) complete(ctx context.Context, r agentd.Request,
	token func(agentd.Chunk) error) (agentd.Answer, error) {
	switch {
	case bus.Pooling(r.Kind):
		return e.pool(ctx, r, token)
	case r.Resume != nil:
		return e.goOn(ctx, r, token)
	}
	if r.Count {
		n, err := e.count(ctx, r)
		if left := r.Context - n; r.Context > 0 && r.MaxTokens > left {
			r.MaxTokens = max(1, left) // where none is left the engine says so
		}
		if err == nil {
			err = token(agentd.Chunk{Counted: n})
		}
		if err != nil {
			return agentd.Answer{Unmetered: true}, err
		}
	}
	body, asks, err := rewrite(make([]byte, 0, len(r.Body)+len(r.Model)+160), r.Body, r, e.server.Load())
	if err != nil {
		return agentd.Answer{Unmetered: true},
			&agentd.EngineError{Code: bus.CodeBadRequest, Message: err.Error()}
	}
	path := "/v1/chat/completions"
	if r.Kind == bus.KindCompletion {
		path = "/v1/completions"
	}
	return e.send(ctx, r, path, body, asks, false, token)
}

// send posts a body and relays the answer; each says whether token gets every event by itself.
func (e *Engine) send(ctx context.Context, r agentd.Request, path string, body []byte, asks kinds, each bool,
	token func(agentd.Chunk) error) (agentd.Answer, error) {
	outer := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	req, err := e.request(ctx, r, path, body)
	if err != nil {
		cancel(err)
		return agentd.Answer{Unmetered: true}, failed("asking the engine", err)
	}
	req.Header.Set("Accept", "text/event-stream")
	dog := e.watch(ctx, &r, asks, cancel)
	m := meter{start: dog.born}
	resp, err := e.transport.RoundTrip(req)
	if err != nil {
		dog.stop()
		cancel(nil)
		return agentd.Answer{Unmetered: true}, e.why(outer, ctx, "asking the engine", err)
	}
	if err := refusal(resp, r.Resume == nil); err != nil {
		dog.stop()
		resp.Body.Close()
		cancel(nil)
		return agentd.Answer{Unmetered: true}, err
	}
	buf := buffers.Get().(*[]byte)
	s := stream{body: resp.Body, buf: *buf, max: mostEvent, each: each}
	err = e.relay(&s, &m, dog, token)
	dog.stop()
	buffers.Put(buf) // not s.buf, which one long event may have made large
	if err != nil {
		err = e.why(outer, ctx, "reading the engine's answer", err)
		cancel(nil)
		resp.Body.Close()
		return m.answer(&s.batch), err
	}
	e.release(resp.Body, cancel)
	a := m.answer(&s.batch)
	if !a.NoCacheReport {
		e.pace.computed(a.TTFT, a.Usage.Prompt-a.Usage.Cached)
	}
	return a, nil
}

// request makes the request of a task.
func (e *Engine) request(ctx context.Context, r agentd.Request, path string, body []byte) (*http.Request,
	error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	h := req.Header
	h.Set("Content-Type", "application/json")
	// The server may close a kept connection at this moment. The transport then sends the request again on
	// another one, if no byte came back and an Idempotency-Key allows it; an empty key does and is not
	// sent. That does no harm: with the first connection, whatever the engine did for it is gone.
	h["Idempotency-Key"] = nil
	if r.ID != "" {
		h["X-Request-Id"] = []string{r.ID}
	}
	e.authorize(h)
	if r.Trace.Parent != "" {
		h["Traceparent"] = []string{r.Trace.Parent}
		if r.Trace.State != "" {
			h["Tracestate"] = []string{r.Trace.State}
		}
	}
	return req, nil
}

var buffers = sync.Pool{New: func() any { return new(make([]byte, readSize)) }}

// lastWords bounds how long usage may come after finish_reason: vLLM sends them together.
const lastWords = 2 * time.Second

// relay hands on what each read yields until the answer has ended.
func (e *Engine) relay(s *stream, m *meter, dog *watchdog, token func(agentd.Chunk) error) error {
	s.pause = func() { e.beat.wait(m.gap()) }
	for {
		n, err := s.next()
		if n > 0 {
			now := time.Now()
			if s.batch.finish == "" {
				dog.pat(now, e.cfg.Progress)
			} else {
				dog.pat(now, min(e.cfg.Progress, lastWords))
			}
			if s.batch.count > 0 || len(s.batch.text) > 0 {
				if m.first.IsZero() {
					dog.began()
					e.pace.began(now, now.Sub(m.start), s.batch.promptIDs)
				} else {
					e.pace.moved(now, now.Sub(m.last))
				}
				m.saw(now, s.batch.count, len(s.batch.ids))
				e.beat.saw(now, s.batch.count)
			}
			if err := token(s.batch.take()); err != nil {
				return toldError{err}
			}
		}
		b := &s.batch
		switch {
		case err == io.EOF && b.finish == "" && !s.done:
			return failed("the engine's answer broke off", io.ErrUnexpectedEOF)
		case err != nil && b.finish == "" && !s.done:
			return err
		case err == nil && !s.done:
			continue
		case b.finish == "":
			return failed("the engine's answer ended without a finish_reason", nil)
		case b.finish == "abort":
			return &agentd.EngineError{Code: bus.CodeEngineFailed, Status: http.StatusInternalServerError,
				Message: "the engine aborted the answer"}
		}
		// Finished, even if the connection broke before usage or [DONE] came.
		return nil
	}
}

// why says what ended an answer: the caller, the watchdog, the engine, the token function, or the network.
func (e *Engine) why(outer, ctx context.Context, doing string, err error) error {
	if outer.Err() != nil {
		return context.Cause(outer)
	}
	var own *agentd.EngineError
	if errors.As(context.Cause(ctx), &own) || errors.As(err, &own) {
		return own
	}
	if told, ok := errors.AsType[toldError](err); ok {
		return told.error
	}
	return failed(doing, err)
}

func failed(message string, err error) error {
	code := bus.CodeEngineFailed
	if dial := new(net.OpError); errors.As(err, &dial) && dial.Op == "dial" {
		code = bus.CodeUnavailable
	}
	return &agentd.EngineError{Code: code, Message: message, Err: err}
}

// toldError marks what the token function returned, which goes back to the caller as it was.
type toldError struct{ error }

// release reads the end of a finished body in the background, so that its connection can be used again.
func (e *Engine) release(body io.ReadCloser, cancel context.CancelCauseFunc) {
	e.drains.Go(func() {
		timer := time.AfterFunc(time.Second, func() { cancel(nil) })
		io.CopyN(io.Discard, body, 64<<10)
		timer.Stop()
		body.Close()
		cancel(nil)
	})
}

func (e *Engine) authorize(h http.Header) {
	if e.cfg.APIKey != "" {
		h["Authorization"] = []string{"Bearer " + e.cfg.APIKey}
	}
}

// refusal is nil for a stream of events. vLLM refuses a stream with plain JSON. Where an answer begins, the
// path is that of its kind.
func refusal(resp *http.Response, begins bool) error {
	if resp.StatusCode == http.StatusOK {
		if t := resp.Header.Get("Content-Type"); !strings.HasPrefix(t, "text/event-stream") {
			return &agentd.EngineError{Code: bus.CodeEngineFailed, Status: resp.StatusCode,
				Message: fmt.Sprintf("the engine answered %.80q instead of a stream", t)}
		}
		return nil
	}
	said, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	e := refusedBy(resp, said)
	if e.Missing = begins && missing(e.Status) && e.Code != bus.CodeUnknownModel; e.Missing {
		e.Code = bus.CodeUnknownModel
	}
	return e
}

// refusedBy is refused, with when the engine may be asked again.
func refusedBy(resp *http.Response, said []byte) *agentd.EngineError {
	e := refused(resp.StatusCode, said)
	if s, err := strconv.ParseUint(resp.Header.Get("Retry-After"), 10, 31); err == nil {
		e.Again = time.Duration(s) * time.Second
	}
	return e
}

// refused is the error for a refusal of the engine, quoted.
func refused(status int, said []byte) *agentd.EngineError {
	return &agentd.EngineError{Code: blame(status, said), Status: status,
		Message: fmt.Sprintf("the engine answered %d", status), Said: complaint(said)}
}

// tooLong finds what vLLM, SGLang and LMDeploy, llama.cpp, Ollama and TGI say of a prompt for which their
// context has no room.
var tooLong = regexp.MustCompile(`(?i)context.{0,3}(length|size|window)|max_model_len|` +
	"`inputs`.{0,40} must ")

// blame says whose fault a status is. The agent names the path and the model: what is not found is not the
// client's.
func blame(status int, said []byte) bus.Code {
	switch {
	case status == http.StatusNotFound && bytes.Contains(bytes.ToLower(said), []byte("model")):
		return bus.CodeUnknownModel
	case status >= 400 && status < 500 && tooLong.Match(said):
		return bus.CodePromptTooLong
	case status == http.StatusNotFound:
		return bus.CodeEngineFailed
	case status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests:
		return bus.CodeNoSlot // --max-num-queued-reqs: full, and healthy
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return bus.CodeEngineFailed // the node's key is wrong, not the client's request
	case status >= 400 && status < 500:
		return bus.CodeEngineRefused
	}
	return bus.CodeEngineFailed
}

// meter takes the times of one answer.
type meter struct {
	start, first, last time.Time
	firstCount, count  int
	ids                int // of these, tokens that came with ids
}

func (m *meter) saw(now time.Time, count, ids int) {
	m.ids += ids
	if m.first.IsZero() {
		m.first, m.firstCount = now, count
	}
	m.last = now
	m.count += count
}

// steady is the number of tokens after which a stream's speed is known.
const steady = 4

// gap is the time from one token to the next; 0 as long as that is not known.
func (m *meter) gap() time.Duration {
	if n := m.count - m.firstCount; n >= steady {
		return m.last.Sub(m.first) / time.Duration(n)
	}
	return 0
}

// answer sums up the answer. Where the engine sent no usage, it counts what was relayed; and where it said
// which tokens there are, as many as these, whatever its usage says.
func (m *meter) answer(b *batch) agentd.Answer {
	a := agentd.Answer{Finish: b.finish, Stop: b.stop}
	if b.metered {
		a.Usage = market.Usage{Prompt: b.usage.Prompt, Output: b.usage.Output, Cached: max(b.usage.Cached, 0)}
		a.Usage.Cached = min(a.Usage.Cached, a.Usage.Prompt)
		a.NoCacheReport = b.usage.Cached < 0
		said := a.Usage
		if b.promptIDs > 0 {
			a.Usage.Prompt, a.Usage.Cached = b.promptIDs, min(said.Cached, b.promptIDs)
		}
		if m.ids == m.count && m.ids+b.promptIDs > 0 {
			a.Usage.Output = m.ids
		}
		if a.Usage != said {
			said.Prompt, said.Output = min(said.Prompt, bus.MaxTokens), min(said.Output, bus.MaxTokens)
			said.Cached = min(said.Cached, said.Prompt)
			a.Said = &said
		}
	} else {
		a.Usage = market.Usage{Prompt: b.promptIDs, Output: m.count}
		a.Unmetered, a.NoCacheReport = true, true
	}
	if !m.first.IsZero() {
		a.TTFT = m.first.Sub(m.start)
		// The first read may hold several tokens. The time after it was spent on the later ones alone.
		if rest := m.count - m.firstCount; rest > 0 {
			a.ITL = m.last.Sub(m.first) / time.Duration(rest)
		}
	}
	return a
}
