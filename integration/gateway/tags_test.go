package gateway_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"souk/ledger"
)

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
