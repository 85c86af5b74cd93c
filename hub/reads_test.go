package hub_test

import (
	"testing"
	"time"

	"souk/bus"
	"souk/hub"
	"souk/market"
)

// An agent that counted a prompt before may have room for it where the estimate of its length alone has not.
// Its charge is then of this task, like that of any other agent, and not of whatever was weighed before.
func TestAPairIsChargedByItsOwnQuote(t *testing.T) {
	h := newHouse(t, func(c *hub.Config) {
		c.Batch.Eager, c.Batch.ClosesAt, c.Silence = false, 1000, time.Hour
	})
	h.join("a-1", "llama", 2, 0.9, card(1, 1, 4))
	h.join("a-2", "qwen", 2, 0.9, card(1, 1, 4))
	long := func(tokens int) func(*bus.Task) {
		return func(m *bus.Task) {
			m.Session, m.Model = "s", "llama"
			m.Prompt.Tokens, m.Prompt.Bytes = tokens, 4*tokens
			m.Prompt.Prefixes = []bus.PrefixHash{{Bytes: 32_000, Hash: 7}}
		}
	}
	h.must(h.step(h.task("ann", "first", long(8000))))
	h.pass(20 * time.Millisecond)
	h.serve(h.take("ann", "first"), market.Usage{Prompt: 6000, Output: 40})
	h.must(h.step(h.task("bob", "short", func(m *bus.Task) { m.Model = "qwen" })))
	h.must(h.step(h.task("ann", "again", long(9500))))
	if pairs, err := h.n.Pairs(); pairs != 2 || err != nil {
		t.Errorf("%d pairs, want one of each task; %v", pairs, err)
	}
}
