package hub

import (
	"strings"
	"testing"
	"time"

	"souk/bus"
)

// What a task is told that was never placed holds for each round that it was in.
func TestARefusalSaysNothingThatOneRoundBelies(t *testing.T) {
	h := newHouse(t, nil)
	msg := h.task("ann", "t1")
	for _, test := range []struct {
		name  string
		task  task
		code  bus.Code
		false []string
	}{
		{"an agent refused it, and others were given what was free",
			task{refusals: 1, rounds: 3}, bus.CodeNoRoom, []string{"no other round"}},
		{"an agent refused it, and others were given what was free, or had it too late",
			task{refusals: 1, rounds: 3, short: true}, bus.CodeNoRoom, []string{"no other round"}},
		{"refused always", task{refusals: 2}, bus.CodeNoRoom, nil},
		{"others were given what was free", task{rounds: 1}, bus.CodeNoRoom, nil},
	} {
		test.task.msg = msg
		r := h.n.unplaced(&test.task)
		if r.Code != test.code {
			t.Errorf("%s: %s, want %s", test.name, r.Code, test.code)
		}
		for _, words := range test.false {
			if strings.Contains(r.Message, words) {
				t.Errorf("%s: it is told %q", test.name, r.Message)
			}
		}
	}
}

// A task whose deadline comes before the round that it is to be in is not told that no slot came free.
func TestADeadlineWithinTheWindowIsSaidTruly(t *testing.T) {
	h := newHouse(t, func(c *Config) { c.Batch.MaxWait = 500 * time.Millisecond })
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

// told is the last that an inbox was told, in words.
func (h *house) told(inbox string) (words string) {
	for _, l := range h.messages {
		if a, ok := l.Body.(*bus.Answer); ok && a.Result != nil && l.Subject == inbox {
			words = a.Result.Message
		}
	}
	return words
}

// Who waits beside a slot that is free all the time is told why it could not have it: with all that the agent
// has to compute its first token would come too late there.
func TestWhoWaitsBesideAFreeSlotIsToldWhy(t *testing.T) {
	h := newHouse(t, func(c *Config) { c.Silence = time.Hour })
	h.join("a-1", "llama", 2, 0.9, card(1, 1, 4))
	h.must(h.step(h.task("ann", "long", func(m *bus.Task) {
		m.Prompt.Tokens, m.Prompt.Bytes, m.Prompt.Prefixes[0].Bytes = 8000, 32_000, 32_000
	})))
	h.must(h.step(h.task("bob", "short", func(m *bus.Task) {
		m.DeadlineMS = h.now.Add(150 * time.Millisecond).UnixMilli()
	})))
	if a := h.n.lookup("a-1"); a.idle() != 1 {
		t.Fatalf("%d slots are free", a.idle())
	}
	h.pass(200 * time.Millisecond)
	const want = "its first token was expected after the deadline, with every slot that was free"
	if got := h.told("inbox.bob.short"); !strings.Contains(got, want) {
		t.Errorf("it is told %q", got)
	}
}
