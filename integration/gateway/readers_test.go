package gateway_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Two ask for a stream of which nothing has come yet: the later one reads it, and the earlier one is told so
// at once, not when a word of the answer is overdue.
func TestBothWhoReadAreTold(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	t.Parallel()
	h := start(t, strings.Replace(slowly, "slots: 8", "slots: 1", 1))
	_, leave := h.reading(long(`,"stream":true`), h.key)
	defer leave()
	began := time.Now()
	body := chat(fmt.Sprintf(`,"stream":true,"souk":{"deadline_ms":%d}`, began.Add(2*time.Second).UnixMilli()))
	told := make(chan reply, 2)
	for i := range 2 {
		time.AfterFunc(time.Duration(i)*500*time.Millisecond, func() {
			told <- h.do("POST", "/v1/chat/completions", body, h.key, "Idempotency-Key", "twice")
		})
	}
	for _, want := range []string{"answer_gone", "no_room"} {
		r := <-told
		if code := r.object(t).Error.Souk.Code; code != want {
			t.Errorf("%d %s, want %s", r.status, r.body, want)
		}
		if late := time.Since(began); late > 10*time.Second {
			t.Errorf("%s: told after %v", want, late)
		}
	}
}
