package natsbus_test

import (
	"context"
	"crypto/tls"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"souk/bus"
	"souk/bus/bustest/proxy"
	"souk/bus/embedded"
	"souk/bus/natsauth"
	"souk/bus/natsbus"
)

// certificates makes a market's certificates, once.
var certificates = sync.OnceValue(func() (c struct{ server, client *tls.Config }) {
	dir, err := os.MkdirTemp("", "natsbus-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	files, err := natsauth.ServerCert(dir, nil, time.Now())
	if err != nil {
		panic(err)
	}
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		panic(err)
	}
	c.server = &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}}
	if c.client, err = natsauth.TLSOf(natsauth.Files{CA: files.CA}); err != nil {
		panic(err)
	}
	return c
})

func TestBusOverTLS(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	carries(t, func(t *testing.T) network {
		s := serverWith(t, embedded.NATSConfig{Listen: "127.0.0.1:0", TLS: certificates().server})
		return sockets{s, map[string]*proxy.Proxy{}, certificates().client, nil}
	})
}

// Who lives in the server's process needs no TLS, and takes part with those that come by it.
func TestAServerOfTLSInProcess(t *testing.T) {
	s := serverWith(t, embedded.NATSConfig{Listen: "127.0.0.1:0", TLS: certificates().server})
	in := connect(t, natsbus.Config{InProcess: s, Name: "in"})
	out := connect(t, natsbus.Config{URL: s.URL, TLS: certificates().client, Name: "out"})
	echo(t, in, "s")
	if m, err := out.Request(t.Context(), bus.Msg{Subject: "s", Data: []byte("x")}); err != nil ||
		string(m.Data) != "x" {
		t.Errorf("%q, %v", m.Data, err)
	}
}

// Who does not know the server's CA is told what to write.
func TestAServerOfTLSSaysSo(t *testing.T) {
	s := serverWith(t, embedded.NATSConfig{Listen: "127.0.0.1:0", TLS: certificates().server})
	address := s.URL[strings.Index(s.URL, "://"):]
	for scheme, says := range map[string]string{"nats": "write tls:// in place of nats://",
		"tls": "in SOUK_MARKET_CA"} {
		_, err := natsbus.Connect(natsbus.Config{URL: scheme + address, Name: "out"})
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("by %s: %v, not %q", scheme, err, says)
		}
	}
}

// echo answers whatever comes on a subject with what it says.
func echo(t testing.TB, b *natsbus.Bus, subject string) {
	t.Helper()
	if _, err := b.Subscribe(subject, "", func(m bus.Msg) {
		b.Publish(bus.Msg{Subject: m.Reply, Data: m.Data})
	}); err != nil {
		t.Fatal(err)
	}
	if err := b.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// requests measures requests of a task's size.
func requests(b *testing.B, from *natsbus.Bus, subject string) {
	data := make([]byte, 2800)
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := from.Request(ctx, bus.Msg{Subject: subject, Data: data}); err != nil {
			b.Fatal(err)
		}
	}
}

// Whoever asks for TLS speaks nothing else, and nothing older than 1.3, and believes no other CA's server.
func TestTLSIsNotTalkedDown(t *testing.T) {
	plain := server(t, "127.0.0.1:0")
	_, err := natsbus.Connect(natsbus.Config{URL: plain.URL, TLS: certificates().client, Name: "a"})
	if !errors.Is(err, nats.ErrSecureConnWanted) {
		t.Errorf("a server without TLS: %v", err)
	}
	_, err = natsbus.Connect(natsbus.Config{URL: "tls" + strings.TrimPrefix(plain.URL, "nats"), Name: "a"})
	if !errors.Is(err, nats.ErrSecureConnWanted) {
		t.Errorf("tls:// of a server without TLS: %v", err)
	}
	old := certificates().server.Clone()
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	elder := serverWith(t, embedded.NATSConfig{Listen: "127.0.0.1:0", TLS: old})
	for name, config := range map[string]*tls.Config{"": nil, "with a CA": certificates().client} {
		_, err = natsbus.Connect(natsbus.Config{URL: elder.URL, TLS: config, Name: "a"})
		if err == nil || !strings.Contains(err.Error(), "protocol version") {
			t.Errorf("a server of TLS 1.2, %s: %v", name, err)
		}
	}
	s := serverWith(t, embedded.NATSConfig{Listen: "127.0.0.1:0", TLS: certificates().server})
	for _, url := range []string{s.URL, "nats" + strings.TrimPrefix(s.URL, "tls")} {
		_, err = natsbus.Connect(natsbus.Config{URL: url, Name: "a"})
		if err == nil || !strings.Contains(err.Error(), "unknown authority") {
			t.Errorf("%s, a CA that nobody named: %v", url, err)
		}
	}
	_, err = nats.Connect(s.URL, nats.Secure(&tls.Config{RootCAs: certificates().client.RootCAs,
		MaxVersion: tls.VersionTLS12}))
	if err == nil || !strings.Contains(err.Error(), "protocol version") {
		t.Errorf("a client of TLS 1.2: %v", err)
	}
}

// BenchmarkRequestOverSockets is a request of a task's size without TLS and with it.
func BenchmarkRequestOverSockets(b *testing.B) {
	for name, config := range map[string]embedded.NATSConfig{
		"plain": {Listen: "127.0.0.1:0"},
		"TLS":   {Listen: "127.0.0.1:0", TLS: certificates().server},
	} {
		b.Run(name, func(b *testing.B) {
			s := serverWith(b, config)
			c := natsbus.Config{URL: s.URL}
			if config.TLS != nil {
				c.TLS = certificates().client
			}
			c.Name = "from"
			from := connect(b, c)
			c.Name = "to"
			echo(b, connect(b, c), "s")
			requests(b, from, "s")
		})
	}
}
