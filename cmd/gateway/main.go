// Command gateway lets clients of OpenAI's and Anthropic's APIs use the market over HTTP.
package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"time"

	"souk/bus"
	"souk/bus/gateway"
	"souk/cmd/daemon"
)

// ballast is never written to, so it takes no memory. Go collects garbage when the heap has doubled: that of
// a gateway is some MB, which requests fill many times a second; a collection now comes after so much more.
var ballast = make([]byte, 32<<20)

func main() {
	daemon.Main(daemon.Command(role()))
	runtime.KeepAlive(ballast)
}

// config is the gateway's file.
type config struct {
	daemon.Common `yaml:",inline"`
	Market        daemon.Market  `yaml:"market"`
	Listen        string         `yaml:"listen"` // host:port for clients
	Gateway       gateway.Config `yaml:"gateway"`
}

const example = daemon.MarketExample +
	`listen: 127.0.0.1:8080            # where clients come; beyond loopback with gateway.tls or gateway.proxies
gateway:                          # every field has a default, see below
  id: gateway-a                   # the name in its creds if not given
  max_open: 4096                  # answers at once
  max_open_per_key: 2048          # of one key that has no limit of its own
  max_body: 33554432              # bytes of a request, 32 MB at most; else what the longest context has room for
  max_memory: 536870912           # bytes for all requests and answers; beyond that new ones are refused
  cors: []                        # origins of web pages that may ask, as https://chat.example.org; "*": any
  tls: {cert: "", key: ""}        # files in PEM: with them it speaks TLS, HTTP/2 too; read again when renewed
  proxies: []                     # addresses or networks of proxies before it, whose X-Forwarded-For counts
  proxy_header: false             # their connections begin with the PROXY protocol's header, version 1 or 2
  pprof: ""                       # 127.0.0.1:6060 shows go tool pprof where time and memory go
  requests: {log: all, sample: 1} # which have a line in the log: all, errors or off; all: that share of the served
  hash_tags: false                # true: journals keep hashes of user and metadata, not their text
  drain: 20s                      # for open answers when it is told to stop
`

func role() daemon.Role[*config] {
	return daemon.Role[*config]{
		Name:  "gateway",
		As:    bus.RoleGateway,
		Short: "The market for clients of OpenAI's and Anthropic's APIs, over HTTP",
		Long: `gateway serves OpenAI's API to whoever has a key (souk key new CLIENT), and asks the market for each answer:
/v1/chat/completions, /v1/completions, /v1/responses, /v1/embeddings and /v1/models; Anthropic's, /v1/messages
and /v1/messages/count_tokens; /v1/rerank; and beside them /v1/quote, /v1/balance, /v1/usage,
/v1/streams/TASK and /v1/sessions/SESSION/end. Any number of gateways serve the same keys, each with an id of
its own. On SIGTERM it refuses new requests and lets answers that are open end.`,
		Example: example,
		New: func() *config {
			return &config{Common: daemon.Default(), Market: daemon.DefaultMarket(),
				Listen: "127.0.0.1:8080", Gateway: gateway.Default()}
		},
		Serve: serve,
	}
}

func serve(ctx context.Context, p *daemon.Process, c *config) error {
	at, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("listen: %w: choose another address, or set SOUK_LISTEN", err)
	}
	defer at.Close()
	l, err := p.Connect(ctx, c.Market, bus.RoleGateway, c.IDs())
	if err != nil {
		return err
	}
	defer l.Close()
	stop, err := daemon.ServeProfiles(c.Gateway.Pprof, p.Log)
	if err != nil {
		return err
	}
	defer stop()
	secure, err := daemon.ServerTLS(c.Gateway.TLS.Cert, c.Gateway.TLS.Key)
	if err != nil {
		return fmt.Errorf("gateway.%w", err)
	}
	s, err := gateway.New(c.Gateway, gateway.Deps{Bus: l.Bus, Registry: l.Registry, Listener: at, TLS: secure,
		Log: p.Log, Spans: p.Spans, Meter: p.Meter()})
	if err != nil {
		return err
	}
	p.Serving(s.Ready(), func() any { return s.Stats() })
	id := c.Gateway.ID
	return p.Alone(ctx, l, bus.GatewayKey(id), bus.RoleGateway, "gateway.id", id, s.Run)
}

func (c *config) IDs() bus.IDs { return bus.IDs{Name: c.Gateway.ID} }

// Complete gives the gateway an id where it has none.
func (c *config) Complete() error {
	if c.Gateway.ID == "" {
		c.Gateway.ID = cmp.Or(c.Market.Named(), "gateway-"+strings.ToLower(rand.Text()[:8]))
	}
	var errs []error
	if err := daemon.CheckLoopback(c.Listen); err != nil &&
		!(errors.Is(err, daemon.ErrRemote) && c.Gateway.BeyondLoopback()) {
		errs = append(errs, fmt.Errorf("listen: %w; keys would cross the network in clear: give gateway.tls, or "+
			"say by gateway.proxies which proxies with TLS stand before it", err))
	}
	return errors.Join(append(errs, c.Gateway.Validate(), c.Market.Validate())...)
}

// Drain is the time for open answers.
func (c *config) Drain() time.Duration { return c.Gateway.Drain + 2*time.Second }
