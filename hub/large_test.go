package hub_test

import (
	"bytes"
	"testing"

	"souk/bus"
)

// A task whose body stays with its sender goes to another agent like any other where its agent fails it, and
// that one is told where the body is.
func TestALargeBodyGoesToAnotherAgent(t *testing.T) {
	h := taught(t, 2, 1, nil)
	large := bus.LargeOf(bytes.Repeat([]byte(" "), bus.MaxBody+1))
	h.must(h.step(h.task("ann", "t", func(m *bus.Task) { m.Body, m.Large = nil, large })))
	d := h.take("ann", "t")
	first := h.agentOf(d)
	h.accept(d)
	h.give(d, first)
	again := h.take("ann", "t")
	if h.agentOf(again) == first || again.Task.Large == nil ||
		!bytes.Equal(again.Task.Large.SHA256, large.SHA256) {
		t.Errorf("after %s it goes to %s, with %+v", first, h.agentOf(again), again.Task.Large)
	}
}
