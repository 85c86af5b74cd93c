package gateway_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"souk/bus"
	"souk/cmd/local"
	"souk/market"
)

// ask sends a request with headers under a key, and returns what came within a minute.
func (s *stall) ask(key, method, path, body string, header ...string) (status int, h http.Header,
	text string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, s.State.HTTP+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+key)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Errorf("%s %s: %v", method, path, err)
		return 0, nil, ""
	}
	defer a.Body.Close()
	all := new(bytes.Buffer)
	if _, err := io.Copy(all, a.Body); err != nil {
		s.t.Errorf("%s %s: %v", method, path, err)
	}
	return a.StatusCode, a.Header, all.String()
}

// One Idempotency-Key is one request of one key: asked at the same moment, by two tenants, with another body
// or at another endpoint, resumed from where nothing is, and by who does not own it.
func TestOneKeyOfTwoTenants(t *testing.T) {
	s := openStall(t)
	theirs, err := local.NewKey(t.Context(), s.Registry, s.Link.Budget,
		bus.APIKey{ID: "theirs", Client: local.FirstClient})
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; <-time.After(5 * time.Millisecond) {
		if status, _, _ := s.ask(theirs, "GET", "/v1/models", ""); status == 200 {
			break
		} else if time.Now().After(end) {
			t.Fatal("the gateway does not know the key")
		}
	}
	const chats, responses = "/v1/chat/completions", "/v1/responses"
	for _, c := range []struct{ path, body string }{
		{chats, `{"messages":[{"role":"user","content":"Hello"}],"max_tokens":3}`},
		{chats, `{"messages":[{"role":"user","content":"Hello"}],"max_tokens":3,"stream":true}`},
		{responses, `{"input":"Hello","max_output_tokens":3}`},
		{responses, `{"input":"Hello","max_output_tokens":3,"stream":true}`},
	} {
		once := fmt.Sprintf("%s-%v", c.path, strings.Contains(c.body, "stream"))
		tasks := map[string]map[string]int{s.key: {}, theirs: {}}
		var mu sync.Mutex
		var wg sync.WaitGroup
		for i := range 8 {
			key := []string{s.key, theirs}[i%2]
			wg.Go(func() {
				status, h, text := s.ask(key, "POST", c.path, c.body, "Idempotency-Key", once)
				mu.Lock()
				defer mu.Unlock()
				taken := status == http.StatusGone || strings.Contains(text, "another request reads")
				if status != 200 && !taken {
					t.Errorf("%s: %d %s", c.body, status, text)
				}
				if id := h.Get("X-Souk-Task"); status == 200 {
					tasks[key][id]++
				}
			})
		}
		wg.Wait()
		for key, of := range tasks {
			if len(of) != 1 {
				t.Errorf("%s: one key has the answers of %d tasks: %v", c.body, len(of), of)
			}
			for id := range of {
				for _, last := range []string{"", "0"} {
					status, _, text := s.ask(key, "GET", "/v1/streams/"+id, "", "Last-Event-ID", last)
					if streams := strings.Contains(c.body, "stream"); (status == 200) != streams {
						t.Errorf("%s from %q: %d %s", c.body, last, status, text)
					}
				}
				other := map[string]string{s.key: theirs, theirs: s.key}[key]
				for _, at := range []struct {
					key, last string
					status    int
				}{
					{other, "", 410}, {other, "1", 410}, {key, "999999", 410},
					{key, "-1", 400}, {key, "1.5", 400}, {key, "9999999999", 400}, {key, "x", 400},
				} {
					if !strings.Contains(c.body, "stream") && at.status == 410 && at.key == key {
						continue
					}
					status, _, text := s.ask(at.key, "GET", "/v1/streams/"+id, "", "Last-Event-ID", at.last)
					if status != at.status {
						t.Errorf("%s from %q: %d %.200s, not %d", c.body, at.last, status, text, at.status)
					}
				}
			}
		}
		changed := strings.Replace(c.body, "Hello", "Bye", 1)
		if status, _, text := s.ask(s.key, "POST", c.path, changed, "Idempotency-Key", once); status != 422 ||
			!strings.Contains(text, "id_conflict") {
			t.Errorf("with another body: %d %s", status, text)
		}
		// what was refused was not served: the same key may be used for the request as it should be
		no := strings.Replace(c.body, "{", `{"model":"none-such",`, 1)
		if status, _, _ := s.ask(s.key, "POST", c.path, no, "Idempotency-Key", once+"-no"); status != 404 {
			t.Errorf("of no model: %d", status)
		}
		status, _, text := s.ask(s.key, "POST", c.path, c.body, "Idempotency-Key", once+"-no")
		if status != 200 {
			t.Errorf("after a refusal: %d %s", status, text)
		}
	}
}

// What the engine refused is refused for good: a repeat under the same Idempotency-Key reads the same status
// and the engine's own words again, and so does who comes back to the stream.
func TestARefusalOfTheEngineIsKept(t *testing.T) {
	h := start(t, one)
	const chats, responses = "/v1/chat/completions", "/v1/responses"
	for i, c := range []struct{ path, body string }{
		{chats, `{"messages":[{"role":"user","content":"Hello"}],"logit_bias":{"1":1}}`},
		{chats, `{"messages":[{"role":"user","content":"Hello"}],"logit_bias":{"1":1},"stream":true}`},
		{chats, `{"messages":[{"role":"user","content":"Hello"}],"logit_bias":{"1":1},"n":2}`},
		{responses, `{"input":"Hello","logit_bias":{"1":1},"stream":true}`},
	} {
		var first reply
		for n := range 3 {
			r := h.do("POST", c.path, c.body, h.key, "Idempotency-Key", fmt.Sprint("once-", i))
			switch o := r.object(t); {
			case r.status != 400 || o.Error.Souk.Code != "engine_refused" ||
				!strings.Contains(o.Error.Message, "logit_bias") || r.header.Get("X-Should-Retry") != "false":
				t.Errorf("%s, time %d: %d %s", c.body, n, r.status, r.body)
			case n == 0:
				first = r
			case r.body != first.body:
				t.Errorf("%s\nand then %s", first.body, r.body)
			}
		}
		if strings.Contains(c.body, "stream") {
			r := h.do("GET", "/v1/streams/"+first.header.Get("X-Souk-Task"), "", h.key)
			if r.status != 400 || r.body != first.body {
				t.Errorf("who comes back: %d %s", r.status, r.body)
			}
		}
	}
}

// Of three answers the money is there for one until the deadline, when it is cut and paid in part. A repeat
// under the same Idempotency-Key cannot have it whole any more: it buys nothing, and is told the same.
func TestWhatWasServedInPartIsNotBoughtAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	h := start(t, strings.Replace(slowly, "other: 10", "other: 0.001", 1))
	key := h.newKey(bus.APIKey{ID: "small", Client: "other"})
	for _, stream := range []string{``, `,"stream":true`} {
		var once, body string
		var first reply
		var before, paid market.Credits
		// An engine that has not begun yet costs nothing, and on a busy machine what waits is late by itself.
		for try := 0; (paid == 0 || !strings.Contains(first.body, "allotment_pending")) && try < 20; try++ {
			before, once = h.captured("other"), fmt.Sprint("three", try, stream)
			body = long(fmt.Sprintf(`%s,"n":3,"souk":{"terms":{"max_price":0.0018},"deadline_ms":%d}`, stream,
				time.Now().Add(200*time.Millisecond).UnixMilli()))
			first = h.do("POST", "/v1/chat/completions", body, key, "Idempotency-Key", once)
			if stream == "" {
				paid = first.paid(t)
				h.until("what is told is what was taken",
					func() bool { return h.captured("other")-before == paid })
				continue
			}
			h.until("no slot is in use", func() bool { return h.Free() == 8 })
			paid = h.captured("other") - before
		}
		ends := stream != "" && first.status == 200 && strings.Contains(first.body, `"error"`) // it has begun
		if first.status != 424 && !ends || paid == 0 || !strings.Contains(first.body, "allotment_pending") {
			t.Fatalf("%q: %d %v %s", stream, first.status, first.header, first.body)
		}
		for range 3 {
			again := h.do("POST", "/v1/chat/completions", body, key, "Idempotency-Key", once)
			if again.status != first.status || again.body != first.body || again.paid(t) != first.paid(t) {
				t.Errorf("%q: again %d %v %s\nafter %s", stream, again.status, again.header, again.body,
					first.body)
			}
		}
		h.until("no slot is in use", func() bool { return h.Free() == 8 })
		if now := h.captured("other") - before; now != paid {
			t.Errorf("%q: %s was told, and %s taken", stream, paid, now)
		}
	}
}
