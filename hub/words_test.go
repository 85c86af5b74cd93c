package hub_test

import (
	"fmt"
	"testing"

	"souk/bus"
	"souk/market"
)

// An agent may say any word for why it failed. Counts are kept by code for ever, and shown under a label
// each, so words that are none of ours have one count together.
func TestWordsOfAgentsAreNotCountedOneByOne(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-1", "llama", 1, 0.9, card(1, 1, 4))
	for i := range 200 {
		id := fmt.Sprint("t-", i)
		h.must(h.step(h.task("ann", id)))
		d := h.take("ann", id)
		h.accept(d)
		m := completion("a-1", d, market.Usage{Prompt: 100, Output: 1})
		m.Outcome, m.Code, m.Relayed = bus.OutcomeFailed, bus.Code(fmt.Sprint("word", i)), 1
		h.must(h.step(m))
	}
	s := h.n.Stats()
	if len(s.Voids) != 1 || s.Voids[bus.CodeAgentFailed] != 200 || len(s.Tasks) != 1 {
		t.Errorf("%d counts of holds, %d of tasks: %v", len(s.Voids), len(s.Tasks), s.Voids)
	}
	h.audited()
}
