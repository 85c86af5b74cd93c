package gateway_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/gateway"
	"souk/market"
)

// raw writes to the gateway's port, and returns the connection.
func raw(t *testing.T, h *house, text string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(h.at, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	return c
}

// Whoever promises a body and sends none has its answer in the time for bodies, with no key as well: such
// connections do not add up.
func TestABodyThatNeverComes(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	h, _, _ := start(t, one).with(func(c *gateway.Config) { c.BodyWithin = 200 * time.Millisecond })
	for _, x := range []struct{ line, header, want string }{
		{"POST /v1/chat/completions", "Authorization: Bearer wrong\r\nContent-Length: 1000", " 401 "},
		{"GET /health", "Content-Length: 1000", " 200 "},
		{"POST /nowhere", "Transfer-Encoding: chunked", " 404 "},
		{"GET /v1/models", "Authorization: Bearer " + h.key + "\r\nContent-Length: 9", " 200 "},
		{"GET /v1/streams/x", "Authorization: Bearer " + h.key + "\r\nContent-Length: 9", " 400 "},
	} {
		c := raw(t, h, x.line+" HTTP/1.1\r\nHost: x\r\n"+x.header+"\r\n\r\n")
		all, err := io.ReadAll(c)
		if err != nil || !strings.Contains(string(all), x.want) {
			t.Errorf("%s with %s: %q, %v", x.line, x.header, all, err)
		}
	}
}

// A body that does not say how long it is may be as long as any other, and no longer.
func TestABodyOfUnknownLength(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	t.Parallel()
	h := start(t, one)
	for size, want := range map[int]int{10: 200, bus.MaxBody - len(chat("")): 400, bus.MaxBody: 413,
		bus.MaxBody + 64<<10: 413} {
		text := strings.Replace(chat(""), "What", strings.Repeat("x", size), 1)
		r := h.request(t.Context(), "POST", "/v1/chat/completions", "", h.key)
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(text)), -1
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		said, _ := io.ReadAll(a.Body)
		a.Body.Close()
		if a.StatusCode != want {
			t.Errorf("of %d bytes: %s %.200s", len(text), a.Status, said)
		}
	}
}

// A key that is revoked while its request is still on the way has no answer.
func TestAKeyIsRevokedBeforeItsBodyIsThere(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	h := start(t, one)
	key := h.newKey(bus.APIKey{ID: "late", Client: "other"})
	body := chat("")
	c := raw(t, h, fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: "+
		"Bearer %s\r\n"+
		"Content-Length: %d\r\nExpect: 100-continue\r\n\r\n", key, len(body)))
	from := bufio.NewReader(c)
	if line, err := from.ReadString('\n'); err != nil || !strings.Contains(line, " 100 ") {
		t.Fatal(line, err) // it was admitted
	}
	from.ReadString('\n')
	if err := h.Registry.Delete(t.Context(), bus.APIKeyKey("late")); err != nil {
		t.Fatal(err)
	}
	h.until("the key is good no more",
		func() bool { return h.do("GET", "/v1/models", "", key).status == 401 })
	if _, err := io.WriteString(c, body); err != nil {
		t.Fatal(err)
	}
	r, err := http.ReadResponse(from, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.StatusCode != 401 {
		t.Errorf("%s for a key that was revoked", r.Status)
	}
}

// A stream that was given up ends with an error for whoever comes back too late: it is not whole.
func TestComingBackTooLate(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	h, s, _ := start(t, slowly).with(func(c *gateway.Config) { c.ResumeWithin = 50 * time.Millisecond })
	r, leave := h.reading(long(`,"stream":true`), h.key, "X-Souk-Resume", "on")
	leave()
	h.until("it is given up", func() bool { return s.Stats().Open == 0 })
	rest := h.do("GET", "/v1/streams/"+r.Header.Get("X-Souk-Task"), "", h.key, "Last-Event-ID", "0")
	if rest.status != 200 || !strings.Contains(rest.body, `"error"`) ||
		strings.Contains(rest.body, "[DONE]") {
		t.Errorf("%d, it ends with %q", rest.status, rest.body[max(0, len(rest.body)-200):])
	}
}

// Who reads a stream that another request takes over is told so: it must not take its part for the whole.
func TestAStreamIsTakenOver(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	t.Parallel()
	h := start(t, slowly)
	first, _ := h.reading(long(`,"stream":true`), h.key, "X-Souk-Resume", "on")
	second := raw(t, h, fmt.Sprintf("GET /v1/streams/%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+
		"%s\r\n\r\n",
		first.Header.Get("X-Souk-Task"), h.key))
	if line, err := bufio.NewReader(second).ReadString('\n'); err != nil || !strings.Contains(line, " 200 ") {
		t.Fatal(line, err)
	}
	rest, err := io.ReadAll(first.Body)
	if err != nil || !strings.Contains(string(rest), `"error"`) || strings.Contains(string(rest), "[DONE]") {
		t.Errorf("%v, it ends with %q", err, rest[max(0, len(rest)-200):])
	}
}

// An answer that is kept does not keep what was asked.
func TestWhatIsKeptIsSmall(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	h, s, _ := start(t, one).with(func(c *gateway.Config) { c.KeepFor = time.Hour }) // however slow they are
	body := `{"messages":[{"role":"user","content":"What is a souk?"}],"max_tokens":1,"n":8,"x":"` +
		strings.Repeat("x", 400<<10) + `"}`
	ask := func(i int) {
		if r := h.do("POST", "/v1/chat/completions", body, h.key, "Idempotency-Key",
			fmt.Sprint(i)); r.status != 200 {
			t.Fatalf("%d %.300s", r.status, r.body)
		}
	}
	ask(0)
	before := heap()
	for i := range 8 {
		ask(i + 1)
	}
	if s.Stats().Kept < 8 {
		t.Fatal(s.Stats())
	}
	if grown := heap() - before; grown > 6<<20 {
		t.Errorf("8 requests, of eight answers of one token each, keep %d MB", grown>>20)
	}
}

// A request that was refused is forgotten at once: whoever is refused often fills nobody's memory.
func TestARefusedRequestIsForgotten(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	h := start(t, one)
	body := `{"messages":[{"role":"user","content":"What is a souk?"}],"model":"none-such","x":"` +
		strings.Repeat("x", 400<<10) + `"}`
	ask := func() {
		if r := h.do("POST", "/v1/chat/completions", body, h.key); r.status != 404 {
			t.Fatalf("%d %.300s", r.status, r.body)
		}
	}
	for range 5 { // buffers, first
		ask()
	}
	before := heap()
	for range 40 {
		ask()
	}
	if grown := heap() - before; grown > 8<<20 {
		t.Errorf("40 requests that were refused keep %d MB", grown>>20)
	}
}

// Of several answers one has no room while another is served, and paid as far as it came: no client may be
// told that it can ask again and nothing was paid.
func TestSeveralAnswersPartlyServed(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	t.Parallel()
	h := start(t, strings.Replace(slowly, "slots: 8", "slots: 1", 1))
	told := market.Credits(0)
	for _, stream := range []string{``, `,"stream":true`} {
		deadline := time.Now().Add(1500 * time.Millisecond).UnixMilli()
		body := long(fmt.Sprintf(`%s,"n":2,"souk":{"deadline_ms":%d}`, stream, deadline))
		r := h.do("POST", "/v1/chat/completions", body, h.key)
		o := r.object(t)
		if r.status != 424 || r.header.Get("X-Should-Retry") != "false" ||
			r.header.Get("Retry-After-Ms") != "" ||
			o.Error == nil || o.Error.Souk.Code != "cancelled" ||
			!strings.Contains(o.Error.Message, "what was served") {
			t.Errorf("%q: %d %v %.300s", stream, r.status, r.header, r.body)
		}
		h.until("the slot is free", func() bool { return h.Free() == 1 })
		if paid := r.paid(t); paid <= 0 {
			t.Errorf("%q: what was served is said to have cost %s", stream, paid)
		} else {
			told += paid
		}
	}
	h.until("what is told is what was taken", func() bool { return h.captured("dev") == told })
}

// A whole answer that a closing gateway cuts off has been paid in part: its client must not ask again by
// itself.
func TestAWholeAnswerIsCutByTheEnd(t *testing.T) {
	h := start(t, slowly)
	second, s, stop := h.with(func(c *gateway.Config) { c.Drain = 50 * time.Millisecond })
	free := h.Free()
	done := make(chan reply, 1)
	go func() { done <- second.do("POST", "/v1/chat/completions", long(""), h.key) }()
	h.until("it is served", func() bool { return s.Stats().Open == 1 && h.Free() == free-1 })
	stop()
	if r := <-done; r.status != 424 || r.header.Get("X-Should-Retry") != "false" ||
		strings.Count(r.body, "is paid") != 1 {
		t.Errorf("%d %v %s", r.status, r.header, r.body)
	}
}

// Of two who wait for the same whole answer one leaves: the other has it all the same.
func TestOneOfTwoWhoWaitLeaves(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	t.Parallel()
	h, s, _ := start(t, slowly).with(func(c *gateway.Config) { c.ResumeWithin = 50 * time.Millisecond })
	body := strings.Replace(long(""), "3000", "400", 1)
	done := make(chan reply, 1)
	ask := func() { done <- h.do("POST", "/v1/chat/completions", body, h.key, "Idempotency-Key", "two") }
	go ask()
	h.until("the first waits", func() bool { return s.Stats().Open == 1 })
	second := raw(t, h, fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: "+
		"Bearer %s\r\n"+
		"Idempotency-Key: two\r\nContent-Length: %d\r\n\r\n%s", h.key, len(body), body))
	h.until("the second waits", func() bool { return s.Stats().Requests["POST /v1/chat/completions"] == 2 })
	second.Close()
	if r := <-done; r.status != 200 {
		t.Errorf("%d %s", r.status, r.body)
	}
}

// A key of a client that has the gateway's own name is refused at once, and not by a wait for an answer that
// nobody gives.
func TestAClientWithTheGatewaysName(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	h := start(t, one)
	key := h.newKey(bus.APIKey{Client: "gateway"})
	for _, try := range [][3]string{{"POST", "/v1/chat/completions", chat("")}, {"GET", "/v1/balance", ""}} {
		r := h.do(try[0], try[1], try[2], key)
		if r.status != http.StatusForbidden || !strings.Contains(r.body, "unknown_client") ||
			!strings.Contains(r.body, "name of this gateway") {
			t.Errorf("%s: %d %s", try[1], r.status, r.body)
		}
	}
}
