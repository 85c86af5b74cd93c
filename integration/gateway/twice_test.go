package gateway_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/gateway"
	"souk/market"
)

// Of several answers under names that may come again not all are bought: the money is there for two, uncut.
// Asked again at a gateway that knows nothing of it, and when all could be bought, nothing more is: the first
// is gone, and without it nobody is given the others.
func TestWhatWasRefusedInPartIsNotBoughtAtAnotherGateway(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	t.Parallel()
	h := start(t, strings.Replace(slowly, "other: 10", "a: 0.0003, b: 0.0003, c: 0.0003", 1))
	second, _, _ := h.with(func(*gateway.Config) {})
	for client, c := range map[string]struct{ body, header, name string }{
		"a": {``, "Idempotency-Key", "three"},
		"b": {`,"stream":true`, "Idempotency-Key", "three"},
		"c": {``, "X-Souk-Task", "three"},
	} {
		key := h.newKey(bus.APIKey{ID: client, Client: client})
		body := long(c.body + `,"n":3,"souk":{"terms":{"max_price":0.0024}}`)
		body = strings.Replace(body, "3000", "400", 1)
		first := h.do("POST", "/v1/chat/completions", body, key, c.header, c.name, "X-Souk-Deadline-Ms",
			fmt.Sprint(time.Now().Add(time.Second).UnixMilli()))
		h.until("no slot is in use", func() bool { return h.Free() == 8 })
		_, holds := h.captures(client)
		given := strings.Contains(first.body, "[DONE]") || first.status == 200 && c.body == ""
		if holds < 1 || holds > 2 || given {
			t.Fatalf("%s: %d tasks were bought: %d %.300s", client, holds, first.status, first.body)
		}
		if _, err := h.Link.Fund(t.Context(), client, market.Credits(1e9), "more-"+client); err != nil {
			t.Fatal(err)
		}
		again := second.do("POST", "/v1/chat/completions", body, key, c.header, c.name)
		h.until("no slot is in use", func() bool { return h.Free() == 8 })
		if _, now := h.captures(client); now != holds || again.status == 200 {
			t.Errorf("%s: asked again, %d more were bought: %d %.300s", client, now-holds, again.status,
				again.body)
		}
	}
}

// Several answers that are asked for at two gateways at once, under one Idempotency-Key, are given by one of
// them: it is not so that each buys some of them, and refuses all.
func TestTwoGatewaysDoNotShareAnAnswer(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	t.Parallel()
	h := start(t, one)
	second, _, _ := h.with(func(*gateway.Config) {})
	for i := range 20 {
		var wg sync.WaitGroup
		var served, refused [2]reply
		for n, at := range []*house{h, second} {
			wg.Go(func() {
				r := at.do("POST", "/v1/chat/completions", chat(`,"n":3`), h.key, "Idempotency-Key",
					fmt.Sprint("both-", i))
				if r.status == 200 {
					served[n] = r
				} else {
					refused[n] = r
				}
			})
		}
		wg.Wait()
		if (served[0].status == 200) == (served[1].status == 200) {
			t.Errorf("%d: %d of two gave it: %s %s", i, served[0].status+served[1].status, refused[0].body,
				refused[1].body)
		}
	}
	h.until("all is settled", func() bool { paid, _ := h.captures("dev"); return len(paid) == 60 })
}
