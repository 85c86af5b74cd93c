package clock

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"souk/bus/follow"
	"souk/integration/lab/fit"
	"souk/integration/lab/virtual"
	"souk/market"
)

// router is an HTTP proxy before engines that follows a rule, which sees what a router sees: the prompts,
// what it sent where and what of that has ended, and the engines' metrics. It is told which request is which
// by a header, and so has to read none: the rule costs it nothing. An engine that cannot be reached is asked
// nothing any more, and what was to go there goes elsewhere, as long as its caller has heard nothing.
type router struct {
	urls      []*url.URL
	transport *http.Transport

	mu     sync.Mutex
	began  time.Time // when callers began: their times count from it
	rule   virtual.Policy
	view   *virtual.View
	known  map[string]*virtual.Request // by header, those under way
	placed map[*virtual.Request]chan int
	gone   []bool
	wake   *time.Timer // as the rule wants to be woken
}

const header = "X-Request"

// do has something happen to the rule, and then places whom it wants placed.
func (p *router) do(f func(now time.Time)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := virtual.Start.Add(time.Since(p.began))
	p.view.At(now)
	f(now)
	for {
		place, next := p.rule.Wake(now)
		for _, x := range place {
			p.place(now, x.Request, x.Engine)
		}
		if len(place) > 0 {
			continue
		}
		if !next.IsZero() {
			p.wake.Reset(max(0, next.Sub(now)))
		}
		return
	}
}

// hear has the rule say where a request goes. One that no engine has the room for goes nowhere.
func (p *router) hear(now time.Time, q *virtual.Request) {
	if !p.view.Look(q) {
		p.place(now, q, virtual.Wait)
	} else if engine := p.rule.Arrive(now, q, p.view); engine != virtual.Wait {
		p.place(now, q, engine)
	}
}

// place ends a request's wait. Who waited for an engine that has gone is asked about again.
func (p *router) place(now time.Time, q *virtual.Request, engine int) {
	placed := p.placed[q]
	switch {
	case placed == nil: // its caller has left
		return
	case engine == virtual.Wait:
	case p.gone[engine]:
		p.hear(now, q)
		return
	default:
		q.Engine = engine
		p.view.Sent(q)
	}
	delete(p.placed, q)
	placed <- engine
}

// lose notes that an engine cannot be reached: no request fits it any more.
func (p *router) lose(engine int) {
	p.gone[engine] = true
	p.view.Engines[engine].Context = 0
}

func (p *router) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	q := p.known[r.Header.Get(header)]
	p.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if q == nil || err != nil {
		http.Error(w, "the header "+header+" names no request", http.StatusBadRequest)
		return
	}
	for range tries {
		placed := make(chan int, 1)
		p.do(func(now time.Time) {
			p.placed[q] = placed
			p.hear(now, q)
		})
		var engine int
		select {
		case engine = <-placed:
		case <-r.Context().Done():
			return
		}
		if engine == virtual.Wait {
			p.refuse(w)
			return
		}
		if p.pass(w, r, q, body) {
			return
		}
		gone := !fit.Healthy(r.Context(), p.urls[engine].String())
		p.do(func(time.Time) {
			if gone {
				p.lose(engine)
			}
			p.view.Began(q)
			p.view.Ended(q)
			q.Engine = virtual.Wait
		})
	}
	http.Error(w, "no engine answered", http.StatusBadGateway)
}

// tries bounds how often a request is sent to engines that cannot be reached, or say that they fail.
const tries = 4

// refuse says that the rule sends a request nowhere, or that there is no engine left.
func (p *router) refuse(w http.ResponseWriter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if slices.Contains(p.gone, false) {
		http.Error(w, "refused by the rule", http.StatusTooManyRequests)
		return
	}
	http.Error(w, "no engine is left", http.StatusBadGateway)
}

// pass hands a request to its engine and the answer back; false where the engine cannot be reached.
func (p *router) pass(w http.ResponseWriter, r *http.Request, q *virtual.Request, body []byte) bool {
	reached := true
	began := sync.OnceFunc(func() {
		p.do(func(now time.Time) {
			p.view.Began(q)
			p.rule.First(now, q, p.view)
		})
	})
	proxy := httputil.ReverseProxy{
		Rewrite: func(out *httputil.ProxyRequest) {
			out.SetURL(p.urls[q.Engine])
			out.Out.Header["Idempotency-Key"] = nil // asked again where a kept connection was just closed
		},
		Transport: p.transport,
		ModifyResponse: func(answer *http.Response) error {
			if answer.StatusCode >= http.StatusInternalServerError {
				return errLost
			}
			answer.Body = &heard{answer.Body, began}
			return nil
		},
		ErrorHandler: func(_ http.ResponseWriter, r *http.Request, _ error) {
			reached = r.Context().Err() != nil // else its caller has left
		},
		ErrorLog: nothing,
	}
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	r.Body, _ = r.GetBody()
	defer func() { // an answer that breaks off panics
		if reached {
			began()
		}
	}()
	proxy.ServeHTTP(w, r)
	return reached
}

var nothing = log.New(io.Discard, "", 0)

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

// scrape reads the engines' metrics once.
func (p *router) scrape(ctx context.Context) {
	all := make([]map[string]float64, len(p.urls))
	for i, u := range p.urls {
		if page, err := fit.Metrics(ctx, u.String()); err == nil {
			all[i] = page
		}
	}
	p.do(func(now time.Time) {
		for i, page := range all {
			if page != nil {
				p.view.Engines[i].Scrape = virtual.Scrape{Running: int(page["vllm:num_requests_running"]),
					Waiting: int(page["vllm:num_requests_waiting"]), Usage: page["vllm:kv_cache_usage_perc"],
					Output: int(page["vllm:generation_tokens_total"])}
				p.view.Engines[i].ScrapedAt = now
			}
		}
		p.rule.Scraped(now, p.view)
	})
}

// throughRouter puts a router before the engines. ask fills in what came of a request, First counted from
// when it was asked; body is what is sent.
func throughRouter(ctx context.Context, s *virtual.Setting, urls []string, rule string,
	body func(*virtual.Request) []byte) (ask func(context.Context, *virtual.Request) error, end func() error,
	err error) {
	p := &router{view: virtual.NewView(s), known: map[string]*virtual.Request{},
		gone: make([]bool, len(urls)), placed: map[*virtual.Request]chan int{}, began: time.Now(),
		// vLLM closes idle connections after 5 s
		transport: &http.Transport{MaxIdleConnsPerHost: s.Callers, IdleConnTimeout: 4 * time.Second}}
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
	p.wake = time.AfterFunc(time.Hour, func() { p.do(func(time.Time) {}) })
	server := &http.Server{Handler: p, ErrorLog: nothing}
	go func() { _ = server.Serve(listener) }()
	ctx, stop := context.WithCancel(ctx)
	var scrapes sync.WaitGroup
	scrapes.Go(func() {
		for follow.Pause(ctx, s.Scrape) && s.Scrape > 0 {
			p.scrape(ctx)
		}
	})
	web := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: s.Callers}}
	end = func() error {
		stop()
		scrapes.Wait()
		p.wake.Stop()
		web.CloseIdleConnections()
		p.transport.CloseIdleConnections()
		return server.Close()
	}
	to := "http://" + listener.Addr().String() + "/v1/chat/completions"
	ask = func(ctx context.Context, q *virtual.Request) error {
		id := strconv.Itoa(q.ID)
		p.mu.Lock()
		p.known[id], p.began = q, time.Now().Add(-q.Arrived)
		p.mu.Unlock()
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body(q)))
		if err != nil {
			return err
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set(header, id)
		asked := time.Now()
		first, usage, err := stream(web, r)
		p.do(func(now time.Time) {
			delete(p.known, id)
			delete(p.placed, q)
			switch {
			case errors.Is(err, errRefused):
				q.Refused, q.First, err = true, time.Since(asked), nil
				return
			case q.Engine == virtual.Wait:
				return
			}
			p.view.Ended(q)
			if err == nil {
				q.First = first
				err = served(q, usage, q.Engine)
				p.rule.Done(now, q, usage, p.view)
			}
		})
		return err
	}
	return ask, end, nil
}

// plain is a request as it is sent to a router: its messages.
func plain(q *virtual.Request) []byte {
	var said []map[string]string
	for _, m := range q.Messages() {
		said = append(said, map[string]string{"role": m.Role, "content": m.Content})
	}
	body, err := json.Marshal(map[string]any{"messages": said, "stream": true,
		"stream_options": map[string]bool{"include_usage": true}})
	if err != nil {
		panic(fmt.Sprintf("clock: a body of texts is not JSON: %v", err))
	}
	return body
}

// errRefused says that a rule refused a request; errLost that its engine went away.
var (
	errRefused = errors.New("refused")
	errLost    = errors.New("the engine went away")
)

// stream asks, and reads the answer to its end.
func stream(web *http.Client, r *http.Request) (first time.Duration, u market.Usage, err error) {
	begun := time.Now()
	answer, err := web.Do(r)
	if err != nil {
		return 0, u, fmt.Errorf("%w: %w", errLost, err)
	}
	defer answer.Body.Close()
	switch answer.StatusCode {
	case http.StatusTooManyRequests:
		return 0, u, errRefused
	case http.StatusBadGateway:
		return 0, u, errLost
	}
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
		if err == io.EOF && u.Prompt > 0 {
			return first, u, nil
		}
		if err != nil {
			return 0, u, fmt.Errorf("%w: %w", errLost, err)
		}
	}
}
