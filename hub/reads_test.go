package hub

import (
	"testing"
	"time"

	"souk/bus"
	"souk/market"
)

// An agent that counted a prompt before may have room for it where the estimate of its length alone has not.
// Its charge is then of this task, like that of any other agent, and not of whatever was weighed before.
func TestAPairIsChargedByItsOwnQuote(t *testing.T) {
	h := newHouse(t, func(c *Config) { c.Batch.Eager, c.Batch.ClosesAt, c.Silence = false, 1000, time.Hour })
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
	h.n.collect()
	h.n.meet()
	if len(h.n.round.pairs) != 2 {
		t.Fatalf("%d pairs, want one of each task", len(h.n.round.pairs))
	}
	for _, p := range h.n.round.pairs {
		x, a := h.n.round.tasks[p.task], h.n.round.agents[p.agent]
		q := h.n.quoted(x, a, h.n.backlog(a))
		if p.prefill != q.computes || p.cost != q.cost || p.half != a.predictor.Half(q.forecast.TTFT) {
			t.Errorf("%s may have a slot of %s, and what it is charged there is made of another's quote", x.id,
				a.id)
		}
	}
}
