package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"souk/bus"
	"souk/bus/gateway"
)

// halfClosed sends a request, closes that side of the connection when it is time, and reads the answer.
func (h *house) halfClosed(t *testing.T, request string, when func()) (status int, header http.Header,
	body string) {
	t.Helper()
	c := h.dial(request)
	when()
	c.CloseWrite()
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, r.Header, string(text)
}

// With net/http alone the context of a request ends when its client closes its side of the connection, and
// what the handler writes then still reaches it. So who still reads is never given an empty 200: it is told
// that its answer is cancelled, and what of it was paid; or has what does not wait for a market.
func TestAHalfClosedClientIsToldTheTruth(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	alone := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		w.WriteHeader(http.StatusTeapot)
	}))
	defer alone.Close()
	if status, _, _ := (&house{t: t, at: alone.URL}).halfClosed(t, "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		func() {}); status != http.StatusTeapot {
		t.Errorf("of net/http alone: %d", status)
	}
	h := start(t, slowly)
	free := h.Free()
	at := func(line, more, body string) string {
		return fmt.Sprintf("%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n%sContent-Length: "+
			"%d\r\n\r\n%s", line, h.key, more, len(body), body)
	}
	once := func() {}
	runs := func() { h.until("it runs", func() bool { return h.Free() < free }) }
	const chats = "POST /v1/chat/completions"
	for _, c := range []struct {
		request string
		when    func()
		status  int
		says    string
	}{
		{at(chats, "", long("")), once, 424, `"code":"cancelled"`},
		{at(chats, "", long("")), runs, 424, `"code":"cancelled"`},
		{at(chats, "", long(`,"n":2`)), runs, 424, `"code":"cancelled"`},
		{at(chats, "", long(`,"stream":true`)), once, 424, `"code":"cancelled"`},
		{at(chats, "Idempotency-Key: later\r\n", chat("")), once, 503, `waits for whoever comes back`},
		{at("GET /v1/models", "", ""), once, 200, `"gpt-oss-20b"`},
		{at("GET /v1/balance", "", ""), once, 200, `"prepaid"`},
		{at("POST /v1/quote", "", chat("")), once, 200, `"estimate":true`},
		{at("POST /v1/sessions/s/end", "", ""), once, 200, `"ended":true`},
	} {
		status, header, body := h.halfClosed(t, c.request, c.when)
		if status != c.status || !strings.Contains(body, c.says) {
			t.Errorf("%.60q: %d %v %s", c.request, status, header, body)
		}
		h.until("the slots are free", func() bool { return h.Free() == free })
	}
	r := h.do("POST", "/v1/chat/completions", chat(""), h.key, "Idempotency-Key", "later")
	if r.status != 200 || r.object(t).Choices[0].Message.Content == "" {
		t.Errorf("who comes back: %d %s", r.status, r.body)
	}
	c := h.dial(h.post(long(`,"stream":true`)))
	in := bufio.NewReader(c)
	if _, err := in.ReadString('{'); err != nil {
		t.Fatal(err)
	}
	c.CloseWrite()
	rest, err := io.ReadAll(in)
	if err != nil || !strings.Contains(string(rest), `"code":"cancelled"`) ||
		strings.Contains(string(rest), "[DONE]") {
		t.Errorf("a stream: %v, it ends with %q", err, rest[max(0, len(rest)-200):])
	}
}

// broken is a bus that has a fault.
type broken struct {
	bus.Bus
	on atomic.Bool
}

func (b *broken) Ask(m bus.Msg, answered func(bus.Msg, error)) func(error) {
	if b.on.Load() {
		panic("a fault of a test")
	}
	ctx, cut := context.WithCancelCause(context.Background())
	m.Data = bytes.Clone(m.Data)
	go func() { answered(b.Request(ctx, m)) }()
	return cut
}

// A panic where an answer is asked for ends that answer and its connection, and no more:
// others are served, and the gateway drains.
func TestAPanicLeavesNothingOpen(t *testing.T) {
	var b *broken
	over := func(own bus.Bus) bus.Bus { b = &broken{Bus: own}; return b }
	onStageOver(t, small, over, func(t *testing.T, st *stage) {
		st.will(func(j *job) {
			j.accept()
			j.say("x")
			j.end("")
		})
		b.on.Store(true)
		r, err := st.client.Do(st.request(t.Context(), "/v1/chat/completions",
			strings.NewReader(large(10, ""))))
		if err == nil {
			r.Body.Close()
			t.Errorf("it was answered by %s", r.Status)
		}
		b.on.Store(false)
		if r := st.do("/v1/chat/completions", large(10, "")); r.status != 200 {
			t.Errorf("the next has %d %s", r.status, r.body)
		}
		if s := st.s.Stats(); s.Open != 0 || s.Cut[bus.CodeInternal] != 1 {
			t.Errorf("%+v", s)
		}
	})
}

// deaf hears nothing of an answer but the verdict on its task.
type deaf struct{ bus.Bus }

func (b deaf) Subscribe(subject, queue string, hear bus.Handler) (bus.Subscription, error) {
	if strings.HasPrefix(subject, "souk.v1.reply.") {
		hear = func(bus.Msg) {}
	}
	return b.Bus.Subscribe(subject, queue, hear)
}

// An agent may say what a task costs that was cancelled only once its engine has: who still reads does not
// wait for that, and is told that it is not known yet, and where it will be.
func TestACostThatIsNotKnownYet(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	t.Parallel()
	h := start(t, slowly)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free := h.Free()
	second, _, _ := h.withDeps(l, func(*gateway.Config) {}, func(d *gateway.Deps) { d.Bus = deaf{d.Bus} })
	for _, more := range []string{``, `,"stream":true`} {
		var status int
		var header http.Header
		var body string
		for early := true; early; { // on a slow machine a hub may cancel before an agent has taken the task
			before := h.captured("dev")
			status, header, body = second.halfClosed(t, h.post(long(more)), func() {
				h.until("it runs", func() bool { return h.Free() < free })
			})
			if early = strings.Contains(body, `"paid":0`); early {
				h.until("the slot is free", func() bool { return h.Free() == free })
				if now := h.captured("dev"); now != before {
					t.Fatalf("%q: %s was taken, and none told: %s", more, now-before, body)
				}
			}
		}
		if status != 424 || header.Get("X-Souk-Paid") != "" ||
			!strings.Contains(body, "what it costs is not known yet: /v1/balance?hubs=true will show") {
			t.Errorf("%q: %d %v %s", more, status, header, body)
		}
		h.until("the slot is free", func() bool { return h.Free() == free })
	}
	if status, _, body := h.halfClosed(t, h.post(long("")), func() {
		h.until("it runs", func() bool { return h.Free() < free })
	}); status != 424 || strings.Contains(body, "not known yet") {
		t.Errorf("a cost that is known: %d %s", status, body)
	}
}
