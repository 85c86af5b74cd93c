package hub_test

import (
	"testing"
	"time"

	"souk/bus"
	"souk/hub"
	"souk/market"
)

// twoModels is a house that admits sessions, where the agent of one model has blocks for a single session and
// that of the other for many.
func twoModels(t *testing.T, change func(*hub.Config)) *house {
	h := newHouse(t, func(c *hub.Config) {
		c.Sessions.Admit = true
		c.Deadline, c.Silence, c.Prewarm.Every = time.Minute, time.Hour, 0
		change(c)
	})
	for _, a := range []struct {
		model  string
		blocks int
	}{{"qwen", 22}, {"llama", 220}} {
		reg := registration("a-"+a.model, a.model, 4, 0.9, card(1, 1, 4))
		reg.BlockSize, reg.KVTokens = 10, 10*a.blocks
		h.must(h.register(reg))
		h.run()
	}
	return h
}

func of(model string) func(*bus.Task) { return func(m *bus.Task) { m.Model = model } }

// No agent of a task's model takes tasks, and all others have their caches full. It waits for one of its
// model, as long as it said that it would, and is not told of places.
func TestWhoWaitsForAnAgentOfItsModelWaitsForNoPlace(t *testing.T) {
	h := twoModels(t, func(*hub.Config) {})
	h.must(h.step(h.task("ann", "full", of("qwen"), worth(market.Credit))))
	h.accept(h.take("ann", "full"))
	state := func(seq uint64, state string) {
		h.must(h.step(&bus.Summary{Agent: "a-llama", Boot: 1, Seq: seq, State: state, Slots: 4,
			Price: card(1, 1, 4)}))
	}
	state(1, bus.StateUnhealthy)
	h.must(h.step(h.task("bob", "t1", of("llama"), worth(market.Credit))))
	for range 20 {
		h.pass(500 * time.Millisecond)
	}
	h.want("inbox.bob.t1", "")
	if h.n.SessionsWaiting() != 0 {
		t.Errorf("%d wait for a place", h.n.SessionsWaiting())
	}
	state(2, bus.StateReady)
	if got := h.running(); got != "bob/t1>a-llama" {
		t.Errorf("its agent is well again, and %q was handed out", got)
	}
	h.audited()
}

// A round has room for one task, and two come; another waits for a place at an agent that is full, while
// there are places elsewhere. The next round is of those that are left, and so on.
func TestRoundsOfOneMomentHaveAnEnd(t *testing.T) {
	h := twoModels(t, func(c *hub.Config) { c.Pricing, c.Batch.MaxBatch = market.PricingPosted, 1 })
	h.must(h.step(h.task("ann", "t0", of("qwen"), worth(market.Credit))))
	h.accept(h.take("ann", "t0"))
	h.must(h.step(h.task("ann", "t1", of("qwen"), worth(market.Credit))))
	if h.n.SessionsWaiting() != 1 {
		t.Fatalf("%d wait for a place, want one", h.n.SessionsWaiting())
	}
	solves := 0
	h.n.Limit = func() func() bool {
		if solves++; solves > 1000 {
			panic("rounds are held without an end")
		}
		return nil
	}
	h.pass(100 * time.Millisecond)
	h.must(h.n.Step(h.now, h.task("bob", "poor", of("llama"), worth(market.Credit/100))))
	h.must(h.n.Step(h.now, h.task("bob", "rich", of("llama"), worth(market.Credit))))
	h.run()
	if got := h.running(); got != "bob/poor>a-llama bob/rich>a-llama" {
		t.Errorf("handed out: %q", got)
	}
	h.audited()
}
