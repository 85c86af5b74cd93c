package hub_test

import (
	"testing"
	"time"

	"souk/bus"
	"souk/hub"
	"souk/hub/predict"
)

// A deadline is kept as often as not where half of all first tokens come before it, however late the others
// are: that decides at the door, in a round, and in what is said to who asks. What is quoted, and what an
// answer is worth, goes by the mean.
func TestADeadlineIsJudgedByTheMedian(t *testing.T) {
	for _, c := range []struct {
		late     int // of ten first tokens, those that take half a second; the others take 50 ms
		deadline time.Duration
		takes    bool
	}{
		{0, 40 * time.Millisecond, false},
		{0, 100 * time.Millisecond, true},
		{3, 40 * time.Millisecond, false},
		{3, 100 * time.Millisecond, true}, // the mean is 185 ms
		{7, 300 * time.Millisecond, false},
		{7, 600 * time.Millisecond, true},
	} {
		h := newHouse(t, nil)
		h.join("a-1", "llama", 1, 0.9, card(1, 1, 4))
		f := predict.Features{Prompt: 100, Counted: 100, MaxTokens: 100}
		for i := range 400 {
			o := predict.Observation{Prompt: 100, Output: 40, TTFT: 50 * time.Millisecond,
				ITL: 10 * time.Millisecond}
			if i*7%10 < c.late {
				o.TTFT = 500 * time.Millisecond
			}
			h.n.Teach("a-1", f, o)
		}
		mean := h.n.Forecast("a-1", f).TTFT
		if want := time.Duration(50+45*c.late) * time.Millisecond; mean < want*9/10 || mean > want*11/10 {
			t.Fatalf("%d of ten late: %v are forecast, want the mean of some %v", c.late, mean, want)
		}
		by := func(m *bus.Task) { m.DeadlineMS = h.now.Add(c.deadline).UnixMilli() }
		q := h.n.Quote(h.now, h.task("ann", "asks", by))
		if len(q.Models) != 1 || q.Models[0].WouldWin != c.takes {
			t.Errorf("%d of ten late, due in %v: it is quoted %+v, want a slot: %v", c.late, c.deadline, q.Models,
				c.takes)
		} else if got, want := q.Models[0].TTFTMS, hub.Millis(mean); got < want || got > want*9/8+0.6 {
			t.Errorf("%d of ten late: %v ms are quoted, want the mean, %v, and at most an eighth more", c.late, got,
				mean)
		}
		h.must(h.step(h.task("ann", "t1", by)))
		if got := len(h.dispatched) == 1; got != c.takes {
			t.Errorf("%d of ten late, due in %v: a slot: %v, want %v: %s", c.late, c.deadline, got, c.takes,
				h.answerTo("inbox.ann.t1"))
		}
	}
}
