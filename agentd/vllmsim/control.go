package vllmsim

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"syscall"
	"time"
)

// Inject makes the next requests fail as f says, after the faults injected before.
func (s *Server) Inject(f Fault) error {
	if err := f.Validate(); err != nil {
		return fmt.Errorf("vllmsim: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults.list = append(s.faults.list, f)
	return nil
}

// Heal undoes Inject, FaultEvents and Freeze. Requests that fail already go on failing.
func (s *Server) Heal() {
	s.mu.Lock()
	s.faults.list, s.eventTimes = nil, 0
	s.mu.Unlock()
	s.Freeze(false)
}

// Freeze stops the engine and leaves everything around it alive, as a hung GPU does: /health is well,
// requests are taken, no token comes. Freeze(false) lets it go on.
func (s *Server) Freeze(on bool) {
	s.mu.Lock()
	s.frozen = on
	s.mu.Unlock()
	s.wake()
}

// Terminate acts like SIGTERM without --shutdown-timeout: open answers end with finish_reason "abort" and
// usage, and requests are refused from then on.
func (s *Server) Terminate() {
	s.mu.Lock()
	s.draining = true
	for _, q := range s.engine.all() {
		s.engine.abort(q)
		q.signal()
	}
	s.mu.Unlock()
}

// Restart is a crash and a new start: connections break, the cache is empty, counters begin at zero. Between
// the two connections are refused for boot.
func (s *Server) Restart(boot time.Duration) error {
	s.mu.Lock()
	addr := ""
	if s.http != nil {
		addr = s.addr.String()
		_ = s.http.Close()
	}
	if s.publisher != nil {
		s.publisher.close()
		s.publisher = nil
	}
	old := s.engine
	for _, q := range old.all() {
		q.crash = true
		old.abort(q)
		q.signal()
	}
	s.engine = s.newEngine()
	s.draining = false
	s.fingerprint = "vllm-" + Version + "-" + randomHex(4)
	s.mu.Unlock()
	if addr == "" {
		return nil
	}
	select {
	case <-time.After(boot):
	case <-s.quit:
		return nil
	}
	// A connection of somebody else's may have taken one of its ports meanwhile, for a moment: even one that
	// tries to reach it, as on loopback a port may connect to itself.
	for end := time.Now().Add(listensWithin); ; {
		err := s.Start(addr)
		if !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(end) {
			return err
		}
		select {
		case <-time.After(listensWithin / 50):
		case <-s.quit:
			return nil
		}
	}
}

// listensWithin bounds how long the port of a restarting server may be in use.
const listensWithin = 5 * time.Second

// Held returns the contents of the prefix cache: the copies of each block, by its hash.
func (s *Server) Held() map[uint64]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.engine.Cache.Held()
}

// Inside reports the true state of an engine's cache, to judge predictions by.
type Inside struct {
	Blocks int     `json:"blocks"` // different ones that can be found
	Copies int     `json:"copies"` // of these, all together
	Found  []Found `json:"found"`  // by the requests that have ended since somebody last asked
}

// Found says how many tokens a request found in the cache.
type Found struct {
	ID     string `json:"id"` // X-Request-Id
	Prompt int    `json:"prompt"`
	Cached int    `json:"cached"`
}

// mostFound bounds what is kept until somebody asks.
const mostFound = 1 << 14

// found keeps what a request with an id found, for who asks at /sim/cache.
func (s *Server) found(a *answering) {
	q, id := a.q, a.r.Header.Get("X-Request-Id")
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cfg.Admin && q.run.Cached >= 0 && id != "" && len(s.ended) < mostFound {
		s.ended = append(s.ended, Found{id, q.prompt, q.run.Cached})
	}
}

// inside serves GET /sim/cache.
func (s *Server) inside(w http.ResponseWriter, _ *http.Request) {
	var in Inside
	for _, n := range s.Held() {
		in.Blocks, in.Copies = in.Blocks+1, in.Copies+n
	}
	s.mu.Lock()
	in.Found, s.ended = s.ended, nil
	s.mu.Unlock()
	answer(w, 200, in)
}

// admin serves POST /sim/fault: {"kind": ...}, {"events": "lost", "times": 3}, {"freeze": true},
// {"restart_ms": 500}, {"heal": true}.
func (s *Server) admin(w http.ResponseWriter, r *http.Request) {
	var order struct {
		Fault
		Events    EventFault `json:"events"`
		Freeze    *bool      `json:"freeze"`
		RestartMS *int       `json:"restart_ms"`
		Heal      bool       `json:"heal"`
	}
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16))
	d.DisallowUnknownFields()
	err := d.Decode(&order)
	if err == nil && order.Heal {
		s.Heal()
	}
	if err == nil && order.Kind != "" {
		err = s.Inject(order.Fault)
	}
	if err == nil && order.Events != "" {
		err = s.FaultEvents(order.Events, order.Times)
	}
	if err != nil {
		refuse(w, badRequest("", "%v", err))
		return
	}
	if order.Freeze != nil {
		s.Freeze(*order.Freeze)
	}
	if order.RestartMS != nil {
		go func() { _ = s.Restart(time.Duration(*order.RestartMS) * time.Millisecond) }()
	}
	answer(w, 200, map[string]bool{"success": true})
}
