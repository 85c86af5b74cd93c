package serve

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A process that did not run for longer than its lease surely lives does not lead, whatever its timers say; a
// shorter stop is none.
func TestAProcessThatDidNotRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		p := newPulse(5*time.Second, nil)
		s := &Server{}
		s.pulse.Store(p)
		ended := make(chan struct{})
		go func() { p.beat(ctx); close(ended) }()
		time.Sleep(time.Minute)
		p.last.Add(int64(-2500 * time.Millisecond)) // as if it had been stopped until now
		if !s.Leading() {
			t.Error("a short stop is taken for a long one")
		}
		time.Sleep(time.Minute)
		p.last.Add(int64(-3500 * time.Millisecond))
		if s.Leading() {
			t.Error("one that slept for longer than its lease leads")
		}
		<-p.gap
		p.last.Store(time.Now().UnixNano())
		if s.Leading() {
			t.Error("what was lost comes back by itself")
		}
		<-ended
		stop()
		// the goroutine notices by itself, too
		p = newPulse(5*time.Second, nil)
		p.last.Add(int64(-time.Minute))
		p.beat(t.Context())
		<-p.gap
		lost := make(chan struct{})
		s.pulse.Store(newPulse(5*time.Second, lost))
		if !s.Leading() {
			t.Error("one that begins does not lead")
		}
		if close(lost); s.Leading() {
			t.Error("it leads without a lease")
		}
	})
}
