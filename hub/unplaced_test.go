package hub

import (
	"strings"
	"testing"

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
		{"waiting was better than slots worth having, and later slots were too dear",
			task{patient: 2, dear: 3}, bus.CodeNotWorthIt, []string{"never reached", "none came free"}},
		{"an agent refused it, and others were too dear",
			task{refusals: 1, dear: 3}, bus.CodeNotWorthIt, []string{"no other slot came free"}},
		{"an agent refused it, and waiting was better than what was free",
			task{refusals: 1, patient: 1}, bus.CodeNoRoom, []string{"no other slot came free"}},
		{"too dear always", task{dear: 3}, bus.CodeNotWorthIt, nil},
		{"refused always", task{refusals: 2}, bus.CodeNoRoom, nil},
		{"lost once", task{rounds: 1, dear: 3, patient: 3, refusals: 1}, bus.CodeOutbid, nil},
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
