package gateway_test

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"souk/bus/gateway"
)

// raw writes to the gateway's port, and returns the connection.
func raw(t *testing.T, h *house, text string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(h.at, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	return c
}

// connections do not add up.
func TestABodyThatNeverComes(t *testing.T) {
	h, _, _ := start(t, one).with(func(c *gateway.Config) { c.BodyWithin = 200 * time.Millisecond })
	for _, x := range []struct{ line, header, want string }{
		{"POST /v1/chat/completions", "Authorization: Bearer wrong\r\nContent-Length: 1000", " 401 "},
		{"GET /health", "Content-Length: 1000", " 200 "},
		{"POST /nowhere", "Transfer-Encoding: chunked", " 404 "},
		{"GET /v1/models", "Authorization: Bearer " + h.key + "\r\nContent-Length: 9", " 200 "},
		{"GET /v1/streams/x", "Authorization: Bearer " + h.key + "\r\nContent-Length: 9", " 400 "},
	} {
		c := raw(t, h, x.line+" HTTP/1.1\r\nHost: x\r\n"+x.header+"\r\n\r\n")
		all, err := io.ReadAll(c)
		if err != nil || !strings.Contains(string(all), x.want) {
			t.Errorf("%s with %s: %q, %v", x.line, x.header, all, err)
		}
	}
}
