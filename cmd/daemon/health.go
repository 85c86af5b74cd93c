package daemon

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/netutil"

	"souk/bus/follow"
	"souk/bus/metrics"
)

// health answers how a daemon is:
//
//	/livez   200 while the process runs; restart it if there is no answer
//	/readyz  200 when it serves, 503 with the reasons when it does not: send it nothing then, but do not
//	         restart it
//	/stats   its counts as JSON
//	/metrics what of it Prometheus is to watch, as text
//
// On loopback it answers to loopback's names alone; see [ByLoopbackName]. Where other machines reach it, they
// ask it by any name, by TLS or with a token, and /stats is not shown: it says much.
type health struct {
	name, version string
	began         time.Time

	mu       sync.Mutex
	waiting  string
	ready    <-chan struct{} // closed once it serves; nil: it does not yet
	needs    []func() string // why it is not ready; "" while that is not the reason
	awaits   func() string
	draining bool
	stats    func() any
	figures  *figures

	closed   chan struct{}
	listener net.Listener
	server   *http.Server
	secure   bool // it speaks TLS
}

func newHealth(name, version string) *health {
	return &health{name: name, version: version, began: time.Now(), closed: make(chan struct{})}
}

// Serving has the daemon report itself ready once ready is closed. stats returns the values for /stats.
func (p *Process) Serving(ready <-chan struct{}, stats func() any) {
	h := p.health
	h.mu.Lock()
	h.ready = ready
	if stats != nil {
		h.stats = stats
	}
	h.mu.Unlock()
	go func() {
		select {
		case <-ready:
			p.Log.Info("ready", "after", time.Since(h.began).Round(time.Millisecond))
		case <-h.closed:
		}
	}()
}

// Meter makes the instruments of what the process counts and measures; nil where nobody collects them.
func (p *Process) Meter() metrics.Meter { return p.health.figures.meter() }

// Awaits has the daemon say what it waits for as long as it does not serve; "" is nothing in particular.
func (p *Process) Awaits(what func() string) {
	p.health.mu.Lock()
	defer p.health.mu.Unlock()
	p.health.awaits = what
}

// Lacks says why the daemon is not ready beyond its connections: as long as what it says is not "".
func (p *Process) Lacks(what func() string) {
	p.health.mu.Lock()
	defer p.health.mu.Unlock()
	p.health.needs = append(p.health.needs, what)
}

func (h *health) waits(what, where string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting = ""
	if what != "" {
		h.waiting = "waiting for " + what + " at " + where
	}
}

func (h *health) stopping() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.draining = true
}

// Report is the answer of /readyz.
type Report struct {
	Daemon  string   `json:"daemon"`
	Version string   `json:"version"`
	Ready   bool     `json:"ready"`
	Not     []string `json:"not,omitempty"` // why it is not ready
	UpMS    int64    `json:"up_ms"`
}

func (h *health) report() Report {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := Report{Daemon: h.name, Version: h.version, UpMS: time.Since(h.began).Milliseconds()}
	if h.draining {
		r.Not = append(r.Not, "stopping")
	}
	if h.waiting != "" {
		r.Not = append(r.Not, h.waiting)
	}
	for _, n := range h.needs {
		if why := n(); why != "" {
			r.Not = append(r.Not, why)
		}
	}
	if !follow.Closed(h.ready) {
		why := "not serving yet"
		if h.awaits != nil {
			if what := h.awaits(); what != "" {
				why += ": " + what
			}
		}
		r.Not = append(r.Not, why)
	}
	r.Ready = len(r.Not) == 0
	return r
}

// most connections to it at once: whoever watches has one
const mostWatching = 256

func (h *health) listen(c Health, listen func(network, address string) (net.Listener, error)) error {
	if c.Listen == "" {
		return nil
	}
	secure, err := ServerTLS(c.TLS.Cert, c.TLS.Key)
	if err == nil {
		_, err = c.token()
	}
	if err != nil {
		return fmt.Errorf("health.%w", err)
	}
	l, err := listen("tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("health.listen: %w: choose another address, or set SOUK_HEALTH_LISTEN", err)
	}
	remote := errors.Is(CheckLoopback(c.Listen), ErrRemote)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		report := h.report()
		if !c.shows(r) {
			report.Not = nil // why is for those who may know; whether is for who starts it
		}
		w.Header().Set("Content-Type", "application/json")
		if !report.Ready {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		json.NewEncoder(w).Encode(report)
	})
	mux.Handle("GET /stats", c.guard(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if remote {
			http.Error(w, "/stats is shown where health.listen is on loopback", http.StatusNotFound)
			return
		}
		h.mu.Lock()
		stats := h.stats
		h.mu.Unlock()
		var v any = struct{}{}
		if stats != nil {
			v = stats()
		}
		w.Header().Set("Content-Type", "application/json")
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		e.Encode(v)
	})))
	mux.Handle("GET /metrics", c.guard(h.figures))
	h.listener = netutil.LimitListener(l, mostWatching)
	var handler http.Handler = mux
	if !remote {
		handler = ByLoopbackName(mux)
	}
	h.server = &http.Server{Handler: handler, TLSConfig: secure, ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout: 10 * time.Second, WriteTimeout: 20 * time.Second, IdleTimeout: 30 * time.Second,
		MaxHeaderBytes: 8 << 10, ErrorLog: log.New(io.Discard, "", 0)}
	if h.secure = secure != nil; h.secure {
		go h.server.ServeTLS(h.listener, "", "")
	} else {
		go h.server.Serve(h.listener)
	}
	return nil
}

func (h *health) address() string {
	if h.listener == nil {
		return "none"
	}
	return h.listener.Addr().String()
}

func (h *health) close() {
	close(h.closed)
	if h.server != nil {
		h.server.Close()
	}
}

// Probe asks a daemon's /readyz once. Its error says why it is not ready, unless only a token shows that.
func Probe(ctx context.Context, c Health) error {
	if c.Listen == "" {
		return errors.New("health.listen is not set: there is nobody to ask")
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	scheme, transport := "http://", &http.Transport{DisableKeepAlives: true}
	if c.TLS.Cert != "" { // whose names it has does not matter: nothing but whether it is ready is heard
		scheme, transport.TLSClientConfig = "https://", &tls.Config{InsecureSkipVerify: true}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+c.Listen+"/readyz", nil)
	if err != nil {
		return err
	}
	answer, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	var r Report
	if err := json.NewDecoder(io.LimitReader(answer.Body, 64<<10)).Decode(&r); err != nil {
		return fmt.Errorf("%s answers %s, and no report: is it a daemon of this market? (%w)", c.Listen,
			answer.Status, err)
	}
	if !r.Ready {
		if len(r.Not) == 0 {
			r.Not = []string{"/readyz says why to who sends the token of health.token_file"}
		}
		return fmt.Errorf("%s is not ready: %q", r.Daemon, r.Not)
	}
	return nil
}
