package gateway_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"souk/bus"
)

// A hub may have room for some of several answers at once, and for all of them one after another: none is
// refused for that, and all are given, and paid once.
func TestAnswersWaitForRoom(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	t.Parallel()
	for name, limits := range map[string]string{
		"tasks of one client in the queue": "hub: {max_waiting_per_client: 2}",
		"a slot until the deadline":        "hub: {deadline: 300ms}",
	} {
		t.Run(name, func(t *testing.T) {
			h := start(t, strings.Replace(sold(falseEngine(t)), "slots: 8", "slots: 2", 1)+limits+"\n")
			for _, more := range []string{``, `,"stream":true`} {
				for try, late := 0, true; late; try++ { // for a busy machine a deadline may be too short
					before := h.captured("dev")
					r := h.do("POST", "/v1/chat/completions", several(8, 50, more), h.key)
					late = strings.Contains(r.body, "past_deadline") && try < 5
					if !late && (r.status != 200 || strings.Count(r.body, `"finish_reason":"length"`) != 8) {
						t.Errorf("%q: %d %.700s", more, r.status, r.body)
					}
					told := r.paid(t)
					h.until("what is told is what was taken", func() bool { return h.captured("dev")-before == told })
				}
			}
		})
	}
}

// What finds no room in the end is refused a minute after the last of the others has ended, with the reason.
// Where none of them found any, the request is refused at once, and may come again.
func TestAnswersThatFindNoRoom(t *testing.T) {
	for _, code := range []bus.Code{bus.CodeNoRoom, bus.CodeTooManyTasks, bus.CodeAllotmentPending} {
		onStage(t, small, func(t *testing.T, st *stage) {
			var asked atomic.Int32
			st.will(func(j *job) {
				if !strings.HasSuffix(j.ID, "-0") {
					asked.Add(1)
					j.refuse(code)
					return
				}
				j.accept()
				for range 10 { // an agent that is silent is given up
					j.say("words")
					time.Sleep(time.Second)
				}
				j.endHere()
			})
			begun := time.Now()
			r := st.do("/v1/chat/completions", large(10, `,"n":3`))
			took := time.Since(begun).Round(time.Second)
			if r.status != 424 || !strings.Contains(r.body, `"message":"`+string(code)+": no; ") ||
				took < 69*time.Second || took > 73*time.Second {
				t.Errorf("%s, after %v: %d %s", code, took, r.status, r.body)
			}
			if n := asked.Load(); n > 2*(1+73) {
				t.Errorf("%s: two tasks were asked for %d times", code, n)
			}
			st.will(func(j *job) { j.refuse(code) })
			begun = time.Now()
			r = st.do("/v1/chat/completions", large(10, `,"n":3`))
			if took := time.Since(begun); r.status != 429 && r.status != 503 || took > time.Second ||
				r.header.Get("Retry-After-Ms") == "" {
				t.Errorf("%s, after %v: %d %s", code, took, r.status, r.body)
			}
		})
	}
}

// What is worth less than it costs is refused for good where it was so when it came. Where it came to be so
// while it waited it may come again, and is told when.
func TestWhatIsWorthLessThanItCosts(t *testing.T) {
	onStage(t, small, func(t *testing.T, st *stage) {
		for retry, status := range map[int64]int{0: 422, 1500: 429} {
			st.will(func(j *job) {
				j.publish(j.reply, &bus.Answer{Result: &bus.Result{Client: "dev", Task: j.ID,
					Code: bus.CodeNotWorthIt, Message: "no", RetryMS: retry}})
			})
			r := st.do("/v1/chat/completions", large(10, ``))
			again, never := r.header.Get("Retry-After-Ms"), r.header.Get("X-Should-Retry")
			if r.status != status || (again == "1500") != (retry > 0) || (never == "false") != (retry == 0) ||
				!strings.Contains(r.body, `"code":"not_worth_it"`) {
				t.Errorf("after %d ms again: %d %v %s", retry, r.status, r.header, r.body)
			}
		}
	})
}
