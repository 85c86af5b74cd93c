package fleet

import (
	"fmt"
	"testing"
	"time"

	"souk/hub/estimate"
)

// What the prompts of others add to a stay is not the task's own: two tasks that keep their slots for as long
// are told apart by what was computed beside them, and neither time is ever less than nothing.
func TestTheOwnPartOfAStay(t *testing.T) {
	var quiet, beside Service
	for range 300 {
		quiet.Kept(3 * time.Second)
		quiet.Ended(3 * time.Second)
		beside.Kept(3 * time.Second)
		beside.Ended(time.Second)
	}
	if quiet.Own() != quiet.Mean() || beside.Mean() != quiet.Mean() {
		t.Errorf("kept for %v and %v, by themselves %v and %v", quiet.Mean(), beside.Mean(), quiet.Own(),
			beside.Own())
	}
	if own := beside.Own(); own < 990*time.Millisecond || own > 1010*time.Millisecond {
		t.Errorf("of 3 s of which others had 2 it has %v itself", own)
	}
	for range 300 { // an agent whose prompts are said to take a year
		beside.Kept(-time.Hour)
		beside.Ended(-365 * 24 * time.Hour)
	}
	if beside.Own() < time.Millisecond || beside.Mean() < time.Millisecond {
		t.Errorf("%v by itself, of %v", beside.Own(), beside.Mean())
	}
}

// Where nothing is known, or prompts take next to no time, the slots are what is short. Where tasks take some
// four times as long as their prompts, eight keep an engine busy, and more would wait in it.
func TestPromptsBoundAnAgent(t *testing.T) {
	y := newYard(t)
	a := y.join("a")
	a.Keeps(pace{})
	a.Sell(0, true)
	reg := *a.Reg()
	reg.Slots = 16
	y.Register(a, reg)
	check := func(why string, slots int, bound bool) {
		t.Helper()
		var x estimate.Snapshot
		y.Snapshot(&x, y.turn.Now(), y.turn.Nano(), func(*Agent) {})
		if got := x.Agents[0]; got.Slots != slots || got.PrefillBound != bound ||
			got.Free != slots-got.Running || a.Free(y.turn.Nano()) != slots-a.Running() {
			t.Errorf("%s: %+v, and %d may begin", why, got, a.Free(y.turn.Nano()))
		}
		for s := range y.Sellers {
			if s.Slots != slots {
				t.Errorf("%s: its owner is said to have %d slots", why, s.Slots)
			}
		}
	}
	check("nothing is known", 16, false)
	y.serve(a, 100, 3900*time.Millisecond, 10*time.Millisecond)
	check("short prompts", 16, false)
	y.serve(a, 400, 3900*time.Millisecond, time.Second)
	check("long prompts", 8, true)
	a.Begin("ann", "t1", y.turn.Now(), time.Minute)
	check("one runs", 8, true)
	if got, want := a.Usual(), 2*a.Service().Prefill; got != want {
		t.Errorf("a prompt keeps its own task and the one that runs for %v, want %v", got, want)
	}
	for i := range 200 { // which an engine refuses at once
		task := fmt.Sprint("no", i)
		a.Begin("ann", task, y.turn.Now(), time.Minute)
		a.Kept("ann", task, 50*time.Millisecond)
		a.End("ann", task)
	}
	a.End("ann", "t1")
	check("many were refused", 8, true)
}

// serve has an agent serve tasks one after the other, each of which keeps its slot for so long, of that with
// its prompt.
func (y *yard) serve(a *Agent, n int, kept, prompt time.Duration) {
	for i := range n {
		task := fmt.Sprint(y.turn.Now(), i)
		a.Begin("ann", task, y.turn.Now(), time.Minute)
		a.Computes(y.turn.Nano(), 1000, prompt, prompt)
		y.pass(kept)
		a.Computed("ann", task, prompt)
		a.Kept("ann", task, kept)
		a.End("ann", task)
	}
	y.Register(a, *a.Reg()) // it is heard of
}

// The seats of an agent are of what its own tasks took, whatever comes of those of another of its class, or
// of its rivals' words on these.
func TestAnAgentsOwnTasksSayWhatKeepsItBusy(t *testing.T) {
	y := newYard(t)
	a, b := y.join("a"), y.join("b")
	for _, x := range []*Agent{a, b} {
		x.Keeps(pace{})
		reg := *x.Reg()
		reg.Slots = 32
		y.Register(x, reg)
	}
	check := func(why string, x *Agent, want int) {
		t.Helper()
		if got, bound := x.slots(); got != want || bound != (want < 32) {
			t.Errorf("%s: %d seats, bound: %v, want %d", why, got, bound, want)
		}
	}
	y.serve(a, 1, time.Second, time.Second)
	check("the first says little", a, 24)
	y.serve(a, 100, 3900*time.Millisecond, time.Second)
	check("four times the prompt", a, 8)
	if a.Service() != b.Service() {
		t.Fatal("they are of two classes")
	}
	check("nothing is known of b", b, 32)
	y.serve(b, 200, 6*time.Second, 6*time.Second)
	check("prompts alone", b, 6)
	check("another's late first tokens", a, 8)
	y.serve(a, 100, 4*time.Second, 100*time.Millisecond)
	check("short prompts", a, 32)
	y.serve(a, 1, 10*time.Minute, 10*time.Minute)
	y.serve(a, 40, 4*time.Second, 100*time.Millisecond)
	check("one that is a thousand times as long, and 40 more", a, 32)
	y.serve(a, 100, 3900*time.Millisecond, time.Second)
	check("as at first", a, 8)
	y.Register(a, y.registration("a", 2))
	if got, _ := a.slots(); got != 2 || a.own != 0 {
		t.Errorf("of another engine %d seats, and %v is known", got, a.own)
	}
}

// Among many short tasks long ones are no outliers: where one of twenty keeps its slot for ten seconds, and
// the others for next to nothing, the mean is that of all, and as many prompts keep the agent busy.
func TestAFewLongTasksAmongMany(t *testing.T) {
	y := newYard(t)
	a := y.join("a")
	a.Keeps(pace{})
	reg := *a.Reg()
	reg.Slots = 64
	y.Register(a, reg)
	for range 20 {
		y.serve(a, 1, 10*time.Second, 10*time.Millisecond)
		y.serve(a, 19, 40*time.Millisecond, 10*time.Millisecond)
		if own, kept := a.Service().Own(), a.Service().Mean(); min(a.own, own, kept) < 300*time.Millisecond {
			t.Fatalf("538 ms on the mean: %v here, %v and %v in the class", a.own, own, kept)
		}
		if got, _ := a.slots(); got < 32 {
			t.Errorf("%d seats, with tasks that take fifty times as long as their prompts", got)
		}
	}
}
