package gateway

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"souk/bus/openai"
)

// anyOrigin in Config.CORS lets in the pages of every origin.
const anyOrigin = "*"

// checkOrigins judges Config.CORS.
func checkOrigins(origins []string) error {
	for i, o := range origins {
		u, err := url.Parse(o)
		if o != anyOrigin && (err != nil || u.Host == "" || o != strings.ToLower(u.Scheme+"://"+u.Host) ||
			u.Port() != "" && u.Port() == map[string]string{"https": "443", "http": "80"}[u.Scheme]) {
			return fmt.Errorf("cors[%d]: %.100q is no origin: write https://host or http://host:port without a path, "+
				"in small letters and without ports 443 and 80, as browsers send it, or %q for every page", i, o, anyOrigin)
		}
	}
	return nil
}

// lets reports whether a request comes of a page that may read its answer, and says so to the page's browser.
func (s *Server) lets(h http.Header, r *http.Request) bool {
	if len(s.c.CORS) == 0 {
		return false
	}
	h.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if origin == "" || !slices.Contains(s.c.CORS, origin) && !slices.Contains(s.c.CORS, anyOrigin) {
		return false
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", "*") // no cookies are read here, so that * stands for all
	return true
}

// preflight answers OPTIONS: what a browser asks before it lets a page send a key or JSON.
func (s *Server) preflight(w http.ResponseWriter, r *http.Request, let bool) {
	h, method := w.Header(), r.Header.Get("Access-Control-Request-Method")
	switch {
	case method == "":
		h.Set("Allow", "GET, HEAD, POST, OPTIONS")
	case !let:
		s.refuse(w, r, refuse(openai.CodeNoEndpoint, "pages of %.100q may not ask here: who runs this gateway lets "+
			"them in by its setting cors", r.Header.Get("Origin")))
		return
	default:
		h.Set("Access-Control-Allow-Methods", "GET, HEAD, POST")
		if asked := r.Header.Get("Access-Control-Request-Headers"); asked != "" {
			h.Set("Access-Control-Allow-Headers", asked) // * would not stand for Authorization
		}
		h.Set("Access-Control-Max-Age", "600")
	}
	s.bound(w)
	w.WriteHeader(http.StatusNoContent)
}
