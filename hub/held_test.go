package hub_test

import (
	"fmt"
	"testing"
	"time"

	"souk/bus"
	"souk/hub"
	"souk/market"
)

// What fair keeps free for a client that was here a moment ago others have once it stays away: by time alone,
// although nothing comes and nothing ends.
func TestWhatFairHoldsHasASlotByAndBy(t *testing.T) {
	h := newHouse(t, func(c *hub.Config) {
		c.Policies.Place, c.Prewarm.Every, c.Silence = "fair", 0, time.Hour
	})
	h.join("a-1", "llama", 8, 0.9, card(1, 1, 4))
	long := func(m *bus.Task) { m.MaxTokens = 4000 }
	for i := range 6 {
		h.must(h.step(h.task("bob", fmt.Sprint("b", i), inNoHurry)))
	}
	for i := range 10 {
		h.must(h.step(h.task("ann", fmt.Sprint("t", i), inNoHurry, long)))
	}
	for i := range 6 {
		h.serve(h.take("bob", fmt.Sprint("b", i)), market.Usage{Prompt: 100, Output: 5})
	}
	ann := func() (runs int) {
		for _, d := range h.dispatched {
			if !h.n.Accepted(d.Hold) {
				h.accept(d)
			}
			runs++
		}
		return runs
	}
	h.pass(time.Second)
	if runs := ann(); runs != 4 {
		t.Fatalf("beside one that has just had six of eight slots %d tasks run, want 4", runs)
	}
	for range 54 {
		h.pass(time.Second)
		ann()
	}
	if runs := ann(); runs != 7 {
		t.Errorf("after a minute %d tasks run, want 7: who was here has faded to less than one", runs)
	}
}

// A task of a kind of engines that are all taken goes to one of the other kind after a second, although
// nothing comes and nothing ends.
func TestWhatPDKeepsFromASlotHasItBySecond(t *testing.T) {
	h := newHouse(t, func(c *hub.Config) {
		c.Policies.Place, c.Prewarm.Every, c.Silence = "pd", 0, time.Hour
	})
	h.join("a-1", "llama", 1, 0.9, card(1, 1, 4))
	split := registration("a-2", "llama", 1, 0.9, card(1, 1, 4))
	split.Features = append(split.Features, bus.Split)
	h.must(h.register(split))
	reads := func(m *bus.Task) { m.Role, m.Declared = "reads", true }
	for i := range 6 {
		id := fmt.Sprint("r", i)
		h.must(h.step(h.task("ann", id, inNoHurry, reads)))
		h.serve(h.take("ann", id), market.Usage{Prompt: 2000, Output: 5})
	}
	h.must(h.step(h.task("ann", "one", inNoHurry, reads)))
	if d := h.take("ann", "one"); h.agentOf(d) != "a-2" {
		t.Fatalf("a task that reads is at %s", h.agentOf(d))
	} else {
		h.accept(d)
	}
	h.must(h.step(h.task("ann", "two", inNoHurry, reads)))
	if n := len(h.dispatched); n > 0 {
		t.Fatalf("another one is at %s", h.agentOf(h.dispatched[0]))
	}
	for range 25 { // "late" is a second
		h.pass(100 * time.Millisecond)
	}
	if n := len(h.dispatched); n != 1 || h.agentOf(h.dispatched[0]) != "a-1" {
		t.Errorf("after two seconds %d tasks are placed beside a free engine of the other kind", n)
	}
}
