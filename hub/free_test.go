package hub_test

import (
	"fmt"
	"testing"
	"time"

	"souk/bus"
	"souk/market"
)

// While slots are free all pay the card, whatever others said before that their tasks are worth.
func TestNoBidOfBeforeIsPaidWhereSlotsAreFree(t *testing.T) {
	h := newHouse(t, nil)
	for _, id := range []string{"a-1", "a-2"} {
		h.join(id, "llama", 8, 0.9, card(1, 1, 4))
	}
	long := func(m *bus.Task) {
		m.Prompt.Tokens, m.Prompt.Bytes, m.Prompt.Prefixes[0].Bytes = 2000, 8000, 8000
	}
	for i := range 2 {
		h.must(h.step(h.task("bob", fmt.Sprint("dear-", i), long, worth(90*market.Credit))))
	}
	ends := h.dispatched
	var paid, card market.Credits
	for second := range 60 {
		h.dispatched = nil
		for c := range 6 {
			h.prepaid[fmt.Sprint("c", c)] = 1000 * market.Credit
			h.must(h.step(h.task(fmt.Sprint("c", c), fmt.Sprint("t-", second), long)))
		}
		if h.pass(100 * time.Millisecond); len(h.dispatched) != 6 {
			t.Fatalf("second %d: of 6 tasks %d begin at once beside %d others, of 16 slots", second,
				len(h.dispatched), len(ends))
		}
		begun := h.dispatched
		for _, d := range begun {
			paid, card = paid+d.Premium+d.Quoted, card+d.Quoted
		}
		for _, d := range ends {
			h.serve(d, market.Usage{Prompt: 2000, Output: 50})
		}
		ends = begun
		h.pass(900 * time.Millisecond)
		for _, id := range []string{"a-1", "a-2"} {
			h.must(h.summary(id, nil))
		}
	}
	if paid != card {
		t.Errorf("%s are paid for what costs %s by card", paid, card)
	}
	h.audited()
}
