package gateway

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// Headers of both versions, as HAProxy's specification has them.
func v2(command, family byte, data string) string {
	return "\r\n\r\n\x00\r\nQUIT\n" + string([]byte{0x20 | command, family, byte(len(data) >> 8),
		byte(len(data))}) + data
}

var proxyHeaders = map[string]string{ // what the address is then; "": the connection's own; "no": refused
	"PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n":  "192.0.2.1:56324",
	"PROXY TCP6 2001:db8::1 2001:db8::2 56324 443\r\n": "[2001:db8::1]:56324",
	"PROXY UNKNOWN\r\n":                                                          "",
	"PROXY UNKNOWN ffff::1 ffff::2 65535 65535\r\n":                              "",
	v2(1, 0x11, "\xc0\x00\x02\x01\xc6\x33\x64\x01\xdc\x04\x01\xbb"):              "192.0.2.1:56324",
	v2(1, 0x11, "\xc0\x00\x02\x01\xc6\x33\x64\x01\xdc\x04\x01\xbb\x04\x00\x01x"): "192.0.2.1:56324",
	v2(1, 0x21, strings.Repeat("\x20", 32)+"\xdc\x04\x01\xbb"):                   "[2020:2020:2020:2020:2020:2020:2020:2020]:56324",
	v2(0, 0, ""):                                                "",
	v2(1, 0x31, strings.Repeat("u", 216)):                       "",
	v2(1, 0x11, "\xc0\x00\x02"):                                 "no",
	v2(2, 0x11, "............"):                                 "no",
	v2(1, 0, strings.Repeat("x", 60_000)):                       "no",
	"GET / HTTP/1.1\r\n\r\n":                                    "no",
	"PROXY TCP4 192.0.2.1 198.51.100.1 56324\r\n":               "no",
	"PROXY TCP4 2001:db8::1 2001:db8::2 1 2\r\n":                "no",
	"PROXY TCP4 evil 198.51.100.1 1 2\r\n":                      "no",
	"PROXY TCP4 192.0.2.1 " + strings.Repeat("9", 107) + "\r\n": "no",
	"PROXY TCP4 192.0.2.1":                                      "no",
	"\x16\x03\x01":                                              "no",
}

func TestHeadersOfTheProxyProtocol(t *testing.T) {
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := headed(plain, loopback(), 10*time.Second)
	defer l.Close()
	for text, want := range proxyHeaders {
		client, err := net.Dial("tcp", plain.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if want != "no" {
			text += "behind"
		}
		go func() {
			io.WriteString(client, text)
			client.(*net.TCPConn).CloseWrite()
		}()
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		got := c.RemoteAddr().String()
		rest, err := io.ReadAll(c)
		if want == "" {
			want = client.LocalAddr().String()
		}
		switch {
		case want == "no":
			if err == nil {
				t.Errorf("%.60q: %v", text, got)
			}
		case err != nil || got != want || string(rest) != "behind":
			t.Errorf("%.60q: %q, %v, and %q is left", text, got, err, rest)
		}
		client.Close()
		c.Close()
	}
}

// Who asks is the last address that no trusted proxy has: what a client writes before it, or without a proxy,
// counts for nothing.
func TestWhoAsks(t *testing.T) {
	proxies, err := readNetworks([]string{"10.0.0.0/8", "::1", "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		from string
		said []string
		want string
	}{
		{"192.0.2.1:5", nil, "192.0.2.1"},
		{"192.0.2.1:5", []string{"203.0.113.9"}, "192.0.2.1"},
		{"10.0.0.7:5", nil, "10.0.0.7"},
		{"10.0.0.7:5", []string{"203.0.113.9"}, "203.0.113.9"},
		{"10.0.0.7:5", []string{"1.2.3.4, 203.0.113.9"}, "203.0.113.9"},
		{"10.0.0.7:5", []string{"1.2.3.4", "203.0.113.9,10.2.2.2 , 127.0.0.1"}, "203.0.113.9"},
		{"10.0.0.7:5", []string{"10.1.1.1,10.2.2.2"}, "10.1.1.1"},
		{"10.0.0.7:5", []string{"1.2.3.4,unknown"}, "10.0.0.7"},
		{"10.0.0.7:5", []string{"1.2.3.4,"}, "10.0.0.7"},
		{"[::1]:5", []string{"203.0.113.9:7777"}, "203.0.113.9"},
		{"[::ffff:10.0.0.7]:5", []string{"[2001:db8:1:2:3::4]:80"}, "2001:db8:1:2::"},
		{"[2001:db8:1:2:ffff::9%eth0]:5", nil, "2001:db8:1:2::"},
		{"pipe", []string{"1.2.3.4"}, "pipe"},
	} {
		s := &Server{proxies: proxies, d: Deps{Log: slog.New(slog.DiscardHandler)}}
		r := &http.Request{RemoteAddr: c.from, Header: http.Header{"X-Forwarded-For": c.said}}
		if got := s.asker(r); got != c.want {
			t.Errorf("from %s with %q: %s, want %s", c.from, c.said, got, c.want)
		}
	}
	for from, lines := range map[string]int{"10.0.0.7:5": 1, "192.0.2.1:5": 0} { // a stranger is no proxy
		var log bytes.Buffer
		s := &Server{proxies: proxies, d: Deps{Log: slog.New(slog.NewTextHandler(&log, nil))}}
		for _, scheme := range []string{"https", "http", "http"} {
			s.asker(&http.Request{RemoteAddr: from, Header: http.Header{"X-Forwarded-Proto": {scheme}}})
			if scheme == "https" && log.Len() > 0 {
				t.Errorf("with TLS before it: %s", &log)
			}
		}
		if n := strings.Count(log.String(), "cross the network in clear"); n != lines {
			t.Errorf("requests that %s took without TLS: %d lines, want %d", from, n, lines)
		}
	}
	if proxies.have(netip.Addr{}) {
		t.Error("no address is trusted")
	}
	if _, err := readNetworks([]string{"10.0.0.0/33"}); err == nil {
		t.Error("a network that is none")
	}
}
