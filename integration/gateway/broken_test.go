package gateway_test

import (
	"bufio"
	"context"
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

// toldAtTheEnd reads what a broken stream's last event says that its request has paid.
func toldAtTheEnd(t *testing.T, stream string) (market.Credits, bool) {
	t.Helper()
	at := strings.LastIndex(stream, `"souk":{"code":`)
	if at < 0 || strings.Contains(stream, "[DONE]") {
		t.Fatalf("it does not end with an error: %q", stream[max(0, len(stream)-400):])
	}
	_, text, ok := strings.Cut(stream[at:], `"paid":`)
	if !ok {
		return 0, false
	}
	text, _, _ = strings.Cut(strings.ReplaceAll(text, "}", ","), ",")
	var paid market.Credits
	if err := paid.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return paid, true
}

// A stream that breaks off, whatever the reason is, says with its last event what was paid for all of its
// request: what the journal says.
func TestAStreamThatBreaksOffSaysWhatIsPaid(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	t.Parallel()
	h := start(t, sold(falseEngine(t)))
	const chats, responses = "/v1/chat/completions", "/v1/responses"
	words := func(more string) string {
		return `{"messages":[{"role":"user","content":"Say words."}],"max_tokens":4000,"stream":true` + more +
			`}`
	}
	ends := func(_ *house, stop context.CancelFunc, _ string) { stop() }
	for i, c := range []struct {
		name, path, body, more string
		then                   func(h *house, stop context.CancelFunc, client string)
	}{
		{"its key is revoked", chats, words(""), "", func(h *house, _ context.CancelFunc, client string) {
			if err := h.Registry.Delete(t.Context(), bus.APIKeyKey(client)); err != nil {
				t.Fatal(err)
			}
		}},
		{"the gateway ends", chats, words(""), "", ends},
		{"the gateway ends, several answers", chats, words(`,"n":3`), "", ends},
		{"the gateway ends, a message", "/v1/messages", words(""), "", ends},
		{"the gateway ends, a response", responses,
			`{"input":"Say words.","stream":true,"max_output_tokens":4000}`, "", ends},
		{"the gateway ends, its client may come back", chats, words(""), "X-Souk-Resume", ends},
		{"its engine lies", chats, strings.Replace(words(""), "Say", "Say lies and", 1), "", nil},
		{"an engine lies, several answers", chats,
			strings.Replace(words(`,"n":3`), "Say", "Say lies and", 1), "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := fmt.Sprintf("broken%d", i)
			key := h.account(client, 1e6)
			second, _, stop := h.with(func(c *gateway.Config) {
				c.ID, c.Drain = client+"-gw", 10*time.Millisecond
			})
			second.until("it knows the key", func() bool {
				return second.do("GET", "/v1/models", "", key).status == 200
			})
			r := second.request(t.Context(), "POST", c.path, c.body, key)
			if c.more != "" {
				r.Header.Set(c.more, "on")
			}
			a, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer a.Body.Close()
			first := make([]byte, 2000)
			n, err := io.ReadFull(a.Body, first)
			if c.then != nil {
				if err != nil {
					t.Fatalf("%v: %s", err, first[:n])
				}
				c.then(second, stop, client)
			}
			rest, err := io.ReadAll(a.Body)
			if err != nil {
				t.Fatal(err)
			}
			stream := string(first[:n]) + string(rest)
			told, known := toldAtTheEnd(t, stream)
			if !known || told == 0 {
				t.Fatalf("it does not say what is paid: %q", stream[max(0, len(stream)-400):])
			}
			h.until("what is told is what was taken", func() bool { return h.captured(client) == told })
		})
	}
}

// A client that closes its side of the connection in the midst of a stream, and reads on, is told, too.
func TestAHalfClosedStreamSaysWhatIsPaid(t *testing.T) {
	h := start(t, sold(falseEngine(t)))
	c := h.dial(h.post(`{"messages":[{"role":"user","content":"Say words."}],"max_tokens":4000,` +
		`"stream":true}`))
	in := bufio.NewReader(c)
	for range 20 {
		if _, err := in.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	c.CloseWrite()
	rest, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	told, known := toldAtTheEnd(t, string(rest))
	if !known || told == 0 {
		t.Fatalf("it does not say what is paid: %q", rest[max(0, len(rest)-400):])
	}
	h.until("what is told is what was taken", func() bool { return h.captured("dev") == told })
}

// Where nobody has said what it costs, the last event does not say that nothing is paid.
func TestAStreamThatBreaksOffAndWhatIsPaidIsNotKnown(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	t.Parallel()
	h := start(t, sold(falseEngine(t)))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	second, _, stop := h.withDeps(l, func(c *gateway.Config) {
		c.Drain, c.VerdictWithin = 10*time.Millisecond, time.Second // an agent has it by then
	}, func(d *gateway.Deps) { d.Bus = deaf{d.Bus} })
	a, err := http.DefaultClient.Do(second.request(t.Context(), "POST", "/v1/chat/completions",
		`{"messages":[{"role":"user","content":"Say words."}],"max_tokens":4000,"stream":true}`, h.key))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	stop()
	rest, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	told, known := toldAtTheEnd(t, string(rest))
	if known || !strings.Contains(string(rest), "not known yet") {
		t.Errorf("known %v, %s paid: %q", known, told, rest[max(0, len(rest)-400):])
	}
}

// Of an answer whose agent falls silent, or on which the market gives no verdict, nobody says what is paid:
// its last word does not say that it is nothing. Where nothing can be, it does.
func TestNobodyHasSaidWhatIsPaid(t *testing.T) {
	onStage(t, small, func(t *testing.T, st *stage) {
		for _, c := range []struct {
			name  string
			will  func(*job)
			known bool
		}{
			{"the agent falls silent", func(j *job) {
				if j.Resume != nil {
					j.refuse(bus.CodeUnavailable)
					return
				}
				j.accept()
				j.say("some words")
			}, false},
			{"the market says nothing", func(j *job) {}, false},
			{"the market says that it does not know", func(j *job) { j.refuse(bus.CodeUnknown) }, false},
			{"the market refuses", func(j *job) { j.refuse(bus.CodeNoRoom) }, true},
			{"the agent fails", func(j *job) {
				if j.Resume != nil {
					j.refuse(bus.CodeNoRoom)
					return
				}
				j.accept()
				j.say("some words")
				j.end(bus.CodeEngineFailed)
			}, true},
		} {
			st.will(c.will)
			for _, more := range []string{``, `,"stream":true`, `,"n":2`} {
				r := st.do("/v1/chat/completions", large(10, more))
				_, known := toldAtTheEnd(t, r.body)
				if says := !strings.Contains(r.body, "not known yet"); known != c.known || says != c.known {
					t.Errorf("%s, %q: %d %v %s", c.name, more, r.status, r.header, r.body)
				}
			}
		}
	})
}

// Where the last event alone is more than a client may leave unread, its stream ends with an error, after the
// event that says what it cost: so says the error.
func TestTheLastEventIsTooMuch(t *testing.T) {
	seen := 0
	for less := 100; less <= 500; less += 20 {
		onStage(t, func(c *gateway.Config) { c.MaxUnread = 64 << 10 }, func(t *testing.T, st *stage) {
			st.will(func(j *job) {
				j.accept()
				j.say(strings.Repeat("x", 40<<10)) // is being written
				time.Sleep(time.Second)
				j.say(strings.Repeat("x", 64<<10-less))
				j.endHere()
			})
			r, err := st.client.Do(st.request(t.Context(), "/v1/chat/completions",
				strings.NewReader(large(10, `,"stream":true`))))
			if err != nil {
				t.Fatal(err)
			}
			defer r.Body.Close()
			time.Sleep(5 * time.Second)
			all, err := io.ReadAll(r.Body)
			if err != nil {
				t.Fatal(err)
			}
			said := string(all)
			if !strings.Contains(said, `"finish_reason":"stop"`) || strings.Contains(said, "[DONE]") {
				return
			}
			seen++
			if _, ok := toldAtTheEnd(t, said); !ok || strings.Contains(said, "not known") {
				t.Errorf("%d less: %q", less, said[len(said)-400:])
			}
		})
	}
	if seen == 0 {
		t.Error("no last event was too much: the test sees nothing")
	}
}
