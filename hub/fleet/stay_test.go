package fleet

import (
	"fmt"
	"testing"
	"time"
)

// stand is an agent that has tasks, of which others come and go.
type stand struct {
	Agent
	now  time.Time
	sent map[string]time.Time
}

func newStand() *stand { return &stand{now: time.Unix(100, 0), sent: map[string]time.Time{}} }

func (s *stand) send(task string, work time.Duration) {
	s.sent[task] = s.now
	s.Begin("c", task, s.now, time.Minute)
	s.Computes(s.now.UnixNano(), 1000, work, work)
}

func (s *stand) pass(d time.Duration) { s.now = s.now.Add(d) }

// ends has a task end whose first token came after so long; 0: it was not served.
func (s *stand) ends(task string, ttft time.Duration) {
	if ttft > 0 {
		s.Computed("c", task, ttft)
	}
	s.Kept("c", task, s.now.Sub(s.sent[task]))
	s.End("c", task)
}

// shows judges what the agent's class has learned by some moment.
func (s *stand) shows(t *testing.T, when string, want *Service) {
	t.Helper()
	if got := s.Service(); *got != *want {
		t.Fatalf("%s: %v of %v is learned, want %v of %v", when, got.Own(), got.Mean(), want.Own(), want.Mean())
	}
}

// A task's own stay is what it kept its slot for, less the time for which prompts of others were computed
// meanwhile that were served, be it after its end; one that was cancelled or refused before it was computed
// does not count, however long it was, and what an agent says of those in hand moves nothing.
func TestOnlyPromptsThatWereServedCount(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		name string
		do   func(x *stand) // beside a task that has its slot for 10 s
		want time.Duration
	}{
		{"nothing came", func(*stand) {}, 0},
		{"one was served", func(x *stand) {
			x.send("x", 2*s)
			x.pass(3 * s)
			x.ends("x", 2*s)
		}, 2 * s},
		{"one had waited for another before it was computed", func(x *stand) {
			x.send("x", 2*s)
			x.send("y", 3*s)
			x.pass(6 * s)
			x.ends("y", 5*s)
			x.ends("x", 2*s)
		}, 5 * s},
		{"one came and was cancelled at once", func(x *stand) {
			x.send("x", time.Hour)
			x.pass(time.Millisecond)
			x.ends("x", 0)
		}, 0},
		{"one takes less than nothing", func(x *stand) {
			x.send("x", -time.Hour)
			x.pass(s)
			x.ends("x", s)
		}, 0},
		{"one takes a year", func(x *stand) {
			x.send("x", 365*24*time.Hour)
			x.pass(4 * s)
			x.ends("x", 4*s)
		}, 4 * s},
	} {
		x := newStand()
		x.send("this", s)
		c.do(x)
		if got := x.Runs[x.find("c", "this")].others; got != c.want {
			t.Errorf("%s: %v of others, want %v", c.name, got, c.want)
		}
	}
}

// A class learns at once how long a task kept its slot, and what of that was its own once whatever ran beside
// it has ended; what was computed beside it and served later counts, and what was computed later does not.
func TestAStayIsLearnedOnceNothingOfItIsInHand(t *testing.T) {
	const s = time.Second
	x := newStand()
	var want Service
	shows := func(when string) { t.Helper(); x.shows(t, when, &want) }
	x.send("this", s)
	x.send("long", 2*s)
	x.pass(4 * s)
	x.ends("this", s)
	want.Kept(4 * s)
	x.send("later", s)
	x.pass(5 * s)
	shows("beside what is in hand")
	x.ends("later", s)
	want.Kept(5 * s)
	shows("beside what has long been in hand")
	x.ends("long", 3*s)
	want.Kept(9 * s)
	want.Ended(2 * s)
	want.Ended(5 * s)
	want.Ended(7 * s)
	shows("once all have ended")
	if len(x.ended) > 0 {
		t.Errorf("%d stays are yet to be learned", len(x.ended))
	}
}

// However many tasks end beside one in hand, none of their stays is split before that has ended. Of too many
// the last teach no more than how long they were, and that one is learned in any case.
func TestNoStayIsSplitEarlyAsManyEnd(t *testing.T) {
	const s = time.Second
	x := newStand()
	var want Service
	shows := func(when string) { t.Helper(); x.shows(t, when, &want) }
	kept := func(i int) time.Duration { return time.Duration(1+i%7) * s }
	x.send("stuck", s)
	for i := range 3 * mostEnded {
		x.send("short", 0)
		x.pass(kept(i))
		x.ends("short", time.Millisecond)
		want.Kept(kept(i))
		shows(fmt.Sprint(i+1, " ended beside what is in hand"))
	}
	x.ends("stuck", s)
	want.Kept(x.now.Sub(x.sent["stuck"]))
	want.Ended(0) // its prompt was computed beside the first
	for i := 1; i < mostEnded; i++ {
		want.Ended(kept(i))
	}
	want.Ended(x.now.Sub(x.sent["stuck"]))
	shows("in the end")
	if len(x.ended) > 0 {
		t.Errorf("%d stays are yet to be learned", len(x.ended))
	}
}
