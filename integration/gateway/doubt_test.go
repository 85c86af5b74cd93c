package gateway_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"souk/bus"
)

// Where the market does not know what became of a task, as when its hub is started again, the gateway sends
// it again under its id, and asks that it be looked for: who asked over HTTP has not heard of that id.
func TestATaskInDoubtIsAskedForAgain(t *testing.T) {
	onStage(t, small, func(t *testing.T, st *stage) {
		for _, c := range []struct {
			name   string
			told   []bus.Code // what is said to the task each time it comes; then an agent has it
			asked  int32
			status int
			known  bool
		}{
			{"once", []bus.Code{bus.CodeUnknown}, 2, 200, true},
			{"three times", []bus.Code{bus.CodeUnknown, bus.CodeUnknown, bus.CodeUnknown}, 4, 200, true},
			{"for ever", []bus.Code{bus.CodeUnknown, bus.CodeUnknown, bus.CodeUnknown, bus.CodeUnknown},
				4, 424, false},
			{"then no hub is there", []bus.Code{bus.CodeUnknown, bus.CodeDraining, bus.CodeDraining,
				bus.CodeDraining}, 4, 424, false},
			{"then it is refused", []bus.Code{bus.CodeUnknown, bus.CodeNoSlot}, 2, 429, true},
		} {
			for _, more := range []string{``, `,"stream":true`, `,"n":2`} {
				var n atomic.Int32
				var mu sync.Mutex
				ids := map[string]bool{}
				st.will(func(j *job) {
					if more == `,"n":2` && strings.HasSuffix(j.ID, "-1") { // the other one is served
						j.accept()
						j.say("words")
						j.endHere()
						return
					}
					i := n.Add(1) - 1
					mu.Lock()
					defer mu.Unlock()
					if ids[j.ID] = true; j.Again == 0 && i > 0 {
						t.Errorf("%s, %q: sent for the %d. time as if for the first", c.name, more, i+1)
					}
					if int(i) < len(c.told) {
						j.refuse(c.told[i])
						return
					}
					j.accept()
					j.say("words")
					j.endHere()
				})
				r := st.do("/v1/chat/completions", large(10, more))
				if n.Load() != c.asked || len(ids) != 1 {
					t.Errorf("%s, %q: asked %d times under %d ids, want %d under one", c.name, more,
						n.Load(), len(ids), c.asked)
				}
				want := c.status
				if more == `,"n":2` && want == 429 {
					want = 424 // the other one is served, and paid
				}
				if r.status != want || r.status == 200 && !strings.Contains(r.body, "words") ||
					strings.Contains(r.body, "not known yet") == c.known ||
					strings.Contains(r.body, "an Idempotency-Key prevents") == c.known {
					t.Errorf("%s, %q: %d %v %s", c.name, more, r.status, r.header, r.body)
				}
			}
		}
	})
}

// Who leaves while a task in doubt waits to be sent again is told that nobody knows what it costs.
func TestATaskInDoubtIsLeft(t *testing.T) {
	onStage(t, small, func(t *testing.T, st *stage) {
		var n atomic.Int32
		st.will(func(j *job) {
			n.Add(1)
			j.refuse(bus.CodeUnknown)
		})
		ctx, leave := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer leave()
		r := st.request(ctx, "/v1/chat/completions", strings.NewReader(large(10, "")))
		if _, err := st.client.Do(r); err == nil {
			t.Error("it was answered")
		}
		time.Sleep(time.Minute) // virtual
		synctest.Wait()
		if got := n.Load(); got != 1 {
			t.Errorf("sent %d times", got)
		}
	})
}

// A task that was held back for want of money, and of which nobody then knows what became, is in doubt all
// the same once its deadline is over. What is said of it for certain ends the doubt.
func TestATaskInDoubtWasHeldBack(t *testing.T) {
	onStage(t, small, func(t *testing.T, st *stage) {
		for _, c := range []struct {
			name    string
			told    []bus.Code
			within  time.Duration
			doubted bool
		}{
			{"until its deadline", []bus.Code{bus.CodeAllotmentPending, bus.CodeUnknown},
				500 * time.Millisecond, true},
			{"after a doubt", []bus.Code{bus.CodeUnknown, bus.CodeAllotmentPending, bus.CodeDraining},
				time.Minute, false},
		} {
			var n atomic.Int32
			st.will(func(j *job) {
				if strings.HasSuffix(j.ID, "-1") {
					j.accept()
					j.say("words")
					j.endHere()
					return
				}
				j.refuse(c.told[min(int(n.Add(1)), len(c.told))-1])
			})
			r := st.do("/v1/chat/completions", large(10, fmt.Sprintf(`,"n":2,"souk":{"deadline_ms":%d}`,
				time.Now().Add(c.within).UnixMilli())))
			if int(n.Load()) != len(c.told) || r.status != 424 ||
				strings.Contains(r.body, "not known yet") != c.doubted {
				t.Errorf("%s: asked %d times: %d %s", c.name, n.Load(), r.status, r.body)
			}
		}
	})
}
