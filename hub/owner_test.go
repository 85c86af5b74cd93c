package hub_test

import (
	"fmt"
	"testing"
	"time"

	"souk/bus"
)

// Two doors have one task in hand, and ask two hubs whether they know it, each before it places it: in
// whatever order their questions come, one of them alone may place it without asking once more. So may a door
// that nobody else asked beside, and, after a while, one whose rival is gone.
func TestTwoDoorsThatAskForOneTask(t *testing.T) {
	type world struct{ one, two *house }
	make := func() world {
		w := world{newHouse(t, nil), newHouse(t, nil)}
		for _, h := range []*house{w.one, w.two} {
			h.join("a-1", "llama", 4, 0.9, card(1, 1, 4))
			h.pass(10 * time.Second)
		}
		return w
	}
	ask := func(h *house, door string) {
		h.must(h.step(&bus.Task{Client: "ann", ID: "t1", Door: door, Inbox: "inbox." + door}))
		if a := h.messages[len(h.messages)-1].Body.(*bus.Answer); a.Result.Code != bus.CodeEmptyPrompt ||
			a.Lookup == nil || a.Lookup.Epoch != 7 {
			t.Errorf("a question is answered %+v", a)
		}
	}
	takes := func(h *house, door string) bool {
		before := h.n.Stats().Looks
		h.must(h.step(h.task("ann", "t1", func(m *bus.Task) {
			m.Door, m.LastStatus = door, &bus.LastStatus{Epoch: 7, Seq: h.n.Status().Seq}
		})))
		return h.n.Stats().Looks == before
	}
	for order := range 16 {
		t.Run(fmt.Sprint("order ", order), func(t *testing.T) {
			w := make()
			both := func(h *house, swap bool) {
				doors := [2]string{"door-a", "door-b"}
				if swap {
					doors[0], doors[1] = doors[1], doors[0]
				}
				ask(h, doors[0])
				ask(h, doors[1])
			}
			both(w.one, order&1 > 0)
			both(w.two, order&2 > 0)
			a, b := w.one, w.two
			if order&4 > 0 {
				a, b = b, a
			}
			var first, second bool
			if order&8 > 0 {
				second, first = takes(b, "door-b"), takes(a, "door-a")
			} else {
				first, second = takes(a, "door-a"), takes(b, "door-b")
			}
			if !first || second {
				t.Errorf("door-a places it: %v, door-b: %v, want the first alone", first, second)
			}
		})
	}
	h := make().one
	ask(h, "door-a")
	if takes(h, "door-b") {
		t.Error("a door that has not asked places a task that another asked for")
	}
	if h.pass(5 * time.Second); takes(h, "door-b") {
		t.Error("so it does after five seconds")
	}
	for range 6 {
		h.pass(time.Second)
	}
	if !takes(h, "door-b") {
		t.Error("it may not, though nobody asked for long")
	}
	h = make().one
	if ask(h, "door-b"); !takes(h, "door-b") {
		t.Error("a door may not place what it alone asked for")
	}
}

// A task that an agent refused, and its hub with it, may be with another hub: who asks for it is to find that
// one, and not the refusal; also where the hub was started again meanwhile.
func TestATaskThatWasRefusedIsNotKnown(t *testing.T) {
	for _, c := range []struct {
		code bus.Code
		want string
	}{
		{bus.CodeNoSlot, "empty_prompt"}, {bus.CodePromptTooLong, "empty_prompt"},
		{bus.CodeEngineRefused, "id_conflict"}, {"", "id_conflict"},
	} {
		h := newHouse(t, nil)
		h.join("a-1", "llama", 4, 0.9, card(1, 1, 4))
		h.must(h.step(h.task("ann", "t1")))
		h.n.Drain(h.now) // so that it does not try the task again
		if d := h.take("ann", "t1"); c.code == "" {
			h.accept(d)
		} else {
			h.refuse(d, c.code)
		}
		for i, life := range []string{"this", "the next"} {
			if i > 0 {
				h.restart()
				h.must(h.n.Lead(h.now, 8))
			}
			h.must(h.step(&bus.Task{Client: "ann", ID: "t1", Door: "other", Inbox: "inbox.asks"}))
			if got := h.answerTo("inbox.asks"); got != c.want {
				t.Errorf("after %q, in %s life of the hub: the question is answered %s, want %s", c.code, life,
					got, c.want)
			}
			h.restart()
		}
	}
}

// A task that was sent to a hub before it stood still comes late by the hub's clock, though the hub has said
// nothing since that its door could have missed: another door may have placed it, as the hub seemed gone.
func TestATaskFromBeforeTheHubStoodStill(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-1", "llama", 4, 0.9, card(1, 1, 4))
	h.pass(10 * time.Second)
	heard := &bus.LastStatus{Epoch: 7, Seq: h.n.Status().Seq}
	h.now = h.now.Add(6 * time.Second)
	h.n.Slept(h.now)
	h.must(h.step(h.task("ann", "t1", func(m *bus.Task) { m.LastStatus = heard })))
	if got := h.answerTo("inbox.ann.t1"); got != "unavailable" {
		t.Fatalf("it is answered %q", got)
	}
	l := h.messages[len(h.messages)-1].Body.(*bus.Answer)
	h.must(h.step(h.task("ann", "t1", func(m *bus.Task) { m.LastStatus = l.Lookup })))
	if h.n.Stats().Open != 1 {
		t.Error("it is not taken once its door has asked all hubs")
	}
}
