// Package web is the web console: pages on which a market is seen while it works, by whoever has a token. It
// renders them itself, keeps them up to date by server-sent events, and changes nothing.
package web

import (
	"bytes"
	"context"
	"crypto/tls"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
	"unicode"

	"golang.org/x/net/netutil"

	"souk/bus"
	"souk/bus/natsauth"
	"souk/cmd/console"
	"souk/cmd/daemon"
	"souk/cmd/local"
)

// Config says where the console is, and what it reaches.
type Config struct {
	// host:port; beyond loopback with TLS
	Listen string
	// files in PEM, read again as they are renewed; "": without TLS
	Cert, Key string
	// another port will do where that one is taken
	AnyPort bool
	// data directory, where its tokens are
	Data string
	// data directory of the market, with its journals; "": they are elsewhere
	Journals string
	// base URL of a gateway, for the playground; "": there is none. CA vouches for it; "": the system's do
	Gateway, CA string
}

const (
	// DefaultListen has the console on loopback, beside the gateway.
	DefaultListen = "127.0.0.1:8090"

	mostConnections = 512
	mostStreams     = 64 // pages that are kept up to date, of all viewers together
	mostAnswers     = 32 // of the playground at once
	mostForm        = 256 << 10
	pageWithin      = 10 * time.Second // for a page to be made, and to be read
	closeWithin     = 2 * time.Second  // for pages that are being sent
)

// Server serves a console.
type Server struct {
	c                         Config
	market                    *local.Lookout
	watcher                   *local.Watcher
	log                       *slog.Logger
	door                      *door
	survey                    kept[*picture]
	parts                     kept[*local.Parts]
	last                      *picture // what the survey before the next found; of whoever makes that
	answers                   http.Client
	streams, playing, reading chan struct{} // full while as many are served as may be at once
	slow                      time.Duration // for one who is kept up to date to take what it is sent
	every                     time.Duration // between what it is sent

	mu     sync.Mutex
	glance *time.Timer // until the hubs stop showing themselves to pages without a stream

	life    context.Context // ends with the console
	end     context.CancelFunc
	work    sync.WaitGroup
	Address string // the console's URL
	server  *http.Server
}

//go:embed html static
var files embed.FS

// Start has a console listen, and makes its tokens where there are none. The market's links stay the
// caller's, to be closed after it.
func Start(c Config, market *local.Lookout, log *slog.Logger) (*Server, error) {
	remote := daemon.CheckLoopback(c.Listen)
	switch {
	case (c.Cert == "") != (c.Key == ""):
		return nil, errors.New("give the files of both, certificate and key")
	case remote != nil && !errors.Is(remote, daemon.ErrRemote):
		return nil, remote
	case remote != nil && c.Cert == "":
		return nil, fmt.Errorf("%w: beyond this machine it speaks TLS alone: give a certificate and its key, "+
			"or reach it by a tunnel", remote)
	}
	for _, role := range Roles {
		if _, err := Token(c.Data, role, false); err != nil {
			return nil, err
		}
	}
	s := &Server{c: c, market: market, log: log, slow: pageWithin, every: time.Second}
	s.streams, s.playing = make(chan struct{}, mostStreams), make(chan struct{}, mostAnswers)
	s.reading = make(chan struct{}, 1)
	if err := s.reachGateway(); err != nil {
		return nil, err
	}
	secure, err := daemon.ServerTLS(c.Cert, c.Key)
	if err != nil {
		return nil, err
	}
	listen := net.Listen
	if c.AnyPort {
		listen = local.ListenOrAny
	}
	l, err := listen("tcp", c.Listen)
	if err != nil {
		return nil, err
	}
	if err := s.begin(); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	s.door = newDoor(c.Data, port, secure != nil)
	s.Address = "http://" + l.Addr().String()
	handler := s.handler()
	if remote == nil {
		handler = daemon.ByLoopbackName(handler)
	}
	s.server = &http.Server{Handler: handler, TLSConfig: secure, ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout: pageWithin, WriteTimeout: 2 * pageWithin, IdleTimeout: time.Minute,
		MaxHeaderBytes: 16 << 10, ErrorLog: logNothing}
	l = netutil.LimitListener(l, mostConnections)
	serve := func() error { return s.server.Serve(l) }
	if secure != nil {
		s.Address = "https://" + l.Addr().String()
		serve = func() error { return s.server.ServeTLS(l, "", "") }
	}
	s.work.Go(func() {
		if err := serve(); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the console has ended", "err", err)
		}
	})
	return s, nil
}

// begin watches the market.
func (s *Server) begin() (err error) {
	s.life, s.end = context.WithCancel(context.Background())
	s.watcher, err = s.market.Link.Watch(s.life)
	s.survey.make, s.parts.make = s.takePicture, s.readParts
	if err != nil {
		s.end()
	}
	return err
}

var logNothing = log.New(io.Discard, "", 0)

// reachGateway prepares what the playground asks by.
func (s *Server) reachGateway() error {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.Proxy, t.ResponseHeaderTimeout, t.MaxIdleConns = nil, answerWithin, mostAnswers
	if s.c.CA != "" {
		secure, err := natsauth.TLSOf(natsauth.Files{CA: s.c.CA})
		if err != nil {
			return err
		}
		t.TLSClientConfig = &tls.Config{RootCAs: secure.RootCAs}
	}
	s.answers = http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // a key goes to the gateway alone
	}}
	return nil
}

// Close ends the console, and what it keeps up to date.
func (s *Server) Close() error {
	s.end()
	within, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	err := s.server.Shutdown(within)
	if err != nil {
		err = s.server.Close()
	}
	s.work.Wait()
	s.answers.CloseIdleConnections()
	return err
}

// policy has browsers take nothing from elsewhere, run no script that stands in a page, and show no page in
// another's.
const policy = "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'self'"

// handler serves everything, with what browsers are told of all of it. Nothing that other pages send is
// taken.
func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /static/", http.FileServerFS(files))
	mux.HandleFunc("GET /login", s.showLogin)
	mux.HandleFunc("POST /login", s.login)
	mux.HandleFunc("POST /logout", func(w http.ResponseWriter, r *http.Request) {
		s.door.leave(w, r)
		http.Redirect(w, r, "/login", http.StatusSeeOther)
	})
	for _, v := range views {
		mux.HandleFunc("GET "+v.path, func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, v) })
		if v.live != "" {
			mux.HandleFunc("GET "+v.live, func(w http.ResponseWriter, r *http.Request) { s.stream(w, r, v) })
		}
	}
	mux.HandleFunc("POST /playground", s.ask)
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		s.refuse(w, http.StatusNotFound, s.door.role(r), "There is no such page.")
	})
	guarded := http.NewCrossOriginProtection().Handler(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		r.Body = http.MaxBytesReader(w, r.Body, mostForm)
		guarded.ServeHTTP(w, r)
	})
}

// page holds what a template shows.
type page struct {
	Title    string
	Here     string // path of its entry in the navigation
	Operator bool
	In       bool   // somebody is logged in
	Market   string // its server
	Stream   string // what keeps it up to date; "": nothing does
	Hold     string // its own address, without that, or with it
	Held     bool
	Data     any
}

// functions that templates use.
var functions = template.FuncMap{"plain": console.Plain, "clock": clock, "share": share, "cut": cut,
	"micros": micros, "span": span, "first": first, "entries": entries, "until": until}

// templates has one of each view, within the frame of all.
var templates = func() map[string]*template.Template {
	base := template.Must(template.New("").Funcs(functions).ParseFS(files, "html/frame.html"))
	all := map[string]*template.Template{}
	names, err := files.ReadDir("html")
	if err != nil {
		panic(err)
	}
	for _, f := range names {
		if f.Name() != "frame.html" {
			t := template.Must(template.Must(base.Clone()).ParseFS(files, "html/"+f.Name()))
			all[f.Name()] = t
		}
	}
	return all
}()

// render is a template's text, without what is no text: nothing else ends a line of an event, and nothing
// stands in a source that a terminal obeys.
func render(file, part string, p *page) ([]byte, error) {
	var b bytes.Buffer
	err := templates[file].ExecuteTemplate(&b, part, p)
	return bytes.Map(readable, b.Bytes()), err
}

// readable leaves out control characters, but for ends of lines and tabs.
func readable(r rune) rune {
	if unicode.IsControl(r) && r != '\n' && r != '\t' {
		return -1
	}
	return r
}

// write sends a page.
func (s *Server) write(w http.ResponseWriter, status int, file string, p *page) {
	p.Market = bus.Redact(s.market.Link.State.NATS)
	text, err := render(file, "frame", p)
	if err != nil {
		s.log.Error("a page of the console cannot be made", "page", file, "err", err)
		http.Error(w, "This page cannot be made: the console's log says why.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	w.Write(text)
}

// refuse says on a page why there is no other.
func (s *Server) refuse(w http.ResponseWriter, status int, role Role, why string) {
	s.write(w, status, "said.html", &page{Title: http.StatusText(status), In: role != "",
		Operator: role == Operator,
		Data:     why})
}

func (s *Server) showLogin(w http.ResponseWriter, _ *http.Request) {
	s.write(w, http.StatusOK, "login.html", &page{Title: "Log in", Data: ""})
}

func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	ok, wait, err := s.door.enter(w, r, r.PostFormValue("token"))
	switch {
	case ok:
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return
	case err != nil:
		s.log.Error("a token of the console cannot be read", "err", err)
	}
	status, why := http.StatusForbidden, "That is no token of this console: souk console token shows it."
	if err != nil {
		why = "A token of this console cannot be read, so that nobody comes by it: its log says why."
	}
	if wait > 0 {
		status, why = http.StatusTooManyRequests,
			"Too many wrong tokens come from your address: wait a little."
		w.Header().Set("Retry-After", fmt.Sprint(int(wait.Seconds()+1)))
	}
	s.write(w, status, "login.html", &page{Title: "Log in", Data: why})
}
