package hub_test

import (
	"fmt"
	"testing"
	"time"

	"souk/bus"
	"souk/hub"
	"souk/market"
)

// On a fleet of which nobody knows yet how long answers are, tasks come faster than they end. While slots
// are free none of them waits long: where one stays free, another would add nothing, whatever keeps tasks
// from it.
func TestNobodyWaitsBesideSlotsOfAColdFleet(t *testing.T) {
	h := newHouse(t, func(c *hub.Config) { c.Silence = time.Hour })
	for i := range 4 {
		h.join(fmt.Sprint("a-", i), "llama", 64, 0.9, card(1, 1, 4))
	}
	h.prepaid["ann"], h.prepaid["bob"] = 100_000*market.Credit, 100_000*market.Credit
	const tasks = 250
	began := 0
	begin := func() {
		for _, d := range h.dispatched {
			h.accept(d)
			began++
		}
		h.dispatched = nil
	}
	for i := range tasks {
		h.must(h.step(h.task([]string{"ann", "bob"}[i%2], fmt.Sprint("t", i), func(m *bus.Task) {
			m.Prompt = bus.Prompt{Bytes: 4000, Messages: 1, Tokens: 1000,
				Prefixes: []bus.PrefixHash{{Bytes: 4000, Hash: uint64(i)}}}
		})))
		h.pass(20 * time.Millisecond)
		begin()
	}
	for range 100 {
		h.pass(50 * time.Millisecond)
		begin()
	}
	if began != tasks {
		t.Errorf("%d of %d tasks have begun, and %d slots are free", began, tasks, 256-began)
	}
}

// An agent that refuses a task is left alone for a moment. The task is not told meanwhile that nobody would
// do better than one who is dearer than it is worth.
func TestAnAgentThatIsLeftAloneForAMomentCounts(t *testing.T) {
	h := newHouse(t, nil)
	h.join("cheap", "llama", 4, 0.9, card(1, 1, 4))
	h.join("dear", "llama", 4, 0.9, card(5000, 5000, 20_000))
	h.must(h.step(h.task("ann", "t1")))
	h.refuse(h.take("ann", "t1"), bus.CodeNoSlot)
	h.pass(time.Second)
	h.want("inbox.ann.t1", "")
	if d := h.take("ann", "t1"); h.agentOf(d) != "cheap" {
		t.Errorf("it went to %s", h.agentOf(d))
	}
}
