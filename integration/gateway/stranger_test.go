package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"souk/bus/gateway"
)

// Of a header that says who pays, or how, there is one: of two nobody knows which was meant.
func TestAHeaderThatComesTwice(t *testing.T) {
	h := start(t, one)
	for _, c := range []struct {
		name, value, other string
		status             int
	}{
		{"Authorization", "Bearer " + h.key, "Bearer " + h.key, 401},
		{"Idempotency-Key", "a", "b", 400},
		{"X-Souk-Resume", "on", "off", 400},
		{"X-Souk-Worth", "1", "2", 400},
	} {
		r := h.request(t.Context(), "POST", "/v1/chat/completions", chat(""), h.key)
		r.Header.Del(c.name)
		r.Header.Add(c.name, c.value)
		r.Header.Add(c.name, c.other)
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		said, _ := io.ReadAll(a.Body)
		a.Body.Close()
		if a.StatusCode != c.status || !strings.Contains(string(said), "header "+c.name+": given 2 times") {
			t.Errorf("%s twice: %s %s", c.name, a.Status, said)
		}
	}
}

// Whoever sends an empty Idempotency-Key believes that the request is served once: as a slip it is refused.
func TestAnIdempotencyKeyThatSaysNothing(t *testing.T) {
	h := start(t, one)
	for _, empty := range []string{"", "  "} {
		r := h.do("POST", "/v1/chat/completions", chat(""), h.key, "Idempotency-Key", empty)
		if r.status != 400 || !strings.Contains(r.body, "header Idempotency-Key: it is empty") {
			t.Errorf("%q: %d %s", empty, r.status, r.body)
		}
	}
}

// A body that breaks off, or whose chunks are none, is told apart from one that is late.
func TestABodyThatIsNone(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	h, _, _ := start(t, one).with(func(c *gateway.Config) { c.BodyWithin = 500 * time.Millisecond })
	head := "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + h.key + "\r\n"
	chunked := head + "Transfer-Encoding: chunked\r\n\r\n"
	for _, c := range []struct{ text, want string }{
		{head + "Content-Length: 9\r\n\r\n{", "broke off"},
		{chunked + "5\r\n{\"mes\r\n", "broke off"},
		{chunked + "5\r\n{\"mess\r\n0\r\n\r\n", "malformed"},
		{chunked + "-5\r\n{\"mes\r\n0\r\n\r\n", "malformed"},
		{chunked + "5;" + strings.Repeat("x", 8<<10) + "\r\n{\"mes\r\n0\r\n\r\n", "malformed"},
	} {
		conn := h.dial(c.text)
		conn.CloseWrite()
		all, _ := io.ReadAll(conn) // it may end in a reset, where more came than was read
		if !strings.Contains(string(all), " 400 ") || !strings.Contains(string(all), c.want) {
			t.Errorf("%.200q: %s", c.text, all)
		}
	}
	late, err := io.ReadAll(h.dial(chunked + "5\r\n{\"mes\r\n"))
	if err != nil || !strings.Contains(string(late), "did not come whole within") {
		t.Errorf("a late one: %v, %s", err, late)
	}
}

// What follows a body of chunks on its connection is no request: a proxy that went by its Content-Length took
// it for the body's end, and would take its answer for that of the next client.
func TestNothingFollowsABodyOfChunks(t *testing.T) {
	h := start(t, one)
	for _, length := range []string{"", "Content-Length: 4\r\n"} {
		for _, body := range []string{chat(""), chat(`,"stream":true`), "{"} {
			all, err := io.ReadAll(h.dial(fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"+
				"Authorization: Bearer %s\r\n%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n"+
				"GET /health HTTP/1.1\r\nHost: x\r\n\r\n", h.key, length, len(body), body)))
			if err != nil || strings.Count(string(all), "HTTP/1.1 ") != 1 {
				t.Errorf("%q %.80q: %v, %s", length, body, err, all)
			}
		}
	}
}

// HEAD reads no stream: it would take it away from who does.
func TestAHeadTakesNoStream(t *testing.T) {
	h := start(t, slowly)
	r, _ := h.reading(chat(`,"stream":true`), h.key, "X-Souk-Resume", "on")
	if a := h.do("HEAD", "/v1/streams/"+r.Header.Get("X-Souk-Task"), "", h.key); a.status != 404 {
		t.Errorf("HEAD: %d", a.status)
	}
	rest, err := io.ReadAll(r.Body)
	if err != nil || !strings.Contains(string(rest), "[DONE]") {
		t.Errorf("%v, it ends with %q", err, rest[max(0, len(rest)-200):])
	}
}

// A base URL that ends with a slash, and a path that does, mean what they mean without; no other path does.
func TestSlashesTooMany(t *testing.T) {
	h := start(t, one)
	for path, want := range map[string]int{"/v1//models": 200, "//v1/models": 200, "/v1/models/": 200,
		"/v1/models/auto/": 200, "//health//": 200, "/v1/models/a%2F%2Fb": 404,
		"/v1/sessions//end": 404, "//": 404} {
		r := h.request(t.Context(), "GET", path, "", h.key)
		a, err := http.DefaultTransport.RoundTrip(r) // follows nothing
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		if a.StatusCode != want {
			t.Errorf("%s: %s", path, a.Status)
		}
	}
	if r := h.do("POST", "/v1//chat/completions/", chat(""), h.key); r.status != 200 {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := h.do("POST", "/v1/sessions/a%2F%2Fb/end", "", h.key); r.status != 200 {
		t.Errorf("a session with slashes: %d %s", r.status, r.body)
	}
}
