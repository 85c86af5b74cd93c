package daemon

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"souk/bus/bustest"
	"souk/bus/metrics"
)

// A web page that has its own name resolve to 127.0.0.1 reads nothing of a daemon: not what it counts, not
// whether it lives. Who asks by a name of loopback, directly or through a tunnel, reads all.
func TestNoPageReadsHealthByRebinding(t *testing.T) {
	address := bustest.FreePort(t)
	ctx, stop := context.WithCancel(t.Context())
	up, code := make(chan struct{}), make(chan int, 1)
	role := fairRole(func(ctx context.Context, p *Process, _ *fair) error {
		ready := make(chan struct{})
		close(ready)
		p.Serving(ready, func() any { return map[string]string{"alice": "4.2 credits"} })
		var of metrics.Set
		credits := of.Gauge("credits", "Of alice.")
		of.Observe(p.Meter(), func(say metrics.Say) { say(credits, 4.2) })
		close(up)
		<-ctx.Done()
		return nil
	})
	path := write(t, fairFile+"health: {listen: \""+address+"\"}\n")
	go func() { code <- Run(ctx, Command(role), []string{"--config", path}, io.Discard, io.Discard) }()
	defer func() { stop(); <-code }()
	<-up

	// ask sends one request as it is given, for a path.
	ask := func(request, path string) (*http.Response, string) {
		t.Helper()
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprintf(c, request, path)
		answer, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatalf("%q: %v", request, err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer, string(body)
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/livez", "/readyz", "/stats", "/metrics", "/none"} {
		for _, host := range []string{"evil.example", "evil.example:" + port, "localhost.evil.example",
			"127.0.0.1.evil.example", "192.168.1.4", "0.0.0.0:" + port, "[::]", "[fe80::1]:" + port,
			"localhost@evil.example", "a:b:c", "[", "]", ":" + port} {
			for _, request := range []string{
				"GET %s HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n",
				"GET %s HTTP/1.0\r\nHost: " + host + "\r\n\r\n",
			} {
				r, body := ask(request, path)
				if r.StatusCode != http.StatusMisdirectedRequest && r.StatusCode != http.StatusBadRequest ||
					strings.Contains(body, "4.2") || strings.Contains(body, "fair") {
					t.Errorf("%s as %q: %s %s", path, host, r.Status, body)
				}
			}
		}
		// the name of a request's target goes before that of its header
		r, body := ask("GET http://evil.example%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
			path)
		if r.StatusCode != http.StatusMisdirectedRequest ||
			!strings.Contains(body, "ask http://127.0.0.1:PORT") {
			t.Errorf("%s of http://evil.example: %s %s", path, r.Status, body)
		}
	}
	for _, path := range []string{"/livez", "/readyz", "/stats", "/metrics"} {
		for _, request := range []string{
			"GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
			"GET %s HTTP/1.1\r\nHost: LocalHost:8000\r\nConnection: close\r\n\r\n",
			"GET %s HTTP/1.1\r\nHost: 127.0.0.1:" + port + "\r\nConnection: close\r\n\r\n",
			"GET %s HTTP/1.1\r\nHost: 127.3.2.1\r\nConnection: close\r\n\r\n",
			"GET %s HTTP/1.1\r\nHost: [::1]\r\nConnection: close\r\n\r\n",
			"GET %s HTTP/1.1\r\nHost: [::1]:9403\r\nConnection: close\r\n\r\n",
			"GET %s HTTP/1.0\r\n\r\n",
		} {
			r, body := ask(request, path)
			if r.StatusCode != http.StatusOK {
				t.Errorf("%q for %s: %s %s", request, path, r.Status, body)
			}
			if got := r.Header.Get("Cross-Origin-Resource-Policy"); got != "same-origin" {
				t.Errorf("%s may be embedded by other pages: %q", path, got)
			}
		}
	}
	_, body := ask("GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", "/stats")
	if !strings.Contains(body, "4.2 credits") {
		t.Errorf("/stats by its own name: %s", body)
	}
}
