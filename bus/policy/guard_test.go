package policy

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"
)

// fake is a policy that does what a test says.
type fake struct {
	observe func(Event)
	score   func(Item) float64
	act     func(Room, []Effect) []Effect
}

func (f *fake) Observe(e Event) {
	if f.observe != nil {
		f.observe(e)
	}
}
func (f *fake) Score(_ time.Time, i Item) float64             { return f.score(i) }
func (f *fake) Act(_ time.Time, r Room, to []Effect) []Effect { return f.act(r, to) }

var now = time.Unix(1_800_000_000, 0)

// A policy that panics, asks for too much or for what there is none is off for a minute, says why once, and
// nothing that it asked for is done. Then it is on again.
func TestGuardTurnsOff(t *testing.T) {
	room := func() Room { return Room{Effects: 2, Tokens: 100, Work: NewWork(3)} }
	keep := Effect{Kind: KeepAlive, Agent: 1, Session: 2, Tokens: 50}
	for name, c := range map[string]struct {
		act  func(Room, []Effect) []Effect
		want string
	}{
		"panics": {func(Room, []Effect) []Effect { panic(errors.New("secret")) },
			"it panicked in Act (*errors.errorString)"},
		"too many": {func(_ Room,
			to []Effect) []Effect {
			return append(to, keep, keep, Effect{Kind: Warm})
		},
			"3 effects, and there is room for 2"},
		"too large": {func(_ Room,
			to []Effect) []Effect {
			return append(to, keep, Effect{Kind: Warm, Tokens: 51})
		},
			"tokens, and there is room for 100"},
		"negative": {func(_ Room, to []Effect) []Effect { return append(to, Effect{Kind: Warm, Tokens: -1}) },
			"tokens, and there is room"},
		"overflows": {func(_ Room, to []Effect) []Effect {
			return append(to, Effect{Kind: Warm, Tokens: math.MaxInt})
		}, "tokens, and there is room"},
		"no effect": {func(_ Room, to []Effect) []Effect { return append(to, Effect{}) },
			"an effect of kind 0"},
		"unknown": {func(_ Room, to []Effect) []Effect { return append(to, Effect{Kind: effectKinds}) },
			"and there is none"},
		"looks forever": {func(r Room, to []Effect) []Effect {
			for range 3 {
				r.Work.Take(2)
			}
			return to
		}, "steps"},
		"gives itself steps": {func(r Room, to []Effect) []Effect {
			for range 9 {
				r.Work.Take(3)
				r.Work.Take(-3)
			}
			return to
		}, "steps"},
	} {
		calls := 0
		g := NewGuard("x", &fake{act: func(r Room, to []Effect) []Effect { calls++; return c.act(r, to) }})
		if got := g.Act(now, room()); len(got) != 0 {
			t.Errorf("%s: %v is done", name, got)
		}
		until, why := g.Off(now)
		if !until.Equal(now.Add(time.Minute)) || why == nil || !strings.Contains(why.Error(), c.want) ||
			!strings.HasPrefix(why.Error(), "policy x is off until 2027-01-15T08:01:00Z: ") ||
			strings.Contains(why.Error(), "secret") {
			t.Errorf("%s: off until %v: %v, want %q", name, until, why, c.want)
		}
		if g.Fault() == nil || g.Fault() != nil {
			t.Errorf("%s: it is to be said once", name)
		}
		g.Act(now.Add(OffFor-1), room())
		g.Observe(Event{Kind: Arrived, At: now.Add(OffFor - 1)})
		if calls != 1 || g.counts.Observed != 0 {
			t.Errorf("%s: called %d times, %d events, while it is off", name, calls, g.counts.Observed)
		}
		if g.Act(now.Add(OffFor), room()); calls != 2 {
			t.Errorf("%s: it stays off", name)
		}
		if k := g.counts; k.Panics+k.Overruns != 2 || k.Wanted != 0 {
			t.Errorf("%s: counted %+v", name, k)
		}
	}
}

// What is within the room is done.
func TestGuardWithinRoom(t *testing.T) {
	g := NewGuard("x", &fake{act: func(r Room, to []Effect) []Effect {
		for r.Work.Take(1) {
		}
		return append(to, Effect{Kind: KeepAlive, Tokens: 60}, Effect{Kind: Warm, Tokens: 40})
	}})
	if got := g.Act(now, Room{Effects: 2, Tokens: 100, Work: NewWork(3)}); len(got) != 2 {
		_, why := g.Off(now)
		t.Errorf("%v is done: %v", got, why)
	}
	if got := g.Act(now, Room{Tokens: 100}); len(got) != 0 || !g.On(now) {
		t.Error("without room for effects it is not asked")
	}
}

// Scores that say nothing are none, and a policy that panics in one has said nothing of any.
func TestGuardScores(t *testing.T) {
	said := []float64{1.5, Never, Hold, math.NaN(), math.Inf(1), math.Inf(-1), -0.5, 0, -3}
	g := NewGuard("x", &fake{score: func(i Item) float64 {
		if i.Tokens == len(said) {
			panic("no")
		}
		return said[i.Tokens]
	}})
	items, scores := make([]Item, len(said)), make([]float64, len(said)+1)
	for i := range items {
		items[i].Tokens = i
	}
	g.Score(now, items, scores)
	for i, got := range scores[:len(said)] {
		want := 0.0
		if i < 3 {
			want = said[i]
		}
		if got != want {
			t.Errorf("said %v: %v, want %v", said[i], got, want)
		}
	}
	g.Score(now, append(items, Item{Tokens: len(said)}), scores)
	for i, got := range scores {
		if got != 0 {
			t.Errorf("item %d has %v of a policy that panicked", i, got)
		}
	}
	if g.On(now) || g.counts.Panics != 1 || g.counts.Scored != 2*3 {
		t.Errorf("%+v", g.counts)
	}
}

// A hook without a policy does nothing.
func TestGuardOfNone(t *testing.T) {
	var none Guard
	none.Observe(Event{At: now})
	if none.On(now) || none.Act(now, Room{Effects: 1}) != nil || none.Name() != "" {
		t.Error("without a policy something is done")
	}
}

// A host spends nothing on memory for a policy that takes none.
func TestGuardAllocatesNothing(t *testing.T) {
	g := NewGuard("x", &fake{score: func(Item) float64 { return 1 },
		act: func(_ Room, to []Effect) []Effect { return append(to, Effect{Kind: KeepAlive}) }})
	items, scores, work := make([]Item, 8), make([]float64, 8), NewWork(1)
	n := testing.AllocsPerRun(100, func() {
		g.Observe(Event{Kind: Served, At: now})
		g.Score(now, items, scores)
		g.Act(now, Room{Effects: 1, Work: work})
	})
	if n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestStopOf(t *testing.T) {
	for finish, want := range map[string]Stop{"stop": StopEnd, "length": StopLength, "tool_calls": StopTool,
		"function_call": StopTool, "": StopUnknown, "content_filter": StopUnknown} {
		if got := StopOf(finish); got != want {
			t.Errorf("%q is %v, want %v", finish, got, want)
		}
	}
}
