package gateway

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// networks are addresses that are trusted to say for whom they ask.
type networks []netip.Prefix

// readNetworks reads addresses and networks.
func readNetworks(list []string) (out networks, err error) {
	for i, text := range list {
		p, err := netip.ParsePrefix(text)
		if at, alone := netip.ParseAddr(text); alone == nil {
			p, err = netip.PrefixFrom(at, at.BitLen()), nil
		}
		if err != nil {
			return nil, fmt.Errorf("proxies[%d]: %.60q: write an address as 10.0.0.7, or a network as 10.0.0.0/8",
				i, text)
		}
		out = append(out, p.Masked())
	}
	return out, nil
}

// loopback are the addresses of the machine itself.
func loopback() networks {
	return networks{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
}

func (n networks) have(at netip.Addr) bool {
	for _, p := range n {
		if p.Contains(at) {
			return true
		}
	}
	return false
}

// addressIn is the address that a text begins with, whatever port stands behind it; not valid: it has none.
func addressIn(text string) netip.Addr {
	text = strings.TrimSpace(text)
	at, err := netip.ParseAddr(text)
	if err != nil {
		both, _ := netip.ParseAddrPort(text)
		at = both.Addr()
	}
	return at.Unmap().WithZone("")
}

// asker is the address of who asks: of a request that a trusted proxy passed on the last that is no such
// proxy's. What stands before that in the header, anybody may have written. "" is none that can be told.
func (s *Server) asker(r *http.Request) string {
	at := addressIn(r.RemoteAddr)
	if s.proxies.have(at) {
		if r.Header.Get("X-Forwarded-Proto") == "http" {
			s.inClear.Do(func() {
				s.d.Log.Warn("a proxy takes requests without TLS: keys cross the network in clear", "proxy", at)
			})
		}
		hops := strings.Split(strings.Join(r.Header["X-Forwarded-For"], ","), ",")
		for i := len(hops) - 1; i >= 0 && s.proxies.have(at); i-- {
			next := addressIn(hops[i])
			if !next.IsValid() {
				break
			}
			at = next
		}
	}
	if at.Is6() { // whoever has one address of such a network has all of them
		p, _ := at.Prefix(64)
		at = p.Addr()
	}
	if !at.IsValid() {
		return r.RemoteAddr
	}
	return at.String()
}

// headed takes connections that begin with a header of the PROXY protocol: of trusted addresses alone.
type headed struct {
	net.Listener
	from   networks
	within time.Duration
}

func (l headed) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.from.have(addressIn(c.RemoteAddr().String())) {
			return &headedConn{Conn: c, within: l.within}, nil
		}
		c.Close()
	}
}

// headedConn is a connection of the address that its header names. Who accepts does not wait for that.
type headedConn struct {
	net.Conn
	within time.Duration
	once   sync.Once
	at     net.Addr
	err    error
}

func (c *headedConn) read() {
	c.SetReadDeadline(time.Now().Add(c.within))
	var at netip.AddrPort
	at, c.err = readProxyHeader(c.Conn)
	if c.at = c.Conn.RemoteAddr(); at.IsValid() {
		c.at = net.TCPAddrFromAddrPort(at)
	}
	if c.SetReadDeadline(time.Time{}); c.err != nil {
		c.Close()
	}
}

func (c *headedConn) RemoteAddr() net.Addr {
	c.once.Do(c.read)
	return c.at
}

func (c *headedConn) Read(p []byte) (int, error) {
	if c.once.Do(c.read); c.err != nil {
		return 0, c.err
	}
	return c.Conn.Read(p)
}

const (
	signature  = "\r\n\r\n\x00\r\nQUIT\n" // of version 2
	longestV1  = 107
	mostExtras = 4 << 10 // bytes of a header of version 2, of which an address has 36 at most
)

var errNoProxyHeader = errors.New("the connection does not begin with a header of the PROXY protocol")

// readProxyHeader reads a header of either version, and nothing behind it. An address that is not valid is
// the connection's own.
func readProxyHeader(r io.Reader) (at netip.AddrPort, err error) {
	head := make([]byte, len(signature), longestV1)
	if _, err := io.ReadFull(r, head); err != nil {
		return at, err
	}
	if string(head) == signature {
		return readV2(r)
	}
	for !bytes.HasSuffix(head, []byte("\r\n")) {
		if len(head) == longestV1 || !bytes.HasPrefix(head, []byte("PROXY ")) {
			return at, errNoProxyHeader
		}
		head = head[:len(head)+1]
		if _, err := io.ReadFull(r, head[len(head)-1:]); err != nil {
			return at, err
		}
	}
	words := strings.Split(strings.TrimSuffix(string(head), "\r\n"), " ")
	if len(words) > 1 && words[0] == "PROXY" && words[1] == "UNKNOWN" {
		return at, nil
	}
	if len(words) != 6 || words[0] != "PROXY" || words[1] != "TCP4" && words[1] != "TCP6" {
		return at, errNoProxyHeader
	}
	at, err = netip.ParseAddrPort(net.JoinHostPort(words[2], words[4]))
	if err == nil && at.Addr().Is4() != (words[1] == "TCP4") {
		err = errNoProxyHeader
	}
	return at, err
}

func readV2(r io.Reader) (at netip.AddrPort, err error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(r, head); err != nil {
		return at, err
	}
	size := int(binary.BigEndian.Uint16(head[2:]))
	if head[0]>>4 != 2 || head[0]&15 > 1 || size > mostExtras {
		return at, errNoProxyHeader
	}
	data := make([]byte, size)
	if _, err := io.ReadFull(r, data); err != nil {
		return at, err
	}
	bytes, proxied := map[byte]int{1: 4, 2: 16}[head[1]>>4], head[0]&15 == 1
	switch {
	case !proxied || bytes == 0: // it speaks for itself, as when it looks whether the gateway lives
		return at, nil
	case size < 2*bytes+4:
		return at, errNoProxyHeader
	}
	a, _ := netip.AddrFromSlice(data[:bytes])
	return netip.AddrPortFrom(a, binary.BigEndian.Uint16(data[2*bytes:])), nil
}
