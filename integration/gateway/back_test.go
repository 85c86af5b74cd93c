package gateway_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/gateway"
	"souk/market"
)

// several asks for so many answers of so many tokens. Each may cost some 500 millionths, and costs 60, and
// three more for each token.
func several(n, tokens int, more string) string {
	return fmt.Sprintf(`{"messages":[{"role":"user","content":"Say words."}],"max_tokens":%d,"n":%d%s}`,
		tokens, n, more)
}

// account is the key of a client that has so many millionths.
func (h *house) account(client string, millionths int64) string {
	h.t.Helper()
	amount := market.Credits(millionths * 1000)
	if _, err := h.Link.Fund(h.t.Context(), client, amount, client); err != nil {
		h.t.Fatal(err)
	}
	return h.newKey(bus.APIKey{ID: client, Client: client})
}

// Of several answers a client's money does for some at once, as each sets aside what it may cost at most: the
// others are held back until it does, and all are given.
func TestAnswersWaitForTheirMoney(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	t.Parallel()
	h := start(t, sold(falseEngine(t)))
	for i, more := range []string{``, `,"stream":true`, `,"seed":5`} {
		client := fmt.Sprintf("saver%d", i)
		key := h.account(client, 1600)
		r := h.do("POST", "/v1/chat/completions", several(8, 20, more), key)
		if r.status != 200 || strings.Count(r.body, `"finish_reason":"length"`) != 8 {
			t.Errorf("%s: %d %.900s", more, r.status, r.body)
		}
		told := r.paid(t)
		h.until("what is told is what was taken", func() bool { return h.captured(client) == told })
	}
}

// Requests that come at once, of which a client's money does for some at a time, wait for each other as the
// answers to one do: whoever comes again after a second as often as stock clients do would fail.
func TestRequestsWaitForTheirMoney(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	t.Parallel()
	h := start(t, sold(falseEngine(t)))
	key := h.account("thrifty", 1600)
	var clients sync.WaitGroup
	for i := range 12 {
		clients.Go(func() {
			body := several(1, 20, fmt.Sprintf(`,"stream":%v`, i%2 == 0))
			header := []string{"Accept", "*/*"}
			if i%3 == 0 {
				header = []string{"Idempotency-Key", fmt.Sprint(i)}
			}
			r := h.do("POST", "/v1/chat/completions", body, key, header...)
			if r.status != 200 || !strings.Contains(r.body, `"finish_reason":"length"`) {
				t.Errorf("request %d: %d %.900s", i, r.status, r.body)
			}
		})
	}
	clients.Wait()
	h.until("all slots are free", func() bool { return h.Free() == 8 })
}

// What the client's money does not do for in the end is refused, as it is where it has none left: with what
// was paid all the same, and once under an Idempotency-Key.
func TestMoneyThatDoesNotDoForAll(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	t.Parallel()
	h := start(t, sold(falseEngine(t)))
	key := h.account("short", 800)
	ask := func() reply {
		return h.do("POST", "/v1/chat/completions", several(8, 20, ""), key, "Idempotency-Key", "short")
	}
	r := ask()
	told := r.paid(t)
	if r.status != 402 || !strings.Contains(r.body, "insufficient_funds") || told == 0 ||
		r.header.Get("X-Should-Retry") != "false" {
		t.Errorf("%d %v %s", r.status, r.header, r.body)
	}
	h.until("what is told is what was taken", func() bool { return h.captured("short") == told })
	if again := ask(); again.status != r.status || again.body != r.body || again.paid(t) != told {
		t.Errorf("again: %d %v %s", again.status, again.header, again.body)
	}
}

// A request whose deadline comes while some of it is held back is refused then, and for want of money; what
// was served is paid.
func TestMoneyThatComesTooLate(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	h := start(t, sold(falseEngine(t)))
	key := h.account("late", 8000)
	begun := time.Now()
	deadline := fmt.Sprintf(`,"souk":{"deadline_ms":%d}`, begun.Add(1500*time.Millisecond).UnixMilli())
	r := h.do("POST", "/v1/chat/completions", several(4, 1000, deadline), key)
	took, told := time.Since(begun), r.paid(t)
	if r.status != 424 || !strings.Contains(r.body, "allotment_pending: ") || told == 0 ||
		took < time.Second || took > 4*time.Second || r.header.Get("X-Should-Retry") != "false" {
		t.Errorf("%v: %d %v %s", took, r.status, r.header, r.body)
	}
	h.until("what is told is what was taken", func() bool { return h.captured("late") == told })
}

// So it is where the deadline is only so near that no agent would begin in time.
func TestMoneyThatComesTooLateForAnyAgent(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	t.Parallel()
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/models":
			io.WriteString(w, `{"data":[{"id":"gpt-oss-20b","max_model_len":32768}]}`)
		case "/v1/chat/completions":
			io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "text/event-stream")
			w.(http.Flusher).Flush()
			<-time.After(1200 * time.Millisecond) // to the first token, and then a token each 5 ms
			for i := 0; r.Context().Err() == nil; i++ {
				fmt.Fprintf(w, `data: {"choices":[{"index":0,"token_ids":[%d],"delta":{"content":"w "}}]}`+
					"\n\n", i)
				w.(http.Flusher).Flush()
				<-time.After(5 * time.Millisecond)
			}
		case "/metrics":
			io.WriteString(w, "vllm:num_requests_running{model_name=\"gpt-oss-20b\"} 0\n")
		default:
			io.WriteString(w, `{}`)
		}
	}))
	t.Cleanup(engine.Close)
	h := start(t, sold(engine.URL))
	for range 2 { // the hub learns it
		if r := h.do("POST", "/v1/chat/completions", several(8, 5, ""), h.key); r.status != 200 {
			t.Fatalf("%d %s", r.status, r.body)
		}
	}
	key := h.account("late", 8000)
	deadline := fmt.Sprintf(`,"souk":{"deadline_ms":%d}`, time.Now().Add(2700*time.Millisecond).UnixMilli())
	r := h.do("POST", "/v1/chat/completions", several(4, 1000, deadline), key)
	if r.status != 424 || !strings.Contains(r.body, "allotment_pending: ") || r.paid(t) == 0 {
		t.Errorf("%d %v %s", r.status, r.header, r.body)
	}
}

// Where none of several answers can be paid, as other requests of the client hold its money, the request may
// come again.
func TestMoneyThatOtherRequestsHold(t *testing.T) {
	h := start(t, sold(falseEngine(t)))
	key := h.account("busy", 4000)
	ctx, leave := context.WithCancel(t.Context())
	first, err := http.DefaultClient.Do(h.request(ctx, "POST", "/v1/chat/completions",
		several(1, 1000, `,"stream":true`), key))
	if err != nil {
		t.Fatal(err)
	}
	defer first.Body.Close()
	r := h.do("POST", "/v1/chat/completions", several(2, 1000, ``), key)
	if r.status != 503 || !strings.Contains(r.body, "allotment_pending") ||
		r.header.Get("Retry-After-Ms") == "" || r.paid(t) != 0 {
		t.Errorf("%d %v %s", r.status, r.header, r.body)
	}
	leave()
}

// Who leaves while some of it is held back has the rest neither served nor paid; and a gateway that ends does
// not wait for it.
func TestWhoLeavesWhileSomeIsHeldBack(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	h := start(t, sold(falseEngine(t)))
	second, s, stop := h.with(func(c *gateway.Config) { c.Drain = 100 * time.Millisecond })
	free := h.Free()
	for i, leaves := range []bool{true, false} {
		client := fmt.Sprintf("leaver%d", i)
		key := h.account(client, 8000)
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		r, err := http.DefaultClient.Do(second.request(ctx, "POST", "/v1/chat/completions",
			several(8, 1000, `,"stream":true`), key))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		h.until("one is served", func() bool { return h.Free() == free-1 })
		if leaves {
			leave()
		} else {
			stop()
			if rest, err := io.ReadAll(r.Body); err != nil || !strings.Contains(string(rest), `"error"`) {
				t.Errorf("%v: it ends with %.300s", err, rest[max(0, len(rest)-300):])
			}
		}
		h.until("all is over", func() bool { return s.Stats().Open == 0 && h.Free() == free })
		if paid, _ := h.captures(client); len(paid) != 1 {
			t.Errorf("%d answers are paid", len(paid))
		}
	}
}
