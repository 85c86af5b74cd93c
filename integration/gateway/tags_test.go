package gateway_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/ledger"
	"souk/market"
)

// usage holds what GET /v1/usage says.
type usage struct {
	Complete bool
	Total    struct {
		Tasks int
		Paid  market.Credits
	}
	Data []struct {
		Day, Model, Key string
		Tags            map[string]string
		Tasks           int
		Paid            market.Credits
	}
}

func (h *house) usage(query, key string) (u usage) {
	h.t.Helper()
	r := h.do("GET", "/v1/usage"+query, "", key)
	if err := json.Unmarshal([]byte(r.body), &u); err != nil || r.status != 200 {
		h.t.Fatalf("%d %s: %v", r.status, r.body, err)
	}
	return u
}

// What was paid is told by day, model and tag, to each key its own alone, and the same after everything has
// been started again.
func TestUsageByTag(t *testing.T) {
	h := start(t, one)
	key := h.newKey(bus.APIKey{Client: "dev"})
	for i, tag := range []string{"red", "blue", "red", ""} {
		more := `,"metadata":{"team":"` + tag + `"}`
		if tag == "" {
			more = ""
		}
		if r := h.do("POST", "/v1/chat/completions", chat(more), h.key); r.status != 200 {
			t.Fatalf("request %d: %s", i, r.body)
		}
	}
	h.do("POST", "/v1/chat/completions", chat(`,"metadata":{"team":"red"},"user":"ann"`), key)
	h.until("all is settled", func() bool {
		return h.usage("", h.key).Total.Tasks == 4 && h.usage("", key).Total.Tasks == 1
	})
	judge := func(when string) {
		t.Helper()
		u := h.usage("?by=tag:team", h.key)
		var got []string
		sum := market.Credits(0)
		for _, d := range u.Data {
			got, sum = append(got, fmt.Sprintf("%d of %q", d.Tasks, d.Tags["team"])), sum+d.Paid
		}
		if text := strings.Join(got, ", "); text != `1 of "", 1 of "blue", 2 of "red"` || !u.Complete {
			t.Errorf("%s: %s, %+v", when, text, u)
		}
		all := h.usage("", key).Total.Paid + u.Total.Paid
		if sum != u.Total.Paid || all != h.captured("dev") {
			t.Errorf("%s: groups add up to %s, all is %s, with the other key %s, and captures are %s", when, sum,
				u.Total.Paid, all, h.captured("dev"))
		}
		d := h.usage("", h.key).Data // of two days at midnight
		if _, err := time.Parse(time.DateOnly, d[0].Day); err != nil || d[0].Model != "gpt-oss-20b" {
			t.Errorf("%s: by day and model %+v", when, d)
		}
		id, _, _ := strings.Cut(strings.TrimPrefix(h.key, bus.KeyPrefix), "-")
		if d := h.usage("?by=key", h.key).Data; len(d) != 1 || d[0].Key != id || d[0].Day+d[0].Model != "" ||
			d[0].Tasks != 4 || d[0].Paid != u.Total.Paid {
			t.Errorf("%s: by key %+v, want %s's four", when, d, id)
		}
		if d := h.usage("?by=tag", key).Data; len(d) != 1 || d[0].Tags["user"] != "ann" {
			t.Errorf("%s: of the other key %+v", when, d)
		}
	}
	judge("at once")
	h.again()
	judge("after a restart")
	for _, bad := range []string{"?by=client", "?from=yesterday", "?from=2999-01-01", "?key=x",
		"?by=day&by=key"} {
		if r := h.do("GET", "/v1/usage"+bad, "", h.key); r.status != 400 {
			t.Errorf("%s: %d %s", bad, r.status, r.body)
		}
	}
}

// What a request is called and says of itself stands with the hold of its task; its id only where the task's
// own does not say it. Nothing of it can be taken for anything else.
func TestRequestsAreToldApartInJournals(t *testing.T) {
	h := start(t, one)
	evil := `,"user":"ann\n","metadata":{"team":"red","client:other:held":"other","x":"` +
		strings.Repeat("y", 300_000) + `"}`
	responses := `{"model":"auto","input":"Hello","max_output_tokens":5,"metadata":{"team":"blue"}}`
	var ids []string
	for i, r := range []reply{
		h.do("POST", "/v1/chat/completions", chat(evil), h.key, "X-Request-Id", "req-1"),
		h.do("POST", "/v1/chat/completions", chat(``), h.key),
		h.do("POST", "/v1/chat/completions", chat(`,"stream":true`), h.key, "X-Request-Id", "not plain"),
		h.do("POST", "/v1/responses", responses, h.key, "Idempotency-Key", "once"),
	} {
		if ids = append(ids, r.header.Get("X-Request-Id")); r.status != 200 || ids[i] == "" {
			t.Fatalf("request %d: %d, named %q: %.300s", i, r.status, ids[i], r.body)
		}
	}
	if ids[0] != "req-1" || ids[2] == "not plain" {
		t.Errorf("ids %q", ids)
	}
	key, got, n := h.key[len("sk-souk-"):], []string(nil), 0
	key, _, _ = strings.Cut(key, "-")
	h.until("all is settled", func() bool {
		got, n = nil, 0
		h.eachCapture("dev", &n, func(hold *ledger.Hold, _ *ledger.Capture) {
			said := fmt.Sprintf("request %s, key %s, %s", hold.Request, hold.Key, hold.Tags)
			if slices.Contains(ids, hold.Task) {
				said = "named by its request" + said
			}
			got = append(got, said)
		})
		return len(got) == 4
	})
	slices.Sort(got)
	want := []string{
		"named by its requestrequest , key " + key + ", ", "named by its requestrequest , key " + key + ", ",
		"request " + ids[3] + ", key " + key + ", team=blue",
		"request req-1, key " + key + ", client%3Aother%3Aheld=other&team=red&user=ann%0A&x=~",
	}
	slices.Sort(want)
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("the journal has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			break
		}
	}
}
