package hub_test

import (
	"testing"
	"time"
	"unsafe"

	"souk/bus"
	"souk/market"
)

// setBack is a moment as read after somebody has set the wall clock back: the monotonic clock beside it does
// not know. What a time.Time is made of has been the same since Go 1.9.
func setBack(t *testing.T, at time.Time, by time.Duration) time.Time {
	t.Helper()
	back := at
	(*struct{ wall uint64 })(unsafe.Pointer(&back)).wall -= uint64(by/time.Second) << 30
	if at.Sub(back) != 0 || at.Unix()-back.Unix() != int64(by/time.Second) {
		t.Fatal("a time.Time is made of something else now: see time.go")
	}
	return back
}

// An agent that is avoided for some milliseconds is not avoided for an hour, whatever is done to the clock.
func TestAClockThatIsSetBack(t *testing.T) {
	h := newHouse(t, nil)
	// after the start of tests' time, with a monotonic clock beside it
	h.now = setBack(t, time.Now(), -2*365*24*time.Hour)
	h.join("a-1", "llama", 1, 0.9, card(1, 1, 4))
	h.must(h.step(h.task("ann", "t1")))
	h.refuse(h.take("ann", "t1"), bus.CodeNoSlot)
	h.now = setBack(t, h.now.Add(time.Second), time.Hour)
	h.n.Tick(h.now)
	h.run()
	if got := h.running(); got != "ann/t1>a-1" {
		t.Errorf("running %q, a second after the agent had refused", got)
	}
	h.now = h.now.Add(2 * h.n.Config().Silence)
	if h.n.Tick(h.now); h.n.Status().Free != 0 {
		t.Error("an agent that has been silent for long is sold")
	}
}

// A hub that starts while the clock is behind its journal's last frame does not wait until it has caught up.
func TestAClockBehindTheJournal(t *testing.T) {
	h, d := oneRunning(t)
	h.accept(d)
	h.now = h.now.Add(time.Hour)
	h.must(h.step(completion("a-1", d, market.Usage{Prompt: 100, Output: 10})))
	h.restart()
	h.now = start.Add(time.Minute)
	h.must(h.n.Lead(h.now, 9))
	h.run()
	h.join("a-1", "llama", 1, 0.9, card(1, 1, 4))
	h.status = nil
	h.pass(2 * time.Second)
	if h.status == nil {
		t.Error("it says nothing of itself for an hour")
	}
	h.must(h.step(h.task("ann", "t2")))
	h.must(h.step(h.task("bob", "t2")))
	h.pass(h.n.Config().Batch.MaxWait)
	if len(h.dispatched) != 1 {
		t.Errorf("running %q: a batch whose window has closed waits for an hour", h.running())
	}
}
