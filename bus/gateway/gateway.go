// Package gateway is the market's door for clients of OpenAI's API, and of Anthropic's: HTTP in front of
// bus/client. It keeps no state of the market: who asks is known by a key of the registry, each answer is a
// task like any other.
package gateway

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/netutil"

	"souk/bus"
	"souk/bus/client"
	"souk/bus/follow"
	"souk/bus/metrics"
	"souk/bus/openai"
	"souk/bus/sight"
)

// Deps holds the ports of a Server.
type Deps struct {
	Bus      bus.Bus
	Registry bus.Registry
	Listener net.Listener    // closed by Run
	TLS      *tls.Config     // of Config.TLS; nil where that names no files
	Opens    <-chan struct{} // closed once its clients can have money, before which it is not ready
	Log      *slog.Logger    // nil: slog.Default
	Spans    *sight.Spans    // nil: none
	Meter    metrics.Meter   // of what it counts and measures; nil: nobody collects that
}

// Server is one gateway. Any number of them serve the same keys.
type Server struct {
	c     Config
	d     Deps
	keys  *keyring
	awake *awake
	items *items
	lines *sight.Lines
	ready chan struct{}

	proxies networks
	inClear sync.Once // said that a proxy takes keys in clear

	payers    *payers
	memory    memory
	relieving sync.Mutex // by whoever makes room

	// set by Run
	reader *client.Reader // hears them all

	mu       sync.Mutex
	hubs     map[string]heard
	open     map[*answer]struct{}
	kept     map[keptKey]*answer // that can be read again
	ended    []*answer           // of those, in the order of their ends
	size     int                 // bytes of those
	draining bool
	stats    Stats
	measures measures
	idle     chan struct{} // closed when nothing is open while draining
}

// heard is a hub's last status, and when it came.
type heard struct {
	status bus.Status
	at     time.Time
}

// Stats counts since the start.
type Stats struct {
	Open        int                `json:"open"`
	Kept        int                `json:"kept"`
	Memory      int64              `json:"memory"`       // bytes that requests and answers take
	MemoryLimit int64              `json:"memory_limit"` // that they may take
	Requests    map[string]int64   `json:"requests"`     // by route
	Refused     map[bus.Code]int64 `json:"refused"`
	Cut         map[bus.Code]int64 `json:"cut"` // answers that ended before their end
	Left        int64              `json:"left"`
	Streams     int64              `json:"streams"` // served to their end
	Wholes      int64              `json:"wholes"`
}

// New checks its configuration and wires nothing yet.
func New(c Config, d Deps) (*Server, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	if d.Bus == nil || d.Registry == nil || d.Listener == nil {
		return nil, errors.New("gateway: a bus, a registry and a listener are needed")
	}
	if name := d.Bus.Name(); name != c.ID {
		return nil, fmt.Errorf("gateway: its id is %s, and the bus knows it as %s: connect under its id", c.ID,
			name)
	}
	if (d.TLS != nil) != (c.TLS.Cert != "") {
		return nil, errors.New("gateway: the certificate and key of its configuration are handed over as TLS")
	}
	d.Log = cmp.Or(d.Log, slog.Default())
	proxies, err := readNetworks(c.Proxies)
	if err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	s := &Server{c: c, proxies: proxies, d: d, keys: newKeyring(c, d.Log),
		awake: &awake{anew: make(chan func(), 1), log: d.Log}, lines: sight.NewLines(d.Log, c.Requests),
		ready: make(chan struct{}),
		hubs:  map[string]heard{}, open: map[*answer]struct{}{},
		kept: map[keptKey]*answer{}, idle: make(chan struct{}),
		stats: Stats{Requests: map[string]int64{}, Refused: map[bus.Code]int64{}, Cut: map[bus.Code]int64{}},
	}
	s.memory.most = int64(c.MaxMemory - c.MaxConns*connCost) // connections have theirs from the start
	s.measure()
	s.items = newItems(c.KeepItems, c.MaxItemsKey, c.MaxItems, s.memory.add)
	s.payers = newPayers(mostPayers, func(id string) (*client.Client, error) {
		return s.reader.Client(client.Config{ID: id, BufferBytes: max(c.MaxUnread*4, 2*bus.AckWindow),
			MaxStreams: c.MaxOpen * openai.MaxAnswers, Grown: s.grown})
	})
	return s, nil
}

// Ready is closed once requests are taken and the registry's keys are known.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Stats are its counts.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.stats
	out.Open, out.Kept = len(s.open), len(s.kept)
	out.Memory, out.MemoryLimit = s.memory.used.Load(), s.memory.most
	out.Requests, out.Refused, out.Cut = maps.Clone(s.stats.Requests),
		maps.Clone(s.stats.Refused), maps.Clone(s.stats.Cut)
	return out
}

// lookEvery is how often keys are checked for having expired.
const lookEvery = 250 * time.Millisecond

// Run serves until ctx ends. Then new requests are refused, answers that are open may end within
// Config.Drain, and what is left of them ends with an error.
func (s *Server) Run(ctx context.Context) error {
	defer s.d.Listener.Close()
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	sub, err := s.d.Bus.Subscribe(bus.StatusSubject("*"), "", s.onStatus)
	if err != nil {
		return fmt.Errorf("gateway: subscribe: %w", err)
	}
	defer sub.Stop()
	if s.reader, err = client.NewReader(s.c.ID, s.d.Bus); err != nil {
		return fmt.Errorf("gateway: %w", err)
	}
	defer s.reader.Close()
	synced, followed := make(chan struct{}), make(chan struct{})
	known := sync.OnceFunc(func() { close(synced) })
	go func() {
		defer close(followed)
		follow.Run(life, s.d.Registry, bus.KeysPrefix, follow.Follower{
			Set: func(kv bus.KV) {
				s.keys.set(kv)
				s.revoked()
			},
			Gone: func(key string) {
				s.keys.drop(bus.LastElement(key))
				s.items.forget(bus.LastElement(key))
				s.revoked()
			},
			Synced: known, Anew: s.awake.anew, Log: s.d.Log, Every: lookEvery,
			Tick: func() {
				s.revoked()
				s.items.expired(time.Now())
			},
		})
	}()
	go s.awake.run(life)
	select {
	case <-synced:
	case <-ctx.Done():
		stop()
		<-followed
		return nil
	}
	server := &http.Server{
		Handler: s.routes(), ReadHeaderTimeout: s.c.HeaderWithin, MaxHeaderBytes: s.c.MaxHeader,
		IdleTimeout: time.Minute, ErrorLog: slog.NewLogLogger(s.d.Log.Handler(), slog.LevelDebug),
		ConnContext: withConn, ConnState: changed, Protocols: new(http.Protocols), TLSConfig: s.d.TLS,
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: 250, MaxReadFrameSize: 16 << 10,
			MaxReceiveBufferPerConnection: 1 << 20, MaxReceiveBufferPerStream: 512 << 10,
			SendPingTimeout: 15 * time.Second, WriteByteTimeout: s.c.WriteWithin},
	}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetHTTP2(s.d.TLS != nil)
	served := make(chan error, 1)
	go func() { served <- s.serve(server) }()
	s.d.Log.Info("gateway open", "at", s.d.Listener.Addr().String())
	close(s.ready)
	select {
	case err = <-served:
		err = fmt.Errorf("gateway: %w", err)
		s.cut(errEnds(), func(*answer) bool { return true })
	case <-ctx.Done():
		s.drain()
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		if server.Shutdown(end) != nil {
			server.Close()
		}
		cancel()
		<-served
	}
	stop()
	<-followed
	s.close()
	flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	s.lines.Close(flush)
	return err
}

// serve takes connections until it is closed.
func (s *Server) serve(server *http.Server) error {
	l := netutil.LimitListener(narrow{s.d.Listener}, s.c.MaxConns)
	if s.c.ProxyHeader {
		l = headed(l, s.proxies, s.c.HeaderWithin)
	}
	counted := counting{Listener: l, memory: &s.memory, traffic: &s.measures}
	switch {
	case s.d.TLS != nil:
		counted.each = tlsCost
		return server.ServeTLS(counted, "", "")
	case !s.c.ProxyHeader && len(s.proxies) > 0:
		counted.only = append(loopback(), s.proxies...)
	}
	return server.Serve(counted)
}

// drain lets open answers end, and cuts those that do not.
func (s *Server) drain() {
	s.mu.Lock()
	s.draining = true
	open := len(s.open)
	if open == 0 {
		close(s.idle)
	}
	s.mu.Unlock()
	s.d.Log.Info("gateway closing", "open", open)
	select {
	case <-s.idle:
		return
	case <-time.After(s.c.Drain):
	}
	s.cut(errEnds(), func(*answer) bool { return true })
	<-s.idle
}

// close lets go of the market.
func (s *Server) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.kept {
		a.stopTimers()
	}
}

func errEnds() *refusal {
	return refuse(bus.CodeDraining, "the gateway is shutting down: %s", servedIsPaid)
}

const servedIsPaid = "what was served until now is paid"

func errRevoked() *refusal {
	return refuse(openai.CodeInvalidKey, "the key was revoked or replaced, or has expired: ask its "+
		"operator for another")
}

// revoked cuts the answers of keys that are good no more, and of secrets in whose place another is.
func (s *Server) revoked() {
	now := time.Now()
	s.cut(errRevoked(), func(a *answer) bool { return !s.keys.good(now, a.key) })
}

// cut ends open answers with an error.
func (s *Server) cut(why *refusal, which func(*answer) bool) {
	var all []*answer
	s.mu.Lock()
	for a := range s.open {
		if which(a) {
			all = append(all, a)
		}
	}
	s.mu.Unlock()
	for _, a := range all {
		a.fail(why)
	}
}

func (s *Server) onStatus(m bus.Msg) {
	var status bus.Status
	if bus.Decode(m.Data, &status) != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.hubs[status.Domain]; known || len(s.hubs) < maxHubs {
		s.hubs[status.Domain] = heard{status, time.Now()}
	}
}

const (
	maxHubs = 1024
	// silent is the age at which the last status of a hub that sells no longer counts.
	silent = 15 * time.Second
)

// payer returns who speaks for a client of the market, until it is left.
func (s *Server) payer(id string) (*payer, error) {
	if id == s.c.ID { // what it said for that one it would say for itself, as no gateway may
		return nil, refuse(bus.CodeUnknownClient, "client %s has the name of this gateway: take a key of another",
			id)
	}
	return s.payers.take(id)
}
