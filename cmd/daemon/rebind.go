package daemon

import (
	"fmt"
	"net"
	"net/http"
	"strings"

	"souk/bus"
)

// ByLoopbackName answers requests whose Host is a name of loopback, with any port, as a tunnel may bring it.
// A web page can have a name of its own resolve to 127.0.0.1 (DNS rebinding); its browser then takes what
// listens there for the page's own server, and lets the page read it. The Host is still the page's name. No
// browser leaves it out; an HTTP/1.0 probe may.
func ByLoopbackName(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cross-Origin-Resource-Policy", "same-origin") // no other page may embed it
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if r.Host != "" && !isLoopbackName(r.Host) {
			http.Error(w, fmt.Sprintf("Host is %.100q: this address answers to localhost, 127.0.0.1 and [::1] "+
				"alone, so that no web page can read it under a name of its own: ask http://127.0.0.1:PORT, "+
				"from another machine through a tunnel; a proxy on this machine must send the header "+
				"Host: 127.0.0.1", r.Host), http.StatusMisdirectedRequest)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// isLoopbackName reports whether a Host names this machine's loopback.
func isLoopbackName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	} else {
		host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	}
	return bus.IsLoopback(strings.ToLower(host))
}
