package hub_test

import (
	"testing"
	"time"

	"souk/bus"
)

// A prompt of which it is not sure that the shorter context has room for it goes where it surely has: else
// its client would be refused by the one engine what the other takes.
func TestAPromptNearAContextGoesToALongerOne(t *testing.T) {
	for tokens, want := range map[int]string{300: "small", 380: "big", 511: "big"} {
		h := newHouse(t, nil)
		for id, context := range map[string]int{"small": 512, "big": 8192} {
			reg := registration(id, "llama", 1, 0.9, card(1, 1, 2))
			if reg.MaxModelLen = context; id == "big" {
				reg.Price = card(1, 1, 4)
			}
			h.must(h.register(reg))
		}
		h.must(h.step(h.task("ann", "t1", func(m *bus.Task) {
			m.Model, m.MaxTokens, m.Prompt.Tokens = "llama", 8, tokens
		})))
		if got := h.agentOf(h.take("ann", "t1")); got != want {
			t.Errorf("a prompt of about %d tokens goes to %s, want %s", tokens, got, want)
		}
	}
}

// Of two agents of a model the cheaper has a context of 512 tokens, and the other of 8192, with one slot
// each. A task goes to none that would cut its answer while the other would not, free or not; only where all
// would it is cut, where it is longest.
func TestAnAnswerIsCutOnlyWhereAllWouldCutIt(t *testing.T) {
	wants := func(tokens int) func(*bus.Task) { return func(m *bus.Task) { m.MaxTokens = tokens } }
	small, big := card(1, 1, 2), card(1, 1, 4)
	for _, c := range []struct {
		name   string
		tokens int
		then   func(*house) // before it
		want   string       // where it goes
		cut    bool
	}{
		{"both have room", 200, nil, "small", false},
		{"one has", 2000, nil, "big", false},
		{"none has", 20_000, nil, "big", true},
		{"none is named", 0, nil, "small", false},
		{"it has left", 2000, func(h *house) { h.leave("big") }, "small", true},
		{"it drains", 2000, func(h *house) {
			h.must(h.summary("big", func(s *bus.Summary) { s.State = bus.StateDraining }))
		}, "small", true},
		{"its engine is down", 2000, func(h *house) {
			reg := h.agents["big"].Registration
			reg.State = bus.StateUnhealthy
			h.must(h.register(reg))
		}, "small", true},
		{"it serves another model", 2000, func(h *house) {
			reg := h.agents["big"].Registration
			reg.Model = "qwen"
			h.must(h.register(reg))
		}, "small", true},
	} {
		h := newHouse(t, nil)
		for id, context := range map[string]int{"small": 512, "big": 8192} {
			reg := registration(id, "llama", 1, 0.9, small)
			if reg.MaxModelLen = context; id == "big" {
				reg.Price = big
			}
			h.must(h.register(reg))
		}
		if c.then != nil {
			c.then(h)
		}
		h.must(h.step(h.task("ann", "t1", func(m *bus.Task) { m.Model = "llama" }, wants(c.tokens))))
		d := h.take("ann", "t1")
		if got, cut := h.agentOf(d), d.MaxTokens < c.tokens; got != c.want || cut != c.cut {
			t.Errorf("%s: it goes to %s for %d tokens of %d, want %s", c.name, got, d.MaxTokens, c.tokens, c.want)
		}
	}

	h := newHouse(t, nil)
	for id, context := range map[string]int{"small": 512, "big": 8192} {
		reg := registration(id, "llama", 1, 0.9, small)
		reg.MaxModelLen = context
		h.must(h.register(reg))
	}
	h.must(h.step(h.task("ann", "t1", wants(2000))))
	first := h.take("ann", "t1")
	h.must(h.step(h.task("ann", "t2", wants(2000))))
	h.must(h.step(h.task("bob", "t1", wants(100))))
	if got := h.running(); got != "bob/t1>small" {
		t.Errorf("while the longer one is busy, %q run", got)
	}
	h.accept(first)
	h.ends(first)
	if got := h.running(); got != "ann/t2>big bob/t1>small" {
		t.Errorf("once it is free, %q run", got)
	}
	h.must(h.step(h.task("ann", "t3", wants(2000))))
	h.ends(h.take("bob", "t1"))
	h.leave("big")
	h.pass(time.Second)
	if h.running() != "ann/t2>big ann/t3>small" {
		t.Errorf("once it has left, %q run", h.running())
	}
}
