package gateway

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/pires/go-proxyproto"
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

// headed takes connections that begin with a header of the PROXY protocol, of trusted addresses alone. Who
// accepts does not wait for that; a header that names no address of TCP leaves the connection its own.
func headed(l net.Listener, from networks, within time.Duration) net.Listener {
	return &proxyproto.Listener{Listener: l, ReadHeaderTimeout: within,
		ConnPolicy: func(o proxyproto.ConnPolicyOptions) (proxyproto.Policy, error) {
			if !from.have(addressIn(o.Upstream.String())) {
				return proxyproto.REJECT, proxyproto.ErrInvalidUpstream
			}
			return proxyproto.REQUIRE, nil
		},
		ValidateHeader: func(h *proxyproto.Header) error {
			if _, tcp := h.SourceAddr.(*net.TCPAddr); !tcp {
				h.Command = proxyproto.LOCAL
			}
			return nil
		}}
}
