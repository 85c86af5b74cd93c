package gateway_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/gateway"
	"souk/market"
)

// A gateway that ends under load, while its clients go on asking, cuts nothing without a word: each answer is
// whole, or says that the gateway ended. Each client is told what it paid, but for what was cut within a
// stream, where that is known only later; and nothing is paid that nobody asked for.
func TestADrainUnderLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	h := start(t, slowly)
	second, s, stop := h.with(func(c *gateway.Config) { c.Drain = 300 * time.Millisecond })
	var mu sync.Mutex
	told, cut := map[string]market.Credits{}, map[string]bool{}
	ended := map[string]int{}
	note := func(what string, r reply) {
		mu.Lock()
		defer mu.Unlock()
		task := r.header.Get("X-Souk-Task")
		switch ended[what]++; {
		case strings.HasPrefix(what, "cut"):
			cut[task] = true
		case r.status == 200 || r.header.Get("X-Souk-Paid") != "":
			told[task] = r.paid(t)
		}
	}
	var clients sync.WaitGroup
	for i := range 12 {
		clients.Go(func() {
			for n := i; ; n++ {
				path, last := "/v1/chat/completions", "data: [DONE]"
				body := fmt.Sprintf(`{"messages":[{"role":"user","content":"What is a souk?"}],"stream":%v,`+
					`"max_tokens":%d,"ignore_eos":true}`, n%2 == 0, 5+37*n%100)
				if n%3 == 0 {
					path, last = "/v1/responses", "event: response.incomplete"
					body = fmt.Sprintf(`{"input":"What is a souk?","stream":%v,"max_output_tokens":%d}`, n%2 == 0,
						5+37*n%100)
				}
				a, err := http.DefaultClient.Do(second.request(t.Context(), "POST", path, body, h.key))
				if err != nil { // it has ended, and listens no more
					return
				}
				text, err := io.ReadAll(a.Body)
				a.Body.Close()
				r := reply{a.StatusCode, a.Header, string(text)}
				switch stream := n%2 == 0; {
				case err != nil:
					t.Errorf("answer %d: %v after %q", n, err, text)
				case r.status == 200 && (!stream || strings.Contains(r.body, last) ||
					strings.Contains(r.body, "event: response.completed")):
					note("whole", r)
				case r.status == 200 && strings.Contains(r.body, `"code":"draining"`):
					note("cut within", r)
				case (r.status == 503 || r.status == 424) && strings.Contains(r.body, "draining"):
					note(fmt.Sprint("refused with ", r.status), r)
				default:
					t.Errorf("answer %d: %d %s", n, r.status, r.body)
				}
			}
		})
	}
	h.until("some are served, and some run", func() bool {
		now := s.Stats()
		return now.Streams+now.Wholes >= 10 && now.Open >= 4
	})
	stop()
	clients.Wait()
	t.Log(ended)
	captured := map[string]market.Credits{}
	h.until("all is settled", func() bool {
		captured, _ = h.captures("dev")
		for task, paid := range told {
			if _, is := captured[task]; paid > 0 && !is {
				return false
			}
		}
		return h.Free() == 8
	})
	for task, paid := range told {
		if captured[task] != paid {
			t.Errorf("of task %s its client was told %s, and paid %s", task, paid, captured[task])
		}
	}
	for _, task := range slices.Sorted(maps.Keys(captured)) {
		if _, known := told[task]; !known && !cut[task] {
			t.Errorf("task %s was paid, %s, and nobody was told of it", task, captured[task])
		}
	}
	if ended["whole"] < 10 || len(cut) == 0 {
		t.Errorf("the load was none: %v", ended)
	}
}

// So it is with streams that share one connection of HTTP/2: what has time ends well, what has none is told,
// and nobody's connection breaks under them. Who comes then is refused.
func TestADrainOfHTTP2(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	h := start(t, slowly)
	cert, key, pool := certificate(t, t.TempDir(), 1)
	second, s, stop := h.with(func(c *gateway.Config) {
		c.TLS.Cert, c.TLS.Key, c.Drain = cert, key, 400*time.Millisecond
	})
	second.at = strings.Replace(second.at, "http:", "https:", 1)
	to := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, Protocols: new(http.Protocols)}
	to.Protocols.SetHTTP2(true)
	defer to.CloseIdleConnections()
	ends := make(chan string, 8)
	ask := func(body string) {
		a, err := to.RoundTrip(second.request(t.Context(), "POST", "/v1/chat/completions", body, h.key))
		if err != nil {
			ends <- err.Error()
			return
		}
		defer a.Body.Close()
		text, err := io.ReadAll(a.Body)
		switch {
		case err != nil:
			ends <- fmt.Sprintf("%v after %q", err, text)
		case a.ProtoMajor == 2 && strings.HasSuffix(string(text), "data: [DONE]\n\n"):
			ends <- "whole"
		case a.ProtoMajor == 2 && strings.Contains(string(text), `"code":"draining"`):
			ends <- fmt.Sprint(a.StatusCode)
		default:
			ends <- fmt.Sprintf("%s %d %q", a.Proto, a.StatusCode, text)
		}
	}
	for i := range 6 {
		go ask(fmt.Sprintf(`{"messages":[{"role":"user","content":"What is a souk?"}],"stream":true,`+
			`"max_tokens":%d,"ignore_eos":true}`, 10+i%2*3000))
	}
	h.until("some run, and some are whole", func() bool {
		now := s.Stats()
		return now.Open == 3 && now.Streams == 3
	})
	go stop()
	h.until("it drains", func() bool { return strings.Contains(h.log.String(), "gateway closing") })
	ask(chat(``))
	got := map[string]int{}
	for range 7 {
		got[<-ends]++
	}
	if got["whole"] != 3 || got["200"] != 3 || len(got) > 3 {
		t.Errorf("%v", got)
	}
}

// mute brings no verdict on a task, which is served all the same.
type mute struct{ bus.Bus }

func (b mute) Request(ctx context.Context, m bus.Msg) (bus.Msg, error) {
	answer, err := b.Bus.Request(ctx, m)
	if strings.HasPrefix(m.Subject, "souk.v1.task.") {
		<-ctx.Done()
		return bus.Msg{}, ctx.Err()
	}
	return answer, err
}

// Of a task on which the market has not said a word when the gateway ends, nobody knows whether it is paid:
// its client is not told to ask again.
func TestATaskOfWhichNothingIsKnown(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	h := start(t, slowly)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	second, _, stop := h.withDeps(l, func(c *gateway.Config) { c.Drain = 50 * time.Millisecond },
		func(d *gateway.Deps) { d.Bus = mute{d.Bus} })
	free := h.Free()
	var asking sync.WaitGroup
	for name, body := range map[string]string{"whole": long(``), "stream": long(`,"stream":true`)} {
		asking.Go(func() { // both at once: the gateway ends when both are served
			r := second.do("POST", "/v1/chat/completions", body, h.key)
			if r.status != 424 || r.header.Get("X-Should-Retry") != "false" {
				t.Errorf("%s: %d %v %s", name, r.status, r.header, r.body)
			}
		})
	}
	h.until("both are served", func() bool { return h.Free() == free-2 })
	stop()
	asking.Wait()
}

// Who is told to ask another gateway has its connection closed: it would come back on it, and past a balancer
// of connections to the same one.
func TestADrainLetsGoOfConnections(t *testing.T) {
	h := start(t, slowly)
	second, s, stop := h.with(func(c *gateway.Config) { c.Drain = 5 * time.Second })
	open, leave := second.reading(long(`,"stream":true`), h.key)
	defer leave()
	defer open.Body.Close()
	stop()
	h.until("it drains", func() bool { return second.do("GET", "/health", "", "").status == 503 })
	for _, c := range []struct {
		method, path, body string
		status             int
	}{
		{"POST", "/v1/chat/completions", chat(``), 503},
		{"POST", "/v1/chat/completions", chat(`,"stream":true`), 503},
		{"POST", "/v1/responses", `{"input":"Hello"}`, 503},
		{"POST", "/v1/chat/completions", `{}`, 400}, {"GET", "/v1/models", "", 200},
	} {
		a, err := http.DefaultClient.Do(second.request(t.Context(), c.method, c.path, c.body, h.key))
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		if a.StatusCode != c.status || a.Close != (c.status == 503) {
			t.Errorf("%s %s: %d, and the connection ends: %v", c.method, c.path, a.StatusCode, a.Close)
		}
	}
	if s.Stats().Open != 1 {
		t.Errorf("%d answers are open", s.Stats().Open)
	}
}

// cutOff is a bus that may be out of reach.
type cutOff struct {
	bus.Bus
	on *atomic.Bool
}

func (b cutOff) Connected() time.Time {
	if b.on.Load() {
		return time.Time{}
	}
	return b.Bus.Connected()
}

func (b cutOff) Request(ctx context.Context, m bus.Msg) (bus.Msg, error) {
	if b.on.Load() {
		return bus.Msg{}, bus.ErrNotSent
	}
	return b.Bus.Request(ctx, m)
}

// So has who comes to a gateway that the market is out of reach of: others may reach it.
func TestAGatewayThatIsCutOffLetsGoOfConnections(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	h := start(t, one)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := cutOff{on: new(atomic.Bool)}
	second, _, _ := h.withDeps(l, func(*gateway.Config) {}, func(d *gateway.Deps) {
		b.Bus = d.Bus
		d.Bus = b
	})
	second.until("the hub is heard", func() bool {
		return second.do("GET", "/v1/models/gpt-oss-20b", "", h.key).status == 200
	})
	for _, away := range []bool{false, true, false} {
		b.on.Store(away)
		// nor does it say that no model is sold there, or not that one: it does not know
		for _, path := range []string{"/v1/balance", "/v1/models", "/v1/models/gpt-oss-20b"} {
			a, err := http.DefaultClient.Do(second.request(t.Context(), "GET", path, "", h.key))
			if err != nil {
				t.Fatal(err)
			}
			a.Body.Close()
			if (a.StatusCode == 503) != away || a.Close != away {
				t.Errorf("%s, cut off %v: %d, and the connection ends: %v", path, away, a.StatusCode, a.Close)
			}
		}
	}
}
