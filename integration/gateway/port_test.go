package gateway_test

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/gateway"
	"souk/bus/membus"
)

// Whatever bytes come to the port, the gateway answers or hangs up, and then serves the next.
func FuzzPort(f *testing.F) {
	key := bus.NewSecret("k", [32]byte{1})
	world := membus.New(1)
	registry := world.Registry()
	value, err := bus.EncodeEntry(&bus.APIKey{ID: "k", Client: "c",
		Hashes: []bus.KeyHash{{SHA256: bus.HashKey(key)}}})
	if err != nil {
		f.Fatal(err)
	}
	if err := registry.Put(f.Context(), bus.APIKeyKey("k"), value); err != nil {
		f.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.Fatal(err)
	}
	c := gateway.Default()
	c.ID = "gateway"
	c.HeaderWithin, c.BodyWithin = 100*time.Millisecond, 100*time.Millisecond
	running(f, c, gateway.Deps{Bus: world.Bus("gateway"), Registry: registry, Listener: l,
		Log: slog.New(slog.DiscardHandler)})
	head := "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + key + "\r\n"
	for _, text := range []string{"GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		head + "Content-Length: 2\r\n\r\n{}", head + "Content-Length: 20\r\n\r\n{}",
		head + "Transfer-Encoding: chunked\r\n\r\nffffffff\r\n{}",
		head + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
		strings.Replace(head, "POST /v1/chat/completions", "GET /v1/streams/x", 1) +
			"Last-Event-ID: -9\r\n\r\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(5 * time.Second))
		conn.Write(text)
		conn.(*net.TCPConn).CloseWrite()
		io.Copy(io.Discard, conn)
		r, err := http.Get("http://" + l.Addr().String() + "/health")
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		if r.StatusCode != http.StatusOK {
			t.Errorf("then %d", r.StatusCode)
		}
	})
}
