// Package embedded runs a NATS and an etcd server inside the process, for a market on one machine and
// for tests.
package embedded

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"

	"souk/bus"
	"souk/bus/natsauth"
)

// readyIn bounds how long a server may take to come up; both need a few milliseconds on an idle machine.
const readyIn = 20 * time.Second

// shakeWithin bounds how long a new connection may take for TLS, and for its creds: a thousand agents may
// come back at once, and the connect line of one that speaks for many has hundreds of kilobytes.
const shakeWithin = 10 * time.Second

// NATSConfig says where the server listens.
type NATSConfig struct {
	// Listen is host:port, port 0 for any free one, or "" for connections in process only.
	Listen string
	// OrAny takes any free port where the one in Listen is taken.
	OrAny bool
	// Auth says who may come: users of these keys, each as far as its JWT permits. nil: anybody, for tests.
	Auth *natsauth.Server
	TLS  *tls.Config  // whoever comes by a socket speaks TLS; nil for none
	Log  *slog.Logger // warnings and errors; nil for none
	// Cluster are the servers that this one is one of; nil: it is alone. It wants Auth.
	Cluster *Cluster
}

// Cluster is this server's place among those of its kind on other machines. Each shows the others the
// servers' certificate.
type Cluster struct {
	Member  string         // this server's host in Members
	Members []string       // hosts of all of them
	TLS     natsauth.Files // as of natsauth.PeerFiles
	// NATS: where it keeps the accounts' JWTs that it was told, with the revocations in them
	Dir   string
	Joins bool // etcd: this member's data was lost, and the others were told that it comes anew
}

// Ports at which servers of a cluster reach one another.
const (
	natsPeers = 6222
	etcdPeers = 2380
)

// listen returns the address to listen on for peers: for a host that is a name, any of the machine.
func (c *Cluster) listen() string {
	if net.ParseIP(c.Member) == nil {
		return "0.0.0.0"
	}
	return c.Member
}

// urls returns the members' URLs at a port.
func (c *Cluster) urls(scheme string, port int) (urls []*url.URL) {
	for _, m := range c.Members {
		urls = append(urls, &url.URL{Scheme: scheme, Host: net.JoinHostPort(m, strconv.Itoa(port))})
	}
	return urls
}

// NATS is a running server without JetStream: nothing that it carries is kept, so it has no data
// directory. It implements nats.InProcessConnProvider.
type NATS struct {
	server *server.Server
	guard  *natsGuard // nil: it asks nobody who is there
	URL    string     // for clients; "": it does not listen
}

// StartNATS returns when the server takes connections.
func StartNATS(config NATSConfig) (*NATS, error) {
	n, err := startNATS(config)
	if errors.Is(err, errListen) && config.OrAny {
		host, _, _ := net.SplitHostPort(config.Listen) // parsed once already
		config.Listen = net.JoinHostPort(host, "0")
		n, err = startNATS(config)
	}
	return n, err
}

var errListen = errors.New("cannot listen")

func startNATS(config NATSConfig) (*NATS, error) {
	options := &server.Options{
		ServerName: "souk",
		MaxPayload: bus.MaxMessage, // prompts of bus.MaxBody fit into it
		DontListen: true,
		NoSigs:     true,

		AuthTimeout: shakeWithin.Seconds(),

		// Who does not read is dropped, and nobody who writes waits for it: a server would else have whoever
		// fills a connection stand still for a while, and with it all that it brings to others.
		MaxPending: bus.MaxPending, NoFastProducerStall: true,
		MaxConn: maxConnections, MaxSubTokens: maxSubTokens,
		PingInterval: serverPing, MaxPingsOut: serverPings,
		// Else a ping of its own after two seconds would come before the answer to who is refused late, and
		// clients take it for an error.
		DisableShortFirstPing: true,
	}
	var guard *natsGuard
	if a := config.Auth; a != nil {
		var accounts server.AccountResolver = &server.MemAccResolver{}
		if c := config.Cluster; c != nil {
			// A server that was away while somebody was revoked hears of it from the others.
			kept, err := server.NewDirAccResolver(c.Dir, 0, time.Minute, server.NoDelete)
			if err != nil {
				return nil, fmt.Errorf("embedded NATS: %w", err)
			}
			accounts = kept
			if err := clusterNATS(options, c); err != nil {
				return nil, fmt.Errorf("embedded NATS: %w", err)
			}
		}
		for account, token := range a.Accounts {
			if err := accounts.Store(account, token); err != nil {
				return nil, fmt.Errorf("embedded NATS: account %s: %w", account, err)
			}
		}
		options.TrustedOperators, options.SystemAccount = []*jwt.OperatorClaims{a.Operator}, a.System
		options.AccountResolver, options.MaxControlLine = accounts, natsauth.MaxControlLine
		guard = newNATSGuard(a, config.Log)
		options.CustomClientAuthentication = guard
	}
	if config.Listen != "" {
		host, port, err := splitAddress(config.Listen)
		if err != nil {
			return nil, fmt.Errorf("embedded NATS: %w", err)
		}
		port = cmp.Or(port, server.RANDOM_PORT)
		options.DontListen, options.Host, options.Port = false, host, port
	}
	if config.TLS != nil {
		options.TLS, options.TLSConfig, options.TLSTimeout = true, config.TLS, shakeWithin.Seconds()
	}
	s, err := server.NewServer(options)
	if err != nil {
		return nil, fmt.Errorf("embedded NATS: %w", err)
	}
	if guard != nil {
		guard.server = s
	}
	log := &natsLog{log: config.Log, fatal: make(chan string, 1)}
	s.SetLogger(log, false, false)

	started := make(chan struct{})
	go func() { s.Start(); close(started) }()
	if err := ready(s, log.fatal); err != nil {
		s.Shutdown()
		<-started
		s.WaitForShutdown()
		return nil, fmt.Errorf("embedded NATS: listen on %s: %w", config.Listen, err)
	}
	n := &NATS{server: s}
	if guard != nil {
		_, _ = s.LookupAccount(config.Auth.Market) // what it does not know of, it is told nothing of
		n.guard = guard
		guard.start()
	}
	if config.Listen != "" {
		n.URL = "nats://" + s.Addr().String()
		if config.TLS != nil {
			n.URL = "tls://" + s.Addr().String()
		}
	}
	return n, nil
}

// clusterNATS has a server find the others, and tell them what its clients subscribe to. Clients are told of
// none: their files name all.
func clusterNATS(o *server.Options, c *Cluster) error {
	peers, err := natsauth.PeerTLS(c.TLS)
	if err != nil {
		return err
	}
	o.ServerName, o.Routes = c.Member, c.urls("tls", natsPeers)
	o.Cluster = server.ClusterOpts{Name: "souk", Host: c.listen(), Port: natsPeers, NoAdvertise: true,
		Advertise: net.JoinHostPort(c.Member, strconv.Itoa(natsPeers)), TLSConfig: peers,
		TLSTimeout: shakeWithin.Seconds(), AuthTimeout: shakeWithin.Seconds(),
		PingInterval: routePing, MaxPingsOut: routePings}
	return nil
}

// A route that is silent is given up within ten seconds, as a client's connection is.
const (
	routePing  = 4 * time.Second
	routePings = 2
)

// ready waits until the server takes connections. It asks for a moment at a time: the server itself would
// wait on, even after it has found its port taken.
func ready(s *server.Server, fatal <-chan string) error {
	for end := time.Now().Add(readyIn); time.Now().Before(end); {
		if s.ReadyForConnections(10 * time.Millisecond) {
			return nil
		}
		select {
		case why := <-fatal:
			return fmt.Errorf("%s: %w", why, errListen)
		default:
		}
	}
	return fmt.Errorf("not ready after %v", readyIn)
}

// splitAddress wants host:port with a number for the port.
func splitAddress(address string) (host string, port int, err error) {
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, fmt.Errorf("address %q: use host:port, with port 0 for any free one: %w", address, err)
	}
	port, err = strconv.Atoi(service)
	if err != nil || port < 0 || port > 65535 || host == "" {
		return "", 0, fmt.Errorf("address %q: use host:port, with port 0 for any free one", address)
	}
	return host, port, nil
}

// InProcessConn connects without a socket.
func (n *NATS) InProcessConn() (net.Conn, error) { return n.server.InProcessConn() }

// Close ends all connections and the server.
func (n *NATS) Close() {
	if n.guard != nil {
		n.guard.end()
	}
	n.server.Shutdown()
	n.server.WaitForShutdown()
}

// natsLog passes on what an operator should see, and catches the one error that the server only logs. Of what
// clients do that they may not there can be any number of lines: so many are written in a second.
type natsLog struct {
	log   *slog.Logger
	once  sync.Once
	fatal chan string

	mu    sync.Mutex
	since time.Time // when the second began
	lines int       // of it

	refused seldom // what connections did that they may not, by kind
}

// maxLines bounds what the server logs in a second.
const maxLines = 20

func (l *natsLog) Noticef(string, ...any) {}
func (l *natsLog) Debugf(string, ...any)  {}
func (l *natsLog) Tracef(string, ...any)  {}

func (l *natsLog) Warnf(format string, args ...any) {
	l.write(slog.LevelWarn, fmt.Sprintf(format, args...))
}

func (l *natsLog) Errorf(format string, args ...any) {
	l.write(slog.LevelError, fmt.Sprintf(format, args...))
}

func (l *natsLog) Fatalf(format string, args ...any) {
	l.once.Do(func() { l.fatal <- fmt.Sprintf(format, args...) })
}

func (l *natsLog) write(level slog.Level, text string) {
	if l.log == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if kind, ok := doneBy(text); ok && level == slog.LevelError {
		l.refuse(time.Now(), kind, text)
		return
	}
	if now := time.Now(); now.Sub(l.since) >= time.Second {
		if more := l.lines - maxLines; more > 0 {
			l.log.Warn("of the lines before these some were left out", "lines", more, "server", "nats")
		}
		l.since, l.lines = now, 0
	}
	if l.lines++; l.lines <= maxLines {
		l.log.Log(context.Background(), level, text, "server", "nats")
	}
}

// routeLost begins what the server says, for each try, of another of its cluster that it does not reach.
const routeLost = "Error trying to connect to route"

// doneBy tells lines about one connection, by which the server says what it does not let it do, or about one
// route, and of which kind that is.
func doneBy(text string) (kind string, ok bool) {
	if strings.Contains(text, server.ErrAuthentication.Error()) {
		return server.ErrAuthentication.Error(), true
	}
	if strings.HasPrefix(text, routeLost) {
		return routeLost, true
	}
	_, text, ok = strings.Cut(text, " - cid:")
	for _, part := range strings.Split(text, " - ")[1:] {
		if !strings.HasPrefix(part, "\"") { // its program, and who it is
			kind, _, _ = strings.Cut(part, ":")
			break
		}
	}
	return kind, ok
}

// refuse says now and then what is refused: one whose creds are void tries again for as long as it runs.
func (l *natsLog) refuse(now time.Time, kind, text string) {
	says := "connections do what they may not"
	switch kind {
	case server.ErrAuthentication.Error():
		says = "connections are refused: without creds, or with such as are void here"
	case routeLost:
		says = "another server of the cluster is out of reach; trying again until it is back"
	}
	if times := l.refused.count(now, kind); times > 0 {
		l.log.Warn(says, "times", times, "last", text, "server", "nats")
	}
}

// seldom counts what may happen any number of times, by kind, and has each said once in [bus.SayAgain].
type seldom map[string]*done

// done counts one kind of action, between two log lines.
type done struct {
	told  time.Time
	times int
}

// mostKinds bounds the kinds of log lines: connections can make up parts of them. All beyond count as one.
const mostKinds = 16

// count counts one more. It returns how many there were since that was said last; 0: it is not to be said
// yet.
func (s *seldom) count(now time.Time, kind string) (times int) {
	if *s == nil {
		*s = seldom{}
	}
	if (*s)[kind] == nil && len(*s) >= mostKinds {
		kind = ""
	}
	d := (*s)[kind]
	if d == nil {
		d = &done{}
		(*s)[kind] = d
	}
	if d.times++; !d.told.IsZero() && now.Sub(d.told) < bus.SayAgain {
		return 0
	}
	times, d.told, d.times = d.times, now, 0
	return times
}
