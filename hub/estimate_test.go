package hub_test

import (
	"testing"

	"souk/bus"
)

// What a task is worth by default, what is forecast of it and whether it fits an agent are by the estimate of
// its tokens: the bound, which its hold is made for, changes none of them.
func TestTheBoundIsForTheHoldAlone(t *testing.T) {
	type seen struct {
		worth, quoted, premium, price, first int64
		prompt, output, maxTokens            int
	}
	of := func(text int) (s seen, most int) {
		h := newHouse(t, nil)
		h.measured("a-1", 1, card(1, 1, 10))
		h.must(h.step(h.task("ann", "t1", func(m *bus.Task) { m.Prompt.Text, m.Prompt.Pieces = text, 1 })))
		d := h.take("ann", "t1")
		_, _, hold := h.n.Held(d.Hold)
		return seen{int64(h.n.Terms("ann", "t1").Worth), int64(d.Quoted), int64(d.Premium),
			int64(d.SlotPrice), d.FirstMS, hold.Prompt, hold.Output, d.MaxTokens}, d.PromptMost
	}
	short, few := of(100) // of 100 tokens by the estimate
	long, many := of(4000)
	if short != long {
		t.Errorf("a prompt of 100 bytes: %+v; of 4000, by the same estimate: %+v", short, long)
	}
	if many <= few {
		t.Errorf("the holds cover %d tokens of 100 bytes and %d of 4000", few, many)
	}
}
