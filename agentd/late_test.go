package agentd

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"souk/bus"
)

// An agent says which of its holds have had no token in the time that their dispatches name: at that time, in
// every summary until it comes or they end, and no more of them than a message names.
func TestLateHoldsAreNamed(t *testing.T) {
	a := newTestAgent(100, Config{})
	a.Claimed(claim(5))
	now := begun
	a.Ready(now)
	var all []*bus.Dispatch
	for i := range bus.MaxLate + 3 {
		d := dispatch(fmt.Sprint("h", i))
		d.WatchMS = 700
		if i == 0 {
			d.WatchMS = 0 // of a hub that does not want to hear
		}
		if reply, _ := a.Dispatch("math", d); reply.Code != "" {
			t.Fatal(reply)
		}
		all = append(all, d)
	}
	now = now.Add(100 * time.Millisecond)
	r := a.Ready(now)
	if r.Summary == nil || len(r.Summary.Late) > 0 || r.Wake.After(now.Add(700*time.Millisecond)) {
		t.Fatalf("%+v, awake at %v", r.Summary, r.Wake)
	}
	a.Began(all[2], nil)
	a.Ready(now.Add(200 * time.Millisecond))
	if r = a.Ready(now.Add(699 * time.Millisecond)); r.Summary != nil {
		t.Fatalf("too early: %+v", r.Summary)
	}
	now = now.Add(700 * time.Millisecond)
	r = a.Ready(now)
	if r.Summary == nil || len(r.Summary.Late) != bus.MaxLate || r.Summary.Late[0] != all[1].Hold ||
		slices.Contains(r.Summary.Late, all[2].Hold) || slices.Contains(r.Summary.Late, all[0].Hold) {
		t.Fatalf("late are %+v", r.Summary)
	}
	if err := r.Summary.Validate(); err != nil {
		t.Error(err)
	}
	a.Began(all[1], nil)
	a.Ended(all[3], &Ending{Completion: bus.Completion{Hold: all[3].Hold, Outcome: bus.OutcomeFailed}})
	r = a.Ready(now.Add(time.Second))
	if late := r.Summary.Late; slices.Contains(late, all[1].Hold) || slices.Contains(late, all[3].Hold) ||
		len(late) != bus.MaxLate-1 {
		t.Errorf("late are still %v", late)
	}
	for _, d := range all {
		a.Began(d, nil)
	}
	if len(a.watched) != 0 {
		t.Errorf("%d are watched for ever", len(a.watched))
	}
}

// A hub has a task back as long as the engine has said nothing of it, whether its answer comes in pieces or
// as a whole; then nothing of it goes out any more. An engine that said nothing at all meanwhile hangs.
func TestALateTaskIsGivenUp(t *testing.T) {
	for _, stream := range []bool{true, false} {
		make := func() *Stream {
			d := dispatch("h")
			d.Task.Stream = stream
			return NewStream(begun, d, NewRun(d, "a1", "tiny", 16), 1<<20)
		}
		later := begun.Add(time.Second)
		s := make()
		if _, err := s.Take(later, Chunk{Text: "x", Count: 1, Events: 1}, 1<<20); err != nil {
			t.Fatal(err)
		}
		if why := s.Late(later, later); why != nil || s.Stopped != nil {
			t.Errorf("stream %v: an answer that has begun is given up: %v", stream, why)
		}
		for _, heard := range []time.Time{{}, begun.Add(time.Millisecond)} {
			s = make()
			why := s.Late(later, heard)
			var engine *EngineError
			if hangs := errors.As(why, &engine) && engine.Stalled; hangs != heard.IsZero() || why == nil {
				t.Errorf("stream %v, heard %v: %v", stream, heard, why)
			}
			if again := s.Late(later, heard); again != nil {
				t.Errorf("it is given up twice: %v", again)
			}
			if data, err := s.Take(later, Chunk{Text: "x", Count: 1, Events: 1}, 1<<20); data != nil ||
				!errors.Is(err, why) {
				t.Errorf("what comes then goes out: %q, %v", data, err)
			}
			e, data, err := s.End(later, Answer{}, why, 1<<20)
			c := e.Completion
			if err != nil || data != nil || !c.Unsaid || !c.Code.Broken() || c.Cost != 0 || c.Relayed != 0 ||
				e.Doubtful != heard.IsZero() {
				t.Errorf("stream %v: %+v, %q, %v", stream, e, data, err)
			}
		}
	}
}
