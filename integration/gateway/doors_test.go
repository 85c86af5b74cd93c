package gateway_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/gateway"
	"souk/cmd/local"
	"souk/ledger"
	"souk/ledger/journal"
	"souk/market"
)

// captures returns a client's payments by task, as journaled, and the number of its holds.
func (h *house) captures(client string) (paid map[string]market.Credits, holds int) {
	h.t.Helper()
	paid = map[string]market.Credits{}
	h.eachCapture(client, &holds, func(hold *ledger.Hold, c *ledger.Capture) {
		paid[hold.Task] += c.Cost + hold.Due(c)
	})
	return paid, holds
}

// eachCapture reads a client's captures, with their holds.
func (h *house) eachCapture(client string, holds *int, each func(*ledger.Hold, *ledger.Capture)) {
	h.t.Helper()
	paths, err := journal.Find(h.dir)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, p := range paths {
		open := map[string]*ledger.Hold{}
		if err := journal.Read(p, func(f ledger.Frame) error {
			for _, r := range f.Records {
				switch {
				case r.Hold != nil && r.Hold.Client == client:
					open[r.ID] = r.Hold
					*holds++
				case r.Capture != nil && open[r.Capture.Hold] != nil:
					each(open[r.Capture.Hold], r.Capture)
				}
			}
			return nil
		}); err != nil {
			h.t.Fatal(err)
		}
	}
}

// captured is the sum of it.
func (h *house) captured(client string) (sum market.Credits) {
	paid, _ := h.captures(client)
	for _, p := range paid {
		sum += p
	}
	return sum
}

// paid returns the payment that a client is told of: in the header, or in the last events of a stream.
func (r reply) paid(t testing.TB) (sum market.Credits) {
	t.Helper()
	texts := []string{r.header.Get("X-Souk-Paid")}
	if texts[0] == "" {
		texts = nil
		for _, part := range strings.Split(r.body, `"paid":`)[1:] {
			text, _, _ := strings.Cut(strings.NewReplacer("}", ",").Replace(part), ",")
			texts = append(texts, text)
		}
	}
	for _, text := range texts {
		var one market.Credits
		if err := one.UnmarshalJSON([]byte(text)); err != nil {
			t.Fatalf("%q: %v of %s", text, err, r.body)
		}
		sum += one
	}
	return sum
}

// D3: one request is one task, however often it comes under one Idempotency-Key, at however many gateways,
// and whether or not whoever asked stays.
func TestD3OneRequestIsOneTask(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	h := start(t, one)
	second, _, _ := h.with(func(*gateway.Config) {})
	for range 5 {
		h.do("POST", "/v1/chat/completions", chat(``), h.key)
	}
	h.until("all is settled", func() bool { paid, _ := h.captures("dev"); return len(paid) == 5 })
	if _, holds := h.captures("dev"); holds != 5 {
		t.Fatalf("5 requests were %d holds", holds)
	}
	var wg sync.WaitGroup
	answers := make(chan reply, 40)
	for i := range cap(answers) {
		at := []*house{h, second}[i%2]
		wg.Go(func() {
			answers <- at.do("POST", "/v1/chat/completions", chat(``), h.key, "Idempotency-Key",
				fmt.Sprint("once-", i%4))
		})
	}
	wg.Wait()
	close(answers)
	served := map[string]bool{}
	for r := range answers {
		switch {
		case r.status == 200:
			served[r.object(t).Choices[0].Message.Content] = true
		case r.status != 409 && r.status != 503:
			t.Errorf("%d %s", r.status, r.body)
		}
	}
	h.until("all is settled", func() bool { paid, _ := h.captures("dev"); return len(paid) == 9 })
	if paid, holds := h.captures("dev"); len(paid) != 9 || holds != 9 || len(served) > 4 {
		t.Errorf("4 requests that came 10 times each were %d tasks with %d holds, and %d answers",
			len(paid)-5,
			holds-5, len(served))
	}
}

// Of several answers that another gateway has given, a gateway knows what the first cost: it does not say
// that this is all.
func TestSeveralAnswersOfAnotherGateway(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	h := start(t, one)
	second, _, _ := h.with(func(*gateway.Config) {})
	for _, of := range []string{`,"n":3`, `,"n":3,"stream":true`} {
		r := h.do("POST", "/v1/chat/completions", chat(of), h.key, "Idempotency-Key", of)
		if r.status != 200 {
			t.Fatalf("%d %s", r.status, r.body)
		}
		gone := second.do("POST", "/v1/chat/completions", chat(of), h.key, "Idempotency-Key", of)
		if o := gone.object(t).Error; gone.status != 410 || !strings.Contains(o.Message, "not known yet") {
			t.Errorf("%v was paid, and at another gateway it is told %s: %d %s", r.paid(t),
				gone.header.Get("X-Souk-Paid"), gone.status, o.Message)
		}
	}
}

// D4: who disconnects frees its slots within a second, whatever it had asked for.
func TestD4ADisconnectFreesItsSlots(t *testing.T) {
	h := start(t, slowly)
	free := h.Free()
	for _, more := range []string{`,"stream":true`, ``, `,"n":4,"stream":true`, `,"n":4`} {
		h.within(fmt.Sprintf("%q", more), time.Second, func() time.Duration {
			c := h.dial(h.post(long(more)))
			h.until("it runs", func() bool { return h.Free() < free })
			begun := time.Now()
			c.Close()
			h.until("the slots are free", func() bool { return h.Free() == free })
			return time.Since(begun)
		})
	}
}

// D5: what a client is told that it paid is what the journals have, to the nano-credit, over streams, whole
// answers, several at once, repeats and answers that are refused or cut in part.
func TestD5PaidIsCaptured(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	t.Parallel()
	h := start(t, strings.Replace(one, "slots: 8", "slots: 3", 1))
	var mu sync.Mutex
	told, seen, by := market.Credits(0), map[string]bool{}, map[string]string{}
	var wg sync.WaitGroup
	for i := range 48 {
		body, header := chat(``), []string(nil)
		switch i % 8 {
		case 1:
			body = chat(`,"stream":true`)
		case 2:
			body = chat(`,"n":3`)
		case 3:
			body = chat(`,"n":3,"stream":true`)
		case 4:
			body, header = chat(`,"stream":true`), []string{"Idempotency-Key", fmt.Sprint("k-", i/16)}
		case 5: // some find no slot in time
			body = long(fmt.Sprintf(`,"n":2,"souk":{"deadline_ms":%d}`,
				time.Now().Add(time.Second).UnixMilli()))
		case 6:
			body = strings.Replace(chat(``), `"auto"`, `"none"`, 1)
		case 7:
			body = chat(`,"souk":{"terms":{"max_price":0.000001}}`)
		}
		wg.Go(func() {
			r := h.do("POST", "/v1/chat/completions", body, h.key, header...)
			mu.Lock()
			defer mu.Unlock()
			if header != nil { // whoever reads it to its end is told, and it is paid once
				id := r.header.Get("X-Souk-Task")
				if !strings.Contains(r.body, "[DONE]") || seen[id] {
					return
				}
				seen[id] = true
			}
			if r.status == 200 || r.header.Get("X-Souk-Paid") != "" {
				told += r.paid(t)
				by[r.header.Get("X-Souk-Task")] = fmt.Sprint(i%8, " ", r.status, " ", r.paid(t))
			}
		})
	}
	wg.Wait()
	end := time.Now().Add(time.Minute)
	for ; h.captured("dev") != told; <-time.After(5 * time.Millisecond) {
		if time.Now().After(end) {
			paid, _ := h.captures("dev")
			t.Fatalf("clients were told that they paid %s, and the journals have %s: %v\n%v", told,
				h.captured("dev"),
				paid, by)
		}
	}
	if told == 0 {
		t.Error("nothing was paid")
	}
	h.until("usage is what was paid", func() bool { return h.usage("", h.key).Total.Paid == told })
}

// D6: a key with a budget spends no more than that, however many gateways and hubs it comes to at once; its
// owner's other money is not touched; and what is left goes back when the key is revoked.
func TestD6NoBudgetIsExceeded(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	t.Parallel()
	const three = `
listen: 127.0.0.1:0
domains: [{name: general, general: true, labels: [general, humanities, social, law]}, {name: math, labels: [math, science, finance]}, {name: code, labels: [code, medicine]}]
agents:
  - {id: a, model: gpt-oss-20b, price_row: fireworks/gpt-oss-20b, scores: [{domain: general, score: 0.7}], slots: 8, engine: {profile: steady}}
  - {id: b, model: gpt-oss-20b, price_row: fireworks/gpt-oss-20b, scores: [{domain: math, score: 0.7}], slots: 8, engine: {profile: steady}}
  - {id: c, model: gpt-oss-20b, price_row: fireworks/gpt-oss-20b, scores: [{domain: code, score: 0.7}], slots: 8, engine: {profile: steady}}
speedup: 50
clients: {dev: 10}
`
	h := start(t, three)
	at := []*house{h}
	for range 2 {
		other, _, _ := h.with(func(*gateway.Config) {})
		at = append(at, other)
	}
	amount := market.Credit * 3 / 1000
	secret := h.newKey(bus.APIKey{ID: "k1", Budget: &bus.KeyBudget{Of: "dev", Amount: amount, Every: "day"}})
	for _, o := range at {
		o.until("every gateway knows it",
			func() bool { return o.do("GET", "/v1/models", "", secret).status == 200 })
	}
	asks := []string{"What is a souk?", "Solve the integral of x squared by parts.",
		"Write a Python function that sorts a list."}
	var wg sync.WaitGroup
	var mu sync.Mutex
	told, codes := market.Credits(0), map[int]int{}
	callers, each := 16, 6
	if os.Getenv("SOUK_SOAK") != "" {
		callers, each = 24, 12
	}
	for i := range callers {
		wg.Go(func() {
			for j := range each {
				body := fmt.Sprintf(`{"model":"auto","messages":[{"role":"user","content":%q}],"max_tokens":200,`+
					`"ignore_eos":true,"souk":{"terms":{"max_price":0.0001}}}`,
					fmt.Sprint(asks[(i+j)%3], " ", i, j))
				r := at[i%3].do("POST", "/v1/chat/completions", body, secret)
				mu.Lock()
				if codes[r.status]++; r.header.Get("X-Souk-Paid") != "" {
					told += r.paid(t)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	paid, _ := h.captures("dev-k1")
	if codes[http.StatusOK] == 0 || codes[http.StatusPaymentRequired] == 0 {
		t.Errorf("the budget was not used up, or nothing was served: %v", codes)
	}
	h.until("what is told is captured", func() bool { return h.captured("dev-k1") == told })
	if told > amount || told < amount/2 {
		t.Errorf("%s of %s were spent on %d tasks", told, amount, len(paid))
	}
	if h.captured("dev") != 0 {
		t.Error("money of its owner was spent beside it")
	}
	if err := local.RevokeKey(t.Context(), h.Registry, h.Link.Budget, "k1"); err != nil {
		t.Fatal(err)
	}
	h.until("what is left is back", func() bool {
		mine, err := h.Link.Balance(t.Context(), "dev")
		if err != nil {
			t.Fatal(err)
		}
		return mine.Prepaid == 10*market.Credit-told
	})
	if r := h.do("POST", "/v1/chat/completions", chat(``), secret); r.status != http.StatusUnauthorized {
		t.Errorf("a key that was revoked: %d %s", r.status, r.body)
	}
}

// Requests that follow one another on a connection may come with different keys: each is served by its own.
func TestAConnectionWithSeveralKeys(t *testing.T) {
	h := start(t, instant)
	narrow := h.newKey(bus.APIKey{ID: "narrow", Client: "dev", Models: []string{"none-that-is-sold"}})
	slip := "A"
	if strings.HasSuffix(h.key, slip) {
		slip = "B"
	}
	c, err := net.Dial("tcp", strings.TrimPrefix(h.at, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	answers := bufio.NewReader(c)
	ask := func(key string) (status, models int) {
		t.Helper()
		r := h.request(t.Context(), "GET", "/v1/models", "", key)
		if err := r.Write(c); err != nil {
			t.Fatal(err)
		}
		a, err := http.ReadResponse(answers, r)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		text, err := io.ReadAll(a.Body)
		if err != nil {
			t.Fatal(err)
		}
		return a.StatusCode, strings.Count(string(text), `"object":"model"`)
	}
	for _, step := range []struct {
		key     string
		status  int
		some    bool
		whoseIt string
	}{
		{h.key, 200, true, "the first"}, {h.key, 200, true, "the same"},
		{narrow, 200, false, "one of fewer models"}, {h.key[:len(h.key)-1] + slip, 401, false, "none"},
		{"", 401, false, "nobody's"}, {h.key, 200, true, "the first"},
	} {
		if status, models := ask(step.key); status != step.status || (models > 1) != step.some {
			t.Errorf("with the key of %s: %d and %d models", step.whoseIt, status, models)
		}
	}
	if err := h.Registry.Delete(t.Context(), bus.APIKeyKey("narrow")); err != nil {
		t.Fatal(err)
	}
	h.until("the key is gone", func() bool { status, _ := ask(narrow); return status == 401 })
	if status, _ := ask(h.key); status != 200 {
		t.Errorf("then the other key is answered %d", status)
	}
}
