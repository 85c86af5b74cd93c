package clock

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"souk/integration/lab/virtual"
	"souk/market"
)

// router is an HTTP proxy before engines that follows a rule. It is told which request is which by a header,
// and so has to read none: the rule costs it nothing.
type router struct {
	urls []*url.URL

	mu    sync.Mutex
	rule  virtual.Policy
	view  *virtual.View
	known map[string]*virtual.Request // by header, those under way
}

const header = "X-Request"

func (p *router) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	q := p.known[r.Header.Get(header)]
	if q == nil {
		p.mu.Unlock()
		http.Error(w, "the header "+header+" names no request", http.StatusBadRequest)
		return
	}
	if q.Engine = p.rule.Arrive(time.Now(), q, p.view); q.Engine == virtual.Wait {
		p.mu.Unlock()
		http.Error(w, "the rule keeps tasks until a slot is free: it is played in virtual time alone",
			http.StatusServiceUnavailable)
		return
	}
	p.view.Sent(q)
	p.mu.Unlock()
	began := sync.OnceFunc(func() { p.tell(func() { p.view.Began(q) }) })
	defer func() {
		began()
		p.tell(func() { p.view.Ended(q) })
	}()
	proxy := httputil.ReverseProxy{
		Rewrite: func(out *httputil.ProxyRequest) { out.SetURL(p.urls[q.Engine]) },
		ModifyResponse: func(answer *http.Response) error {
			answer.Body = &heard{answer.Body, began}
			return nil
		},
	}
	proxy.ServeHTTP(w, r)
}

func (p *router) tell(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

// heard tells of the first bytes of a body.
type heard struct {
	io.ReadCloser
	first func()
}

func (h *heard) Read(b []byte) (int, error) {
	n, err := h.ReadCloser.Read(b)
	if n > 0 {
		h.first()
	}
	return n, err
}

// throughRouter puts a router before the engines. ask fills in what came of a request, First counted from
// when it was asked.
func throughRouter(s *virtual.Setting, urls []string, rule string) (
	ask func(context.Context, *virtual.Request) error, end func() error, err error) {
	p := &router{view: virtual.NewView(s),
		known: map[string]*virtual.Request{}}
	if p.rule, err = virtual.NewRule(rule, s.Seed); err != nil {
		return nil, nil, err
	}
	for _, u := range urls {
		at, err := url.Parse(u)
		if err != nil {
			return nil, nil, err
		}
		p.urls = append(p.urls, at)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	server := &http.Server{Handler: p}
	go func() { _ = server.Serve(listener) }()
	web := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: s.Callers}}
	end = func() error {
		web.CloseIdleConnections()
		return server.Close()
	}
	to := "http://" + listener.Addr().String() + "/v1/chat/completions"
	ask = func(ctx context.Context, q *virtual.Request) error {
		id := strconv.Itoa(q.ID)
		p.tell(func() { p.known[id] = q })
		defer p.tell(func() { delete(p.known, id) })
		var said []map[string]string
		for _, m := range q.Messages() {
			said = append(said, map[string]string{"role": m.Role, "content": m.Content})
		}
		body, err := json.Marshal(map[string]any{"messages": said, "stream": true,
			"stream_options": map[string]bool{"include_usage": true}})
		if err != nil {
			return err
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
		if err != nil {
			return err
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set(header, id)
		first, usage, err := stream(web, r)
		if err != nil {
			return err
		}
		q.First = first
		return served(q, usage, q.Engine)
	}
	return ask, end, nil
}

// stream asks, and reads the answer to its end.
func stream(web *http.Client, r *http.Request) (first time.Duration, u market.Usage, err error) {
	begun := time.Now()
	answer, err := web.Do(r)
	if err != nil {
		return 0, u, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 1000))
		return 0, u, fmt.Errorf("%s: %s", answer.Status, text)
	}
	lines := bufio.NewReader(answer.Body)
	for {
		line, err := lines.ReadString('\n')
		text := strings.Contains(line, `"content":"`) && !strings.Contains(line, `"content":""`)
		if first == 0 && text {
			first = time.Since(begun)
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok && strings.Contains(data, `"usage":{`) {
			var last struct {
				Usage struct {
					Prompt  int `json:"prompt_tokens"`
					Output  int `json:"completion_tokens"`
					Details struct {
						Cached int `json:"cached_tokens"`
					} `json:"prompt_tokens_details"`
				}
			}
			if err := json.Unmarshal([]byte(data), &last); err != nil {
				return 0, u, err
			}
			u = market.Usage{Prompt: last.Usage.Prompt, Cached: last.Usage.Details.Cached,
				Output: last.Usage.Output}
		}
		if err == io.EOF {
			return first, u, nil
		}
		if err != nil {
			return 0, u, err
		}
	}
}
