package gateway

import (
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"souk/bus"
	"souk/bus/follow"
	"souk/bus/metrics"
	"souk/bus/openai"
)

// routes are the endpoints.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	for pattern, h := range map[string]func(http.ResponseWriter, *http.Request, *key) error{
		"POST /v1/chat/completions": s.asking(bus.KindChat),
		"POST /v1/completions":      s.asking(bus.KindCompletion),
		"POST /v1/responses":        s.responding,
		"POST /v1/messages":         s.messaging,
		"POST /v1/embeddings":       s.asking(bus.KindEmbedding),
		"POST /v1/rerank":           s.asking(bus.KindRerank), // Jina's; the others are Cohere's
		"POST /v2/rerank":           s.asking(bus.KindRerank),
		"POST /rerank":              s.asking(bus.KindRerank),
		"GET /v1/streams/{task}":    s.resume,
		"POST /v1/quote":            s.says(s.quote),
		"GET /v1/models":            s.says(s.models),
		"GET /v1/models/{id...}":    s.says(s.model),
		"GET /v1/balance":           s.says(s.balance),
		"GET /v1/usage":             s.says(s.usage),

		"POST /v1/messages/count_tokens":  s.says(s.countTokens),
		"POST /v1/sessions/{session}/end": s.says(s.endSession),
	} {
		_, route, _ := strings.Cut(pattern, " ")
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			s.count(func(st *Stats) { st.Requests[pattern]++ })
			of := requestIn(r)
			of.line.Route = pattern
			if r.Header.Get("Expect") != "" { // net/http writes that it is to go on
				s.bound(w)
			}
			k, err := s.admit(r)
			if k != nil {
				about := s.keys.about(k)
				of.line.Key, of.line.Client = about.ID, about.Client
				s.traced(of)
			}
			header := headerCost(r.Header)
			switch {
			case err != nil:
			case !s.memory.take(header):
				err = s.memory.refuse()
			default:
				defer s.memory.add(-header)
				err = h(w, r, k)
			}
			code := bus.Code("")
			if err != nil {
				code = asRefusal(err).code
			}
			s.answered(route, code)
			if err != nil {
				s.refuse(w, r, err)
			}
		})
	}
	for _, pattern := range []string{"GET /health", "GET /ping", "POST /ping"} { // those of vLLM's server
		mux.HandleFunc(pattern, s.health)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.answered(metrics.Other, openai.CodeNoEndpoint)
		s.refuse(w, r, noEndpoint(r))
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		of := requestOf(r)
		if r.ContentLength != 0 { // net/http waits for the rest of a body that nobody has read
			http.NewResponseController(w).SetReadDeadline(of.line.Begin.Add(s.c.BodyWithin))
		}
		if len(r.TransferEncoding) > 0 { // a Content-Length beside it might have told a proxy of another end
			w.Header().Set("Connection", "close")
		}
		tidy(r.URL)
		if c, ok := r.Context().Value(connKey{}).(*conn); ok {
			c.serve(true)
		}
		body := &toEnd{ReadCloser: r.Body, read: r.ContentLength == 0, of: of}
		w.Header()[requestHeader] = []string{of.id}
		if ofMessages(r) {
			w.Header().Set("Request-Id", of.id)
		}
		// net/http goes by the body of its own, once the handler has ended
		read := r.WithContext(r.Context())
		read.Body = body
		let := s.lets(w.Header(), r)
		if r.Method == http.MethodOptions {
			s.preflight(w, read, let)
		} else {
			mux.ServeHTTP(w, read)
		}
		s.tell(of)
		if !body.read {
			s.leaveBody(w)
		}
	})
}

func noEndpoint(r *http.Request) *refusal {
	return refuse(openai.CodeNoEndpoint, "%.20s %.100s is not served here: there are POST "+
		"/v1/chat/completions, /v1/completions, /v1/responses, /v1/messages, /v1/messages/count_tokens, "+
		"/v1/embeddings, /v1/rerank, /v1/quote and /v1/sessions/SESSION/end, GET /v1/models, /v1/balance, "+
		"/v1/usage and /v1/streams/TASK", r.Method, r.URL.Path)
}

// tidy leaves out slashes too many, as a base URL that ends with one brings them. Those within a name, which
// are escaped, stay.
func tidy(u *url.URL) {
	if !strings.Contains(u.Path, "//") && !strings.HasSuffix(u.Path, "/") {
		return
	}
	p := u.EscapedPath()
	for strings.Contains(p, "//") {
		p = strings.ReplaceAll(p, "//", "/")
	}
	if len(p) > 1 {
		p = strings.TrimSuffix(p, "/")
	}
	if plain, err := url.PathUnescape(p); err == nil {
		u.Path, u.RawPath = plain, p
	}
}

func (s *Server) count(what func(*Stats)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	what(&s.stats)
}

func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	why, as := *asRefusal(err), openai.Refusal.Append
	s.count(func(st *Stats) { st.Refused[why.code]++ })
	if of := requestIn(r); !of.began {
		of.line.Code, of.line.Status, of.line.Task = why.code, why.status(), why.task
	}
	s.bound(w)
	if (why.again || openai.FaultOf(why.code, why.retryMS).Again) && !s.serving() {
		w.Header().Set("Connection", "close") // who comes again may then come to another gateway
	}
	if ofMessages(r) {
		as = openai.Refusal.AppendMessage
	}
	why.write(w, as)
}

// ofMessages reports whether a request is one of Anthropic's API.
func ofMessages(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/v1/messages") }

// admit says whose key a request came with.
func (s *Server) admit(r *http.Request) (*key, error) {
	for _, name := range []string{"Authorization", ownKey} {
		if n := len(r.Header[name]); n > 1 {
			return nil, refuse(openai.CodeInvalidKey, "header %s: given %d times: send it once", name, n)
		}
	}
	if own := r.Header[ownKey]; len(own) > 0 && own[0] != "" && own[0] != secretOf(r) {
		return nil, refuse(openai.CodeInvalidKey, "headers Authorization and X-Api-Key have different keys: send one")
	}
	if err := s.awake.await(r.Context()); err != nil {
		return nil, err
	}
	if c, ok := r.Context().Value(connKey{}).(*conn); ok && c.stranger {
		return nil, refuse(openai.CodeNoEndpoint, "this address speaks without TLS, and therefore to its proxies "+
			"alone (gateway.proxies): ask by one of them, and take another key if it matters who saw this one")
	}
	p := show(secretOf(r))
	k, err := s.keys.admit(time.Now(), p, func() string { return s.asker(r) })
	if err != nil && p.whole && bus.CodeOf(err) == openai.CodeInvalidKey {
		if young := s.keys.await(r.Context(), s.d.Registry, p); young != nil {
			return young, nil
		}
	}
	return k, err
}

// ownKey is the header in which clients of Anthropic's API send a key.
const ownKey = "X-Api-Key"

// secretOf is the key as a request brings it.
func secretOf(r *http.Request) string {
	if len(r.Header["Authorization"]) == 0 {
		return r.Header.Get(ownKey)
	}
	scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(secret)
}

func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	s.bound(w)
	if !s.serving() {
		w.WriteHeader(http.StatusServiceUnavailable)
		io.WriteString(w, "not serving\n")
		return
	}
	io.WriteString(w, "ok\n")
}

// serving reports whether new requests can be served.
func (s *Server) serving() bool {
	s.mu.Lock()
	draining := s.draining
	s.mu.Unlock()
	opens := s.d.Opens == nil || follow.Closed(s.d.Opens)
	return opens && !draining && !s.d.Bus.Connected().IsZero()
}

// says serves an endpoint that answers with one value, in JSON.
func (s *Server) says(what func(http.ResponseWriter, *http.Request, *key) ([]byte, error)) func(
	http.ResponseWriter, *http.Request, *key) error {
	return func(w http.ResponseWriter, r *http.Request, k *key) error {
		data, err := what(w, r, k)
		if err == nil {
			s.writeJSON(w, data)
		}
		return err
	}
}

func (s *Server) writeJSON(w http.ResponseWriter, data []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	s.bound(w)
	w.Write(data)
}

// bound gives a client its time to take what is written next.
func (s *Server) bound(w http.ResponseWriter) {
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.c.WriteWithin))
}
