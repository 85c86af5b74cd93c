package hub_test

import (
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/hub"
	"souk/market"
)

// What a task is told that was never placed holds for each round that it was in.
func TestARefusalSaysNothingThatOneRoundBelies(t *testing.T) {
	h := newHouse(t, nil)
	msg := h.task("ann", "t1")
	for _, test := range []struct {
		name  string
		never hub.Never
		false []string
	}{
		{"an agent refused it, and others were given what was free",
			hub.Never{Refusals: 1, Rounds: 3}, []string{"no other round"}},
		{"an agent refused it, and others were given what was free, or had it too late",
			hub.Never{Refusals: 1, Rounds: 3, Short: true}, []string{"no other round"}},
		{"refused always", hub.Never{Refusals: 2}, nil},
		{"others were given what was free", hub.Never{Rounds: 1}, nil},
	} {
		why := h.n.Unplaced(msg, test.never)
		for _, words := range test.false {
			if strings.Contains(why, words) {
				t.Errorf("%s: it is told %q", test.name, why)
			}
		}
	}
}

// A task whose deadline comes before the round that it is to be in is not told that no slot came free.
func TestADeadlineWithinTheWindowIsSaidTruly(t *testing.T) {
	h := newHouse(t, func(c *hub.Config) { c.Batch.MaxWait = 500 * time.Millisecond })
	h.join("a-1", "llama", 1, 0.9, card(1, 1, 4))
	soon := func(m *bus.Task) { m.DeadlineMS = h.now.Add(200 * time.Millisecond).UnixMilli() }
	h.must(h.n.Step(h.now, h.task("ann", "t1", soon)))
	h.must(h.n.Step(h.now, h.task("bob", "t2")))
	h.run()
	h.pass(300 * time.Millisecond)
	h.want("inbox.ann.t1", string(bus.CodeNoRoom))
	for _, l := range h.messages {
		if a, ok := l.Body.(*bus.Answer); ok && a.Result != nil &&
			!strings.Contains(a.Result.Message, "no round was held") {
			t.Errorf("it is told %q, and a slot is free all the time", a.Result.Message)
		}
	}
}

// Who waits beside a slot that is free all the time is told why it could not have it: what another of its
// round computes there takes until after its deadline. It is not told how long that takes.
func TestWhoWaitsBesideAFreeSlotIsToldWhy(t *testing.T) {
	h := newHouse(t, func(c *hub.Config) { c.Silence = time.Hour })
	h.join("a-1", "llama", 2, 0.9, card(1, 1, 4))
	long := func(m *bus.Task) {
		m.Prompt.Tokens, m.Prompt.Bytes, m.Prompt.Prefixes[0].Bytes = 8000, 32_000, 32_000
	}
	h.must(h.step(h.task("ann", "long", long)))
	h.serve(h.take("ann", "long"), market.Usage{Prompt: 8000, Output: 10})
	soon := func(m *bus.Task) { m.DeadlineMS = h.now.Add(150 * time.Millisecond).UnixMilli() }
	for _, id := range []string{"t1", "t2"} {
		h.must(h.n.Step(h.now, h.task("bob", id, soon)))
	}
	h.run()
	if free := h.n.FreeSlots(); free != 1 {
		t.Fatalf("%d slots are free", free)
	}
	h.pass(200 * time.Millisecond)
	const want = "the slots that would do, or the time to compute in them, went to others"
	if r := h.told("bob.t2"); r == nil || !strings.Contains(r.Message, want) {
		t.Errorf("it is told %+v", r)
	}
}

// Where a slot is free a task begins, however much others are believed to compute there: who waits for that,
// or is refused for it, would learn how much of their prompts was cached.
func TestWhatOthersComputeKeepsNobodyFromAFreeSlot(t *testing.T) {
	h := newHouse(t, func(c *hub.Config) { c.Silence = time.Hour })
	h.join("a-1", "llama", 2, 0.9, card(1, 1, 4))
	h.must(h.step(h.task("ann", "long", func(m *bus.Task) {
		m.Prompt.Tokens, m.Prompt.Bytes, m.Prompt.Prefixes[0].Bytes = 8000, 32_000, 32_000
	})))
	h.must(h.step(h.task("bob", "short", func(m *bus.Task) {
		m.DeadlineMS = h.now.Add(150 * time.Millisecond).UnixMilli()
	})))
	h.take("bob", "short")
}
