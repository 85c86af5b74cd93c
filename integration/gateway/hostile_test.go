package gateway_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"souk/bus"
	"souk/bus/gateway"
	"souk/bus/natsauth"
	"souk/bus/natsbus"
	"souk/cmd/daemon"
	"souk/cmd/local"
	"souk/market"
)

// slowly is a market whose answers take their time.
var slowly = strings.Replace(one, "speedup: 20", "speedup: 1", 1)

// long is an answer of some seconds.
func long(more string) string {
	return strings.Replace(chat(more), `"max_tokens":20`, `"max_tokens":3000,"ignore_eos":true`, 1)
}

// with is the same house behind a gateway of other limits.
func (h *house) with(change func(*gateway.Config)) (*house, *gateway.Server, context.CancelFunc) {
	h.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		h.t.Fatal(err)
	}
	return h.withListener(l, change)
}

func (h *house) withListener(l net.Listener, change func(*gateway.Config)) (*house, *gateway.Server,
	context.CancelFunc) {
	h.t.Helper()
	return h.withDeps(l, change, func(*gateway.Deps) {})
}

func (h *house) withDeps(l net.Listener, change func(*gateway.Config), as func(*gateway.Deps)) (*house,
	*gateway.Server, context.CancelFunc) {
	h.t.Helper()
	c := gateway.Default()
	c.ID = "second"
	change(&c)
	creds, err := h.Keys.Ensure(bus.RoleGateway, bus.IDs{Name: c.ID}, time.Now())
	if err != nil {
		h.t.Fatal(err)
	}
	b, err := natsbus.Connect(natsbus.Config{URL: h.State.NATS, Name: c.ID, Creds: natsauth.File(creds)})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { b.Close() })
	secure, err := daemon.ServerTLS(c.TLS.Cert, c.TLS.Key)
	if err != nil {
		h.t.Fatal(err)
	}
	d := gateway.Deps{Bus: b, Registry: h.Registry, Listener: l, TLS: secure,
		Log: slog.New(slog.NewTextHandler(h.log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	as(&d)
	s, stop := running(h.t, c, d)
	same := *h
	same.at = "http://" + l.Addr().String()
	return &same, s, stop
}

// running is a gateway until the test ends, or it is stopped.
func running(t testing.TB, c gateway.Config, d gateway.Deps) (s *gateway.Server, stop func()) {
	t.Helper()
	s, err := gateway.New(c, d)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	<-s.Ready()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s, stop
}

// dial opens a bare connection, and writes to it.
func (h *house) dial(text string) *net.TCPConn {
	h.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(h.at, "http://"))
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(c, text); err != nil {
		h.t.Fatal(err)
	}
	return c.(*net.TCPConn)
}

func (h *house) post(body string) string {
	return fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"+
		"Content-Length: %d\r\n\r\n%s", h.key, len(body), body)
}

func TestRefusals(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	const chats, invalid, unknown = "/v1/chat/completions", "invalid_request_error", "authentication_error"
	h := start(t, one)
	h.newKey(bus.APIKey{ID: "nobody", Client: "nobody"})
	poor := h.newKey(bus.APIKey{ID: "poor", Client: "poor"})
	nobody := h.newKey(bus.APIKey{ID: "nobody2", Client: "nobody"})
	for _, c := range []struct {
		method, path, body, key string
		status                  int
		code, kind, param       string
	}{
		{"POST", chats, chat(``), "", 401, "invalid_api_key", unknown, ""},
		{"POST", chats, chat(``), "sk-other", 401, "invalid_api_key", unknown, ""},
		{"GET", "/v1/models", "", h.key[:len(h.key)-1], 401, "invalid_api_key", unknown, ""},
		{"POST", chats, `{`, h.key, 400, "bad_request", invalid, ""},
		{"POST", chats, ``, h.key, 400, "bad_request", invalid, ""},
		{"POST", chats, "\xff", h.key, 400, "bad_request", invalid, ""},
		{"POST", chats, `[]`, h.key, 400, "bad_request", invalid, ""},
		{"POST", chats, `{"messages":[]}`, h.key, 400, "empty_prompt", invalid, "messages"},
		{"POST", chats, chat(`,"n":9`), h.key, 400, "bad_request", invalid, "n"},
		{"POST", chats, chat(`,"echo":true`), h.key, 400, "unsupported_field",
			invalid, "echo"},
		{"POST", chats, chat(`,"souk":{"terms":{"worth":0}}`), h.key, 400, "bad_terms",
			invalid, "terms.worth"},
		{"POST", chats, chat(`,"temperature":"hot"`), h.key, 400, "engine_refused",
			invalid, ""},
		{"POST", chats, strings.Replace(chat(``), "auto", "gpt-9", 1), h.key, 404,
			"model_not_found", "not_found_error", ""},
		{"POST", chats, strings.Replace(chat(``), "What", strings.Repeat("x", 600<<10), 1),
			h.key, 413, "too_large", invalid, ""},
		{"POST", chats, strings.Replace(chat(``), "What", strings.Repeat("x ", 200<<10), 1),
			h.key, 400, "context_length_exceeded", invalid, ""},
		{"POST", chats, chat(`,"souk":{"terms":{"max_price":0.000000001}}`), h.key, 422,
			"not_worth_it", invalid, ""},
		{"POST", chats, chat(`,"souk":{"deadline_ms":1}`), h.key, 422, "past_deadline",
			invalid, ""},
		{"POST", chats, chat(``), poor, 402, "insufficient_quota", "insufficient_quota", ""},
		{"POST", chats, chat(``), nobody, 403, "unknown_client", "permission_error", ""},
		{"POST", "/v1/audio/speech", `{"input":"x"}`, h.key, 404, "unsupported_endpoint",
			"not_found_error", ""},
		{"GET", chats, ``, h.key, 404, "unsupported_endpoint", "not_found_error", ""},
		{"GET", "/", ``, "", 404, "unsupported_endpoint", "not_found_error", ""},
		{"GET", "/v1/streams/nothing", ``, h.key, 410, "answer_gone", invalid, ""},
	} {
		for _, stream := range []bool{false, true} {
			body := c.body
			if stream {
				body = strings.Replace(body, `"model"`, `"stream":true,"model"`, 1)
			}
			r := h.do(c.method, c.path, body, c.key)
			e := r.object(t).Error
			if r.status != c.status || e == nil || e.Code != c.code || e.Type != c.kind ||
				e.Param != c.param || e.Message == "" || e.Souk.Code == "" {
				t.Errorf("%s %s %.100q: %d %s", c.method, c.path, body, r.status, r.body)
			}
			again, never := r.header.Get("Retry-After-Ms") != "", r.header.Get("X-Should-Retry") == "false"
			if again == never || (r.status == 401) != (r.header.Get("WWW-Authenticate") == "Bearer") {
				t.Errorf("%.100q: %v", body, r.header)
			}
		}
	}
}

// What comes too slowly, or is too much, is cut off, and holds nobody else up.
func TestSlowAndHugeRequests(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	h, _, _ := start(t, one).with(func(c *gateway.Config) {
		c.HeaderWithin, c.BodyWithin = 300*time.Millisecond, 300*time.Millisecond
	})
	head := h.dial("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-Slow: ")
	body := h.dial(strings.TrimSuffix(h.post(chat(``)), "}"))
	huge := h.dial("GET /v1/models HTTP/1.1\r\nHost: x\r\nX-Huge: " + strings.Repeat("x", 64<<10))
	if r := h.do("POST", "/v1/chat/completions", chat(``), h.key); r.status != 200 {
		t.Errorf("beside them: %d %s", r.status, r.body)
	}
	for name, c := range map[string]struct {
		conn *net.TCPConn
		want string
	}{"header": {head, ""}, "body": {body, "400"}, "huge": {huge, "431"}} {
		got, err := io.ReadAll(c.conn)
		if !strings.Contains(string(got), c.want) || c.want == "" && strings.Contains(string(got), " 200 ") ||
			errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestRequestsInOnePacket(t *testing.T) {
	h := start(t, one)
	c := h.dial(h.post(chat(``)) + h.post(`{`) + h.post(chat(`,"stream":true`)))
	in := bufio.NewReader(c)
	for i, want := range []int{200, 400, 200} {
		r, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r.Body)
		if err != nil || r.StatusCode != want {
			t.Errorf("answer %d: %d %v %s", i, r.StatusCode, err, text)
		}
	}
}

// reading begins a stream, and returns it with its first bytes read.
func (h *house) reading(body, key string, header ...string) (r *http.Response, leave context.CancelFunc) {
	h.t.Helper()
	ctx, leave := context.WithTimeout(h.t.Context(), time.Minute)
	h.t.Cleanup(leave)
	r, err := http.DefaultClient.Do(h.request(ctx, "POST", "/v1/chat/completions", body, key, header...))
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { r.Body.Close() })
	if r.StatusCode != 200 {
		b, _ := io.ReadAll(r.Body)
		h.t.Fatalf("%d %s", r.StatusCode, b)
	}
	if _, err := io.ReadFull(r.Body, make([]byte, 300)); err != nil {
		h.t.Fatal(err)
	}
	return r, leave
}

// Who leaves frees the slot within a second, whether it closes its connection or a half of it.
func TestWhoLeavesCancels(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	h := start(t, slowly)
	free, left := h.Free(), int64(0)
	for name, leave := range map[string]func() func(){
		"closed": func() func() { _, leave := h.reading(long(`,"stream":true`), h.key); return leave },
		"half closed": func() func() {
			c := h.dial(h.post(long(`,"stream":true`)))
			bufio.NewReader(c).ReadString('{')
			return func() { c.CloseWrite() }
		},
		"whole": func() func() {
			c := h.dial(h.post(long(``)))
			return func() { c.Close() }
		},
	} {
		h.within(name, time.Second, func() time.Duration {
			left++
			leaves := leave()
			h.until(name+": the slot is taken", func() bool { return h.Free() == free-1 })
			begun := time.Now()
			leaves()
			h.until(name+": the gateway has let go", func() bool { return h.Gateway.Stats().Open == 0 })
			took := time.Since(begun)
			h.until(name+": the slot is free", func() bool { return h.Free() == free })
			return took
		})
	}
	if s := h.Gateway.Stats(); s.Left != left || s.Cut[bus.CodeCancelled] != left {
		t.Errorf("after %d: %+v", left, s)
	}
}

// A key that is revoked, or whose time is over, ends what it has in hand within a second, everywhere (five on
// a machine that is busy with others); and so does a secret when the time is over for which it was kept
// beside the one in its place.
func TestAKeyIsRevokedInTheMiddleOfAStream(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	h := start(t, slowly)
	second, _, _ := h.with(func(*gateway.Config) {})
	for name, k := range map[string]bus.APIKey{
		"revoked":  {ID: "k1", Client: "other"},
		"expired":  {ID: "k2", Client: "other"},
		"replaced": {ID: "k3", Client: "other"},
	} {
		if name == "expired" {
			k.ExpiresMS = time.Now().Add(4 * time.Second).UnixMilli()
		}
		secret := h.newKey(k)
		second.until("the other gateway knows it", func() bool {
			return second.do("GET", "/v1/models", "", secret).status == 200
		})
		var all []*http.Response
		for _, at := range []*house{h, second} {
			r, _ := at.reading(long(`,"stream":true`), secret)
			all = append(all, r)
		}
		if name == "revoked" {
			if err := h.Registry.Delete(t.Context(), bus.APIKeyKey(k.ID)); err != nil {
				t.Fatal(err)
			}
		}
		if name == "replaced" {
			if _, err := local.RotateKey(t.Context(), h.Registry, k.ID, time.Second); err != nil {
				t.Fatal(err)
			}
		}
		begun := time.Now()
		for _, r := range all {
			rest, err := io.ReadAll(r.Body)
			if err != nil || !strings.Contains(string(rest), `"code":"invalid_api_key"`) ||
				strings.Contains(string(rest), "[DONE]") {
				t.Errorf("%s: %v, %.300q", name, err, rest[max(0, len(rest)-300):])
			}
		}
		if d := time.Since(begun); d > 5*time.Second && name == "revoked" {
			t.Errorf("%s after %v", name, d)
		}
		if r := h.do("GET", "/v1/models", "", secret); r.status != 401 {
			t.Errorf("%s: %d", name, r.status)
		}
	}
}

// A new secret is good at once, and the one before for as long as was said.
func TestAKeyIsRotated(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	h := start(t, one)
	before := h.newKey(bus.APIKey{ID: "k", Client: "dev"})
	status := func(key string) int { return h.do("GET", "/v1/models", "", key).status }
	after, err := local.RotateKey(t.Context(), h.Registry, "k", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	h.until("the new one is known", func() bool { return status(after) == 200 })
	if got := status(before); got != 200 {
		t.Errorf("the one before: %d", got)
	}
	last, err := local.RotateKey(t.Context(), h.Registry, "k", 0)
	if err != nil {
		t.Fatal(err)
	}
	h.until("the newest is known", func() bool { return status(last) == 200 })
	if a, b := status(before), status(after); a != 401 || b != 401 {
		t.Errorf("the ones before: %d, %d", a, b)
	}
}

func TestWhatAKeyAllows(t *testing.T) {
	h := start(t, slowly)
	tiny := bus.APIKey{ID: "k", Client: "dev", Models: []string{"gpt-oss-20b"}, Open: 1, Rate: 2}
	secret := h.newKey(tiny)
	if r := h.do("POST", "/v1/chat/completions", chat(``), secret); r.status != 404 ||
		r.object(t).Error.Code != "model_not_found" {
		t.Errorf("another model: %d %s", r.status, r.body)
	}
	if r := h.do("GET", "/v1/models", "", secret); strings.Contains(r.body, "auto") {
		t.Errorf("%s", r.body)
	}
	body := strings.Replace(long(`,"stream":true`), "auto", "gpt-oss-20b", 1)
	_, leave := h.reading(body, secret)
	if r := h.do("POST", "/v1/chat/completions", body, secret); r.status != 429 ||
		r.object(t).Error.Souk.Code != "too_many_tasks" {
		t.Errorf("a second answer: %d %s", r.status, r.body)
	}
	if r := h.do("POST", "/v1/chat/completions", body, secret); r.status != 429 ||
		r.object(t).Error.Code != "rate_limit_exceeded" || r.header.Get("Retry-After-Ms") == "" {
		t.Errorf("a third request: %d %s", r.status, r.body)
	}
	leave()

	most := int64(1)
	capped := h.newKey(bus.APIKey{ID: "capped", Client: "dev", MaxPrice: (*market.Credits)(&most)})
	dear := chat(`,"souk":{"terms":{"max_price":1}}`)
	if r := h.do("POST", "/v1/chat/completions", dear, capped); r.status != 422 {
		t.Errorf("beyond the key's price: %d %s", r.status, r.body)
	}
}

// The key that a client's environment has for OpenAI is no broken one of this market.
func TestAKeyOfAnotherServer(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	h := start(t, one)
	for key, says := range map[string]string{"sk-proj-abc": "its keys begin with sk-souk-",
		h.key[:len(h.key)-1]: "whole only with its last character"} {
		if r := h.do("GET", "/v1/models", "", key); r.status != 401 || !strings.Contains(r.body, says) {
			t.Errorf("%d %s; want %q", r.status, r.body, says)
		}
	}
}

func TestTooManyWrongKeys(t *testing.T) {
	h, _, _ := start(t, one).with(func(c *gateway.Config) { c.WrongKeys = 3 })
	var codes []int
	for range 5 {
		codes = append(codes, h.do("GET", "/v1/models", "", "wrong").status)
	}
	if got := fmt.Sprint(codes); got != "[401 401 401 429 429]" {
		t.Errorf("got %s", got)
	}
	if r := h.do("GET", "/v1/models", "", h.key); r.status != 200 {
		t.Errorf("with a good key from there: %d", r.status)
	}
}

// piped are connections without a buffer.
type piped struct {
	conns chan net.Conn
	close func()
}

func pipe() piped {
	conns := make(chan net.Conn, 1)
	return piped{conns, sync.OnceFunc(func() { close(conns) })}
}

func (p piped) Accept() (net.Conn, error) {
	c, ok := <-p.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (p piped) Close() error   { p.close(); return nil }
func (p piped) Addr() net.Addr { return &net.TCPAddr{} }

// Who reads a byte a second is cut off, with no more of its answer kept than stated: when it has too much
// unread, or when it has taken nothing for too long.
func TestAReaderOfOneByteASecond(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	h := start(t, one)
	for name, c := range map[string]struct {
		change func(*gateway.Config)
		code   bus.Code
	}{
		"much unread": {func(c *gateway.Config) { c.MaxUnread = 4 << 10 }, bus.CodeSlowReader},
		"no write": {func(c *gateway.Config) { c.WriteWithin = 100 * time.Millisecond },
			bus.CodeCancelled},
	} {
		l := pipe()
		_, s, _ := h.withListener(l, c.change)
		near, far := net.Pipe()
		defer near.Close()
		l.conns <- far
		go io.WriteString(near, h.post(long(`,"stream":true`)))
		if _, err := near.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		h.until(name+": it is cut off", func() bool {
			return s.Stats().Cut[c.code] == 1 && s.Stats().Open == 0
		})
	}
}

// The same request under one Idempotency-Key is served and paid once; nobody else sees it.
func TestServedOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	h := start(t, slowly)
	other := h.newKey(bus.APIKey{ID: "other", Client: "other"})
	once := []string{"Idempotency-Key", "order 66"}
	for _, stream := range []string{``, `,"stream":true`} {
		once[1] += stream
		var mu sync.Mutex
		bodies := map[string]int{}
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				r := h.do("POST", "/v1/chat/completions", chat(stream), h.key, once...)
				mu.Lock()
				defer mu.Unlock()
				if r.status == 200 && (stream == "" || strings.Contains(r.body, "[DONE]")) {
					bodies[r.body]++
				}
			})
		}
		all.Wait()
		again := h.do("POST", "/v1/chat/completions", chat(stream), h.key, once...)
		if len(bodies) != 1 || bodies[again.body] == 0 {
			t.Errorf("%q: %d answers, and then %d %s", stream, len(bodies), again.status, again.body)
		}
		conflict := chat(stream + `,"top_p":1`)
		if r := h.do("POST", "/v1/chat/completions", conflict, h.key, once...); r.status != 422 ||
			r.object(t).Error.Code != "id_conflict" {
			t.Errorf("another body: %d %s", r.status, r.body)
		}
		if r := h.do("GET", "/v1/streams/"+again.header.Get("X-Souk-Task"), "", other); r.status != 410 {
			t.Errorf("another key's: %d %s", r.status, r.body)
		}
		mine := h.do("POST", "/v1/chat/completions", chat(stream), other, once...)
		if mine.status != 200 || mine.body == again.body {
			t.Errorf("of another key: %d %s", mine.status, mine.body)
		}
	}
	if s := h.Gateway.Stats(); s.Wholes != 2 || s.Streams != 2 {
		t.Errorf("%+v", s)
	}
}

// An Idempotency-Key that comes with other terms is refused, wherever they stand. What clients change by
// themselves when they repeat a request is none: how often, when and by which secret of the key.
func TestServedOnceOnItsTerms(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	h := start(t, slowly)
	secret := h.newKey(bus.APIKey{ID: "turning", Client: "other"})
	ask := func(secret, body string, header ...string) reply {
		return h.do("POST", "/v1/chat/completions", body, secret,
			slices.Concat(header, []string{"Idempotency-Key", "terms"})...)
	}
	terms := []string{"X-Souk-Worth", "0.5", "X-Souk-Session", "s-1"}
	first := ask(secret, chat(``), terms...)
	if first.status != 200 {
		t.Fatalf("%d %s", first.status, first.body)
	}
	for _, other := range [][]string{
		nil, terms[:2], terms[2:], {"X-Souk-Worth", "0.6", "X-Souk-Session", "s-1"},
		append([]string{"X-Souk-Max-Price", "0.1"}, terms...),
		append([]string{"X-IEMAS-Delta", "0.1"}, terms...),
		append([]string{"X-Souk-Patience-Ms", "100"}, terms...),
		append([]string{"X-Souk-Failover", "off"}, terms...),
		append([]string{"X-Souk-Role", "critic"}, terms...), append([]string{"X-Souk-Next", "s-2"}, terms...),
		append([]string{"X-Souk-Parent", "s-0"}, terms...), append([]string{"X-Souk-Back-Ms", "9"}, terms...),
		append([]string{"X-Souk-Session-End", "true"}, terms...),
		append([]string{"X-Souk-Source", "gsm8k"}, terms...),
	} {
		r := ask(secret, chat(``), other...)
		if r.status != 422 || r.object(t).Error.Code != "id_conflict" ||
			!strings.Contains(r.object(t).Error.Message, "other terms") {
			t.Errorf("%q: %d %s", other, r.status, r.body)
		}
	}
	if r := ask(secret, chat(`,"souk":{"terms":{"worth":0.5}}`), terms...); r.status != 422 {
		t.Errorf("terms in the body: %d %s", r.status, r.body)
	}
	for _, beside := range [][]string{
		{"X-Stainless-Retry-Count", "1"}, {"X-Stainless-Read-Timeout", "7"}, {"Date", "Mon, 23 Nov 2026 08:00:00 GMT"},
		{"X-Request-Id", "another"}, {"User-Agent", "another"}, {"X-Souk-Deadline-Ms", "4000000000000"},
		{"Traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}, {"X-Souk-Resume", "on"},
	} {
		if r := ask(secret, chat(``), append(beside, terms...)...); r.status != 200 || r.body != first.body {
			t.Errorf("%q: %d %s", beside, r.status, r.body)
		}
	}
	after, err := local.RotateKey(t.Context(), h.Registry, "turning", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	h.until("the new secret is known", func() bool {
		return h.do("GET", "/v1/models", "", after).status == 200
	})
	if r := ask(after, chat(``), terms...); r.status != 200 || r.body != first.body {
		t.Errorf("by the key's next secret: %d %s", r.status, r.body)
	}
	if s := h.Gateway.Stats(); s.Wholes != 1 {
		t.Errorf("%+v", s)
	}
}

// A stream that was left goes on where its reader says that it was, until it is forgotten.
func TestAStreamGoesOn(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	h := start(t, slowly)
	body := strings.Replace(long(`,"stream":true,"temperature":0`), "3000", "60", 1)
	r, leave := h.reading(body, h.key, "X-Souk-Resume", "on")
	task := r.Header.Get("X-Souk-Task")
	leave()
	whole := h.do("GET", "/v1/streams/"+task, "", h.key)
	list, done := events(t, whole.body)
	if whole.status != 200 || !done || said(list) == "" || !strings.HasPrefix(whole.body, "id: 0\n") {
		t.Fatalf("%d %s", whole.status, whole.body)
	}
	rest := h.do("GET", "/v1/streams/"+task, "", h.key, "Last-Event-ID", "4")
	if _, behind, _ := strings.Cut(whole.body, "id: 5\n"); rest.body != "id: 5\n"+behind {
		t.Errorf("behind event 4: %s\nof\n%s", rest.body, whole.body)
	}
	same := h.do("POST", "/v1/chat/completions", body, h.key, "X-Souk-Resume", "on", "X-Souk-Task", task)
	if same.status != 422 || !strings.Contains(same.body, "it goes on at /v1/streams/"+task) {
		t.Errorf("the same task once more, as it was: %d %s", same.status, same.body)
	}
	if r := h.do("GET", "/v1/streams/"+task, "", h.key, "Last-Event-ID", "100000"); !strings.Contains(r.body,
		"no event 100000: ") {
		t.Errorf("an event that never was, of a stream that has ended: %s", r.body)
	}
	for last, want := range map[string]int{"100000": 410, "x": 400, "-1": 400} {
		if r := h.do("GET", "/v1/streams/"+task, "", h.key, "Last-Event-ID", last); r.status != want {
			t.Errorf("behind event %s: %d", last, r.status)
		}
	}
}

// A gateway that ends refuses what is new, and ends what does not end by itself with an error.
func TestAGatewayEnds(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	h, s, stop := start(t, slowly).with(func(c *gateway.Config) { c.Drain = 500 * time.Millisecond })
	r, _ := h.reading(long(`,"stream":true`), h.key)
	stop()
	h.until("it refuses", func() bool {
		r := h.do("POST", "/v1/chat/completions", chat(``), h.key)
		return r.status == 503 && r.object(t).Error.Souk.Code == "draining"
	})
	if r := h.do("GET", "/health", "", ""); r.status != 503 {
		t.Errorf("health %d", r.status)
	}
	rest, err := io.ReadAll(r.Body)
	if err != nil || !strings.Contains(string(rest), `"code":"draining"`) {
		t.Errorf("%v %.300q", err, rest[max(0, len(rest)-300):])
	}
	h.until("nothing is open", func() bool { return s.Stats().Open == 0 })
}

// late is a bus that brings a verdict on a task once it may.
type late struct {
	bus.Bus
	may <-chan struct{}
}

func (b late) Request(ctx context.Context, m bus.Msg) (bus.Msg, error) {
	answer, err := b.Bus.Request(ctx, m)
	if strings.HasPrefix(m.Subject, "souk.v1.task.") {
		select {
		case <-b.may:
		case <-ctx.Done():
			return bus.Msg{}, ctx.Err()
		}
	}
	return answer, err
}

// The first byte comes when the market has not said a word for too long, and a refusal is an event then.
func TestAWordThatIsLate(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	h := start(t, one)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	may := make(chan struct{})
	second, _, _ := h.withDeps(l, func(c *gateway.Config) {
		c.VerdictWithin, c.CommentEvery = 50*time.Millisecond, 20*time.Millisecond
	}, func(d *gateway.Deps) { d.Bus = late{d.Bus, may} })
	r, err := http.DefaultClient.Do(second.request(t.Context(), "POST", "/v1/chat/completions",
		chat(`,"stream":true,"souk":{"terms":{"max_price":0.000001}}`), h.key))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	first := make([]byte, 2)
	if _, err := io.ReadFull(r.Body, first); err != nil || r.StatusCode != 200 || string(first) != ": " {
		t.Fatalf("%s %q, %v", r.Status, first, err)
	}
	close(may)
	rest, err := io.ReadAll(r.Body)
	if err != nil || !strings.Contains(string(rest), `data: {"error":`) ||
		!strings.Contains(string(rest), `"code":"not_worth_it"`) {
		t.Errorf("%v: %s", err, rest)
	}
}

// What was paid, by what clients are told, is what the hubs have taken.
func TestPaidIsTaken(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	h := start(t, one)
	var paid market.Credits
	for i := range 6 {
		body := chat(``)
		if i%3 == 1 {
			body = chat(`,"stream":true`)
		} else if i%3 == 2 {
			body = chat(`,"n":3`)
		}
		r := h.do("POST", "/v1/chat/completions", body, h.key)
		said := r.header.Get("X-Souk-Paid")
		if i%3 == 1 {
			_, after, _ := strings.Cut(r.body, `"paid":`)
			said, _, _ = strings.Cut(after, ",")
		}
		var one market.Credits
		if err := one.UnmarshalJSON([]byte(said)); err != nil {
			t.Fatalf("%q: %v of %s", said, err, r.body)
		}
		paid += one
	}
	h.until("all is settled", func() bool {
		funds, err := h.Link.Holdings(t.Context(), "dev")
		if err != nil {
			t.Fatal(err)
		}
		var spent market.Credits
		for _, hub := range funds.Hubs {
			spent += hub.Allotted - hub.Avail - hub.Held
		}
		return spent == paid && paid > 0
	})
}

// Nothing is left behind, whatever was asked.
func TestNothingRunsOn(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	before := goleak.IgnoreCurrent()
	t.Run("house", func(t *testing.T) {
		h := start(t, slowly)
		h.do("POST", "/v1/chat/completions", chat(`,"n":2`), h.key, "Idempotency-Key", "x")
		_, leave := h.reading(long(`,"stream":true`), h.key, "X-Souk-Resume", "on")
		leave()
		h.reading(long(`,"stream":true`), h.key)
		http.DefaultClient.CloseIdleConnections()
	})
	http.DefaultClient.CloseIdleConnections()
	if err := goleak.Find(before, goleak.IgnoreTopFunction("internal/poll.runtime_pollWait")); err != nil {
		t.Error(err)
	}
}
