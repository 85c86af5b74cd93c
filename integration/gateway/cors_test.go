package gateway_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"souk/bus/gateway"
)

// A page of an origin that the gateway lets in may ask, with its key and in JSON, and read what it is told,
// also that its key is wrong. Pages of others may not, and none may where no origin is given.
func TestPagesOfAnOriginMayAsk(t *testing.T) {
	const page = "http://localhost:5173"
	for _, c := range []struct {
		cors   []string
		origin string
		let    bool
	}{{nil, page, false}, {[]string{page}, page, true}, {[]string{page}, "http://localhost:5174", false},
		{[]string{"https://a.example", "*"}, page, true}, {[]string{page}, "", false}} {
		onStage(t, func(to *gateway.Config) { small(to); to.CORS = c.cors }, func(t *testing.T, st *stage) {
			st.will(func(j *job) {
				j.accept()
				j.say("x")
				j.end("")
			})
			send := func(method, path, key string, header ...string) *http.Response {
				r := st.request(t.Context(), path, strings.NewReader(""), header...)
				if method != http.MethodOptions {
					r = st.request(t.Context(), path, strings.NewReader(large(10, "")), header...)
				}
				if r.Method = method; key == "" {
					r.Header.Del("Authorization")
				}
				if c.origin != "" {
					r.Header.Set("Origin", c.origin)
				}
				a, err := st.client.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				io.Copy(io.Discard, a.Body)
				a.Body.Close()
				return a
			}
			want := func(what string, a *http.Response, status int) {
				t.Helper()
				allowed := ""
				if c.let {
					allowed = c.origin
				}
				all := ""
				if c.let { // headers such as X-Souk-Paid are of use to a page
					all = "*"
				}
				if a.Header.Get("Access-Control-Expose-Headers") != all || a.StatusCode != status ||
					a.Header.Get("Access-Control-Allow-Origin") != allowed ||
					(len(c.cors) > 0) != (a.Header.Get("Vary") == "Origin") {
					t.Errorf("%v from %q: %s: %d %v", c.cors, c.origin, what, a.StatusCode, a.Header)
				}
			}
			asks := []string{"Access-Control-Request-Method", "POST",
				"Access-Control-Request-Headers", "authorization,x-stainless-os"}
			may := send("OPTIONS", "/v1/chat/completions", "", asks...)
			if status := http.StatusNoContent; c.let {
				want("preflight", may, status)
				if may.Header.Get("Access-Control-Allow-Headers") != asks[3] ||
					!strings.Contains(may.Header.Get("Access-Control-Allow-Methods"), "POST") {
					t.Errorf("preflight: %v", may.Header)
				}
			} else {
				want("preflight", may, http.StatusNotFound)
			}
			want("options", send("OPTIONS", "/v1/chat/completions", ""), http.StatusNoContent)
			want("an answer", send("POST", "/v1/chat/completions", st.key), http.StatusOK)
			want("without a key", send("POST", "/v1/chat/completions", ""), http.StatusUnauthorized)
		})
	}
}

// Load balancers ask by either path and in several ways, without a key, and a gateway that drains says so.
func TestLoadBalancersAsk(t *testing.T) {
	onStage(t, small, func(t *testing.T, st *stage) {
		for _, ask := range []string{"GET /health", "HEAD /health", "GET /ping", "HEAD /ping", "POST /ping",
			"GET /health/", "GET /ping?from=balancer"} {
			method, path, _ := strings.Cut(ask, " ")
			r := st.request(t.Context(), path, strings.NewReader(""))
			r.Method, r.Host = method, "10.0.0.7:8080"
			r.Header.Del("Authorization")
			a, err := st.client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			a.Body.Close()
			if a.StatusCode != http.StatusOK {
				t.Errorf("%s: %d", ask, a.StatusCode)
			}
		}
	})
}
