package fleet

import (
	"testing"
	"time"

	"souk/hub/estimate"
)

// A snapshot has the agents that take tasks, with what is known of their slots, and all that runs; what is
// told of a fleet later changes none that was taken.
func TestSnapshot(t *testing.T) {
	y := newYard(t)
	for _, id := range []string{"a", "b", "c"} {
		a := y.join(id)
		a.Keeps(pace{})
		a.Sell(0, true)
	}
	other := y.registration("c", 1)
	other.Model = "qwen"
	y.Register(y.Find("c"), other)
	a, b, c := y.Find("a"), y.Find("b"), y.Find("c")
	c.Service().Computed(time.Second)
	for range 200 {
		c.Service().Kept(time.Minute)
		c.Service().Ended(time.Minute / 2)
	}
	a.Begin("ann", "t1", y.turn.Now(), time.Minute)
	b.Begin("bob", "t1", y.turn.Now(), time.Minute)
	c.Begin("ann", "t2", y.turn.Now(), time.Minute)
	y.pass(4 * time.Second)
	for _, x := range y.All() {
		y.says(x, 1, 1)
	}
	b.Unready()
	shown := ""
	take := func() (x estimate.Snapshot) {
		shown = ""
		y.Snapshot(&x, y.turn.Now(), y.turn.Nano(), func(a *Agent) { shown += a.ID() })
		return x
	}
	x := take()
	if len(x.Agents) != 2 || shown != "ac" || x.Agents[0].ID != "a" ||
		x.Agents[1].ID != "c" || len(x.Classes) != 2 {
		t.Fatalf("%+v", x)
	}
	if got := x.Agents[0]; got.Slots != 2 || got.Running != 1 || got.Free != 1 || got.Overdue != 0 ||
		got.Since != y.begun.UnixNano() || x.Classes[got.Class].Service != usualService {
		t.Errorf("%+v", got)
	}
	if got := x.Classes[x.Agents[1].Class]; got.Prefill != time.Second || got.Service < 50*time.Second ||
		got.Own < 25*time.Second || got.Own > 31*time.Second {
		t.Errorf("tasks of another class take a minute: %+v", got)
	}
	at := map[string]int32{}
	for _, run := range x.Runs {
		if run.For != 4*time.Second {
			t.Errorf("%+v", run)
		}
		at[run.Client] += run.Agent
	}
	if len(x.Runs) != 3 || at["ann"] != 0+1 || at["bob"] != -1 {
		t.Errorf("%+v", x.Runs)
	}
	y.pass(6 * time.Second)
	y.says(a, 2, 1)
	late := take()
	if len(late.Agents) != 1 || late.Agents[0].Overdue != 1 || late.Agents[0].Age != 10*time.Second {
		t.Errorf("the other is silent, and what runs has done so for three times as long as is usual: %+v", late)
	}
	if len(x.Agents) != 2 || x.Agents[0].Overdue != 0 {
		t.Error("one that was taken has changed")
	}
}
