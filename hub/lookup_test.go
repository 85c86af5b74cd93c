package hub_test

import (
	"fmt"
	"testing"
	"time"

	"souk/bus"
)

// A hub takes a task from a door that has heard of it lately, or that says nothing of that, as its reader
// cannot ask another. Any other is to ask all hubs first, and its task is taken with the number that it is
// then given. It is this hub's clock alone that counts.
func TestADoorThatIsOutOfStep(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-1", "llama", 4, 0.9, card(1, 1, 4))
	h.pass(10 * time.Second)
	n := 0
	give := func(heard *bus.LastStatus) string {
		n++
		id := fmt.Sprint("t", n)
		h.must(h.step(h.task("ann", id, func(m *bus.Task) { m.LastStatus = heard })))
		return h.answerTo("inbox.ann." + id)
	}
	expect := func(what string, heard *bus.LastStatus, want string) {
		t.Helper()
		if got := give(heard); got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	last := func() *bus.LastStatus { return &bus.LastStatus{Epoch: 7, Seq: h.n.Status().Seq} }
	expect("that no other door can have", nil, "")
	expect("the last status", last(), "")
	expect("none", &bus.LastStatus{}, "unavailable")
	expect("of another epoch", &bus.LastStatus{Epoch: 6, Seq: 1 << 40}, "unavailable")
	old := last()
	seconds := func(n int) {
		for range n {
			h.pass(time.Second)
		}
	}
	seconds(3)
	expect("of some seconds ago", old, "")
	seconds(2)
	expect("of five seconds ago", old, "unavailable")
	l := h.messages[len(h.messages)-1].Body.(*bus.Answer)
	if l.Lookup == nil || *l.Lookup != *last() || l.Result.RetryMS == 0 {
		t.Errorf("it is told %+v", l)
	}
	expect("after it has asked", l.Lookup, "")
	if looks := h.n.Stats().Looks; looks != 3 {
		t.Errorf("%d looks are counted", looks)
	}
	first := old
	old = last() // the hub itself stops, and has said nothing since
	h.now = h.now.Add(time.Minute)
	expect("nothing was said since", old, "")
	// a task that is known is known, whatever its door has heard
	h.must(h.step(h.task("ann", "t1", func(m *bus.Task) { m.LastStatus = first })))
	h.want("inbox.ann.t1", "")
}

// A hub that has no room for a task after a while says so of one that nobody else asked for meanwhile: no
// other door had it placed, as that would have been told that it is here. After an outage of the bus it does
// not know who asked.
func TestATaskThatNobodyElseAskedFor(t *testing.T) {
	wait := func(m *bus.Task) { m.DeadlineMS = start.Add(30 * time.Second).UnixMilli() }
	for _, c := range []struct {
		name string
		when func(*house)
		want bool
	}{
		{"nobody asked", func(*house) {}, true},
		{"its reader asked another door", func(h *house) {
			h.must(h.step(h.task("ann", "t1", wait, func(m *bus.Task) { m.Door = "another" })))
		}, false},
		{"its door sent it again", func(h *house) { h.must(h.step(h.task("ann", "t1", wait))) }, true},
		{"another door asked whether it is here", func(h *house) {
			h.must(h.step(&bus.Task{Client: "ann", ID: "t1", Inbox: "inbox.door"}))
		}, false},
		{"the bus was away", func(h *house) {
			h.pass(23 * time.Second)
			h.n.Hears(h.now, false)
			h.pass(time.Second)
			h.n.Hears(h.now, true)
		}, false},
		{"the bus was away long ago", func(h *house) {
			h.n.Hears(h.now, false)
			h.n.Hears(h.now, true)
			h.pass(10 * time.Second)
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHouse(t, nil)
			h.join("a-1", "llama", 1, 0.9, card(1, 1, 4))
			h.must(h.step(h.task("bob", "long")))
			h.must(h.step(h.task("ann", "t1", wait)))
			h.pass(time.Second)
			c.when(h)
			for range 40 {
				h.pass(time.Second)
			}
			for _, l := range h.messages {
				if a, ok := l.Body.(*bus.Answer); ok && l.Subject == "inbox.ann.t1" && a.Result != nil {
					if a.SoleOwner != c.want {
						t.Errorf("answered %s, alone %v, want %v", a.Result.Code, a.SoleOwner, c.want)
					}
					return
				}
			}
			t.Error("it had no answer")
		})
	}
}
