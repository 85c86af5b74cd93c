package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
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
// ask it by any name, and /stats is not shown: it says much.
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
	gauges   []func() []Gauge

	listener net.Listener
	server   *http.Server
}

func newHealth(name, version string) *health {
	return &health{name: name, version: version, began: time.Now()}
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
		<-ready
		p.Log.Info("ready", "after", time.Since(h.began).Round(time.Millisecond))
	}()
}

// Gauge is a number that goes up and down; or a count, which only grows; or how many durations are up to each
// of some bounds.
type Gauge struct {
	Name, Help string // of one line
	Value      float64
	Counts     bool    // it only grows
	Within     *Within // instead of Value
}

// Within counts durations.
type Within struct {
	Bounds []time.Duration
	Counts []int64 // up to each
	Sum    time.Duration
	Count  int64
}

// write is the metric as Prometheus reads it.
func (g *Gauge) write(to io.Writer) {
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	w := g.Within
	if w == nil {
		kind := "gauge"
		if g.Counts {
			kind = "counter"
		}
		fmt.Fprintf(to, "# HELP %s %s\n# TYPE %[1]s %[3]s\n%[1]s %[4]s\n", g.Name, g.Help, kind, number(g.Value))
		return
	}
	fmt.Fprintf(to, "# HELP %s %s\n# TYPE %[1]s histogram\n", g.Name, g.Help)
	for i, most := range w.Bounds {
		fmt.Fprintf(to, "%s_bucket{le=%q} %d\n", g.Name, number(most.Seconds()), w.Counts[i])
	}
	fmt.Fprintf(to, "%s_bucket{le=\"+Inf\"} %d\n%[1]s_sum %[3]s\n%[1]s_count %[2]d\n", g.Name, w.Count,
		number(w.Sum.Seconds()))
}

// Gauges adds to what /metrics shows.
func (p *Process) Gauges(now func() []Gauge) {
	p.health.mu.Lock()
	defer p.health.mu.Unlock()
	p.health.gauges = append(p.health.gauges, now)
}

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
	select {
	case <-h.ready:
	default:
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

func (h *health) listen(address string) error {
	if address == "" {
		return nil
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("health.listen: %w: choose another address, or set SOUK_HEALTH_LISTEN", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		r := h.report()
		w.Header().Set("Content-Type", "application/json")
		if !r.Ready {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		json.NewEncoder(w).Encode(r)
	})
	remote := errors.Is(CheckLoopback(address), ErrRemote)
	mux.HandleFunc("GET /stats", func(w http.ResponseWriter, _ *http.Request) {
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
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		h.mu.Lock()
		gauges := slices.Clone(h.gauges)
		h.mu.Unlock()
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		for _, now := range gauges {
			for _, g := range now() {
				g.write(w)
			}
		}
	})
	h.listener = l
	var handler http.Handler = mux
	if !remote {
		handler = ByLoopbackName(mux)
	}
	h.server = &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout: 30 * time.Second, MaxHeaderBytes: 8 << 10}
	go h.server.Serve(l)
	return nil
}

func (h *health) address() string {
	if h.listener == nil {
		return "none"
	}
	return h.listener.Addr().String()
}

func (h *health) close() {
	if h.server != nil {
		h.server.Close()
	}
}

// Probe asks a daemon's /readyz once. Its error says why it is not ready.
func Probe(ctx context.Context, address string) error {
	if address == "" {
		return errors.New("health.listen is not set: there is nobody to ask")
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/readyz", nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	var r Report
	if err := json.NewDecoder(io.LimitReader(answer.Body, 64<<10)).Decode(&r); err != nil {
		return fmt.Errorf("%s answers %s, and no report: is it a daemon of this market? (%w)", address,
			answer.Status, err)
	}
	if !r.Ready {
		return fmt.Errorf("%s is not ready: %q", r.Daemon, r.Not)
	}
	return nil
}
