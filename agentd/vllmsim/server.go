package vllmsim

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"souk/bus/follow"
)

// Server is one stand-in for a vLLM server: an http.Handler, and a listener if Start is called.
type Server struct {
	cfg         Config
	mux         *http.ServeMux
	fingerprint string
	born        time.Time

	mu       sync.Mutex
	engine   *engine
	draining bool
	closed   bool
	frozen   bool

	faults     faults
	publisher  *publisher
	eventFault EventFault
	eventTimes int // batches it still happens to
	ended      []Found

	kick chan struct{}
	quit chan struct{}
	done chan struct{}
	open atomic.Int64 // requests being served: /load

	http *http.Server
	addr net.Addr
}

// New makes a server. It serves as an http.Handler at once, and on an address after Start. Close it.
func New(cfg Config) (*Server, error) {
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("vllmsim: %w", err)
	}
	Tokens()
	s := &Server{
		cfg: cfg, mux: http.NewServeMux(), born: time.Now(),
		fingerprint: "vllm-" + Version + "-" + randomHex(4),
		kick:        make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}),
	}
	s.engine = s.newEngine()
	s.routes()
	go s.run()
	return s, nil
}

func (s *Server) newEngine() *engine {
	e := newEngine(engineConfig{
		model: s.cfg.Model, profile: s.cfg.Profile, maxSeqs: s.cfg.MaxNumSeqs,
		maxBatched: s.cfg.Profile.MaxNumBatchedTokens, adapters: s.cfg.Adapters,
	}, s.cfg.NumGPUBlocks, s.cfg.BlockSize, s.cfg.Seed)
	if s.cfg.KVEvents.On {
		e.events = newEvents(s.cfg.KVEvents, e)
	}
	return e
}

// Start listens on addr ("127.0.0.1:0" for a free port) and serves until Close.
func (s *Server) Start(addr string) error { return s.StartBehind(addr, s) }

// StartBehind is Start with a handler before the server, which hands on to it what it lets through.
func (s *Server) StartBehind(addr string, guard http.Handler) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("vllmsim: %w", err)
	}
	h := &http.Server{Handler: guard, IdleTimeout: idleTimeout, ReadHeaderTimeout: 30 * time.Second,
		ErrorLog: log.New(io.Discard, "", 0)}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		_ = l.Close()
		return errors.New("vllmsim: the server is closed")
	}
	s.addr, s.http = l.Addr(), h
	if s.cfg.KVEvents.On {
		if s.publisher, err = publish(s.cfg.KVEvents); err != nil {
			s.mu.Unlock()
			_ = l.Close()
			return err
		}
		s.cfg.KVEvents.Endpoint, s.cfg.KVEvents.Replay = s.publisher.cfg.Endpoint, s.publisher.cfg.Replay
	}
	s.mu.Unlock()
	go func() { _ = h.Serve(l) }()
	return nil
}

// idleTimeout is the time for which vLLM's web server keeps an unused connection.
const idleTimeout = 5 * time.Second

// URL is the base URL after Start.
func (s *Server) URL() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return "http://" + s.addr.String()
}

// Close stops at once: open answers break off.
func (s *Server) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	h, p := s.http, s.publisher
	s.mu.Unlock()
	close(s.quit)
	<-s.done
	if p != nil {
		p.close()
	}
	if h != nil {
		return h.Close()
	}
	return nil
}

// Drain refuses new requests as a real server does after SIGTERM with --shutdown-timeout, and waits until the
// running ones have ended, or ctx has.
func (s *Server) Drain(ctx context.Context) error {
	s.mu.Lock()
	s.draining = true
	s.mu.Unlock()
	for {
		s.mu.Lock()
		n := s.engine.unfinished()
		s.mu.Unlock()
		if n == 0 && s.open.Load() == 0 {
			return nil
		}
		if !follow.Pause(ctx, 10*time.Millisecond) {
			return fmt.Errorf("vllmsim: %d requests unfinished: %w", n, ctx.Err())
		}
	}
}

// now is the engine's time: real time since the start, times the speed-up.
func (s *Server) now() time.Time {
	return s.born.Add(time.Duration(float64(time.Since(s.born)) * s.cfg.Speedup))
}

// run steps the engine until Close.
func (s *Server) run() {
	defer close(s.done)
	var out []*sequence
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		now := s.now()
		s.mu.Lock()
		var wake time.Time
		if out = out[:0]; !s.frozen {
			wake, out = s.engine.step(now, out)
			if batch, fault := s.happened(); s.publisher != nil && batch != nil && fault != EventsSilent {
				s.publisher.say(batch, fault == EventsLost)
			}
		}
		s.mu.Unlock()
		for _, q := range out {
			q.signal()
		}
		var wait <-chan time.Time
		var kick chan struct{}
		if wake.IsZero() {
			kick = s.kick
		} else {
			d := time.Duration(float64(wake.Sub(s.now())) / s.cfg.Speedup)
			if d <= 0 {
				if follow.Closed(s.quit) {
					return
				}
				continue
			}
			timer.Reset(d)
			wait = timer.C
		}
		select {
		case <-wait:
		case <-kick:
		case <-s.quit:
			return
		}
	}
}

// wake tells run that there is something to do.
func (s *Server) wake() { follow.Nudge(s.kick) }

func (s *Server) routes() {
	handle := func(pattern string, f http.HandlerFunc) { s.mux.HandleFunc(pattern, f) }
	if s.cfg.Pooling {
		handle("POST /v1/embeddings", func(w http.ResponseWriter, r *http.Request) { s.pool(w, r, false) })
		for _, path := range []string{"/rerank", "/v1/rerank", "/v2/rerank"} {
			handle("POST "+path, func(w http.ResponseWriter, r *http.Request) { s.pool(w, r, true) })
		}
	} else {
		handle("POST /v1/chat/completions",
			func(w http.ResponseWriter, r *http.Request) { s.complete(w, r, true) })
		handle("POST /v1/completions",
			func(w http.ResponseWriter, r *http.Request) { s.complete(w, r, false) })
	}
	handle("POST /tokenize", s.tokenize)
	handle("POST /detokenize", s.detokenize)
	for _, path := range []string{"/v1/chat/completions/render", "/v1/chat/completions/derender",
		"/inference/v1/generate"} {
		handle("POST "+path, func(w http.ResponseWriter, _ *http.Request) { refuse(w, scaleOutOff) })
	}
	handle("GET /v1/models", s.models)
	handle("GET /health", func(http.ResponseWriter, *http.Request) {})
	handle("GET /ping", func(http.ResponseWriter, *http.Request) {})
	handle("POST /ping", func(http.ResponseWriter, *http.Request) {})
	handle("GET /version", func(w http.ResponseWriter,
		_ *http.Request) {
		answer(w, 200, map[string]string{"version": Version})
	})
	handle("GET /load", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, map[string]int64{"server_load": s.open.Load()})
	})
	handle("GET /metrics", s.metrics)
	handle("POST /reset_prefix_cache", s.resetCache)
	handle("GET /kv_event_sources", s.eventSources)
	if s.cfg.Admin {
		handle("POST /sim/fault", s.admin)
		handle("GET /sim/cache", s.inside)
	}
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Server", "uvicorn")
	if s.cfg.APIKey != "" && strings.HasPrefix(r.URL.Path, "/v1") &&
		r.Header.Get("Authorization") != "Bearer "+s.cfg.APIKey {
		answer(w, http.StatusUnauthorized, map[string]string{"error": "Unauthorized"})
		return
	}
	h, pattern := s.mux.Handler(r)
	if pattern == "" { // said as vLLM's web framework says it
		code := http.StatusNotFound
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			q := *r
			q.Method = method
			if _, pattern := s.mux.Handler(&q); pattern != "" {
				code = http.StatusMethodNotAllowed
				w.Header().Set("Allow", method)
			}
		}
		answer(w, code, map[string]string{"detail": http.StatusText(code)})
		return
	}
	h.ServeHTTP(w, r)
}

func answer(w http.ResponseWriter, code int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic("vllmsim: " + err.Error())
	}
	send(w, code, b)
}

func send(w http.ResponseWriter, code int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(body)
}

func refuse(w http.ResponseWriter, p *problem) { send(w, p.status, p.body()) }

// body reads a request's body, within the limit.
func (s *Server) body(w http.ResponseWriter, r *http.Request) ([]byte, *problem) {
	if t, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); strings.TrimSpace(t) != "application/json" {
		return nil, errMediaType
	}
	var b bytes.Buffer
	if n := r.ContentLength; n > 0 && n <= s.cfg.MaxBody {
		b.Grow(int(n) + bytes.MinRead) // what the header promises, within the limit, at once
	}
	_, err := b.ReadFrom(http.MaxBytesReader(w, r.Body, s.cfg.MaxBody))
	if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, &problem{413, fmt.Sprintf("The body is larger than %d bytes.", large.Limit),
			"Request Entity Too Large", ""}
	}
	if err != nil {
		return nil, badRequest("", "The body could not be read: %v.", err)
	}
	return b.Bytes(), nil
}

func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return hex.EncodeToString(b)
}
