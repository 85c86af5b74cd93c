package gateway_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/gateway"
)

// Who is answered before its body was read hears so at once, however long a body may take: the answer must
// not wait for a body that stops, nor be lost because the time to write it was over by then.
func TestAnAnswerDoesNotWaitForABody(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	t.Parallel()
	h, _, _ := start(t, one).with(func(c *gateway.Config) {
		c.BodyWithin, c.WriteWithin = 8*time.Second, 8*time.Second
	})
	for _, x := range []struct{ line, header, want string }{
		{"POST /v1/chat/completions", "Authorization: Bearer wrong\r\nContent-Length: 1000", " 401 "},
		{"POST /v1/chat/completions", "Authorization: Bearer " + h.key +
			"\r\nContent-Length: 1000\r\nContent-Encoding: gzip", " 400 "},
		{"POST /nowhere", "Transfer-Encoding: chunked", " 404 "},
		{"POST /v1/sessions/s/end", "Authorization: Bearer " + h.key + "\r\nContent-Length: 9", " 200 "},
	} {
		begun := time.Now()
		c := raw(t, h, x.line+" HTTP/1.1\r\nHost: x\r\n"+x.header+"\r\n\r\n")
		all, err := io.ReadAll(c)
		took := time.Since(begun)
		if err != nil || !strings.Contains(string(all), x.want) || took > 5*time.Second {
			t.Errorf("%s with %s: %q, %v after %v", x.line, x.header, all, err, took)
		}
	}
}

// Who still writes when it is refused has half a second to hear why: a connection that was closed at once,
// with bytes unread, would be reset, and the answer be lost to a client that writes first.
func TestWhoStillWritesIsNotReset(t *testing.T) {
	h := start(t, one)
	begun := time.Now()
	c := raw(t, h, fmt.Sprintf("POST /v1/quote HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"+
		"Content-Length: %d\r\n\r\n%s", h.key, bus.MaxBody+1, strings.Repeat(" ", 64<<10)))
	all, _ := io.ReadAll(c) // until it is closed, which resets it
	if took := time.Since(begun); !strings.Contains(string(all), " 413 ") || took < 400*time.Millisecond {
		t.Errorf("%.300q, and the end after %v", all, took)
	}
}
