package hub

import (
	"fmt"
	"testing"
	"time"

	"souk/bus"
	"souk/market"
)

// More wait for an agent that is full than a round can look at beside the many agents that are free. Those
// behind them are met in the next round of the same moment, also while something ends each millisecond.
func TestWhoARoundCouldNotMeetIsMetBeforeTheNextNews(t *testing.T) {
	const agents, full, others = 512, maxPairs/512 + 20, 520
	h := newHouse(t, func(c *Config) {
		c.Deadline, c.Silence, c.Seed.Every = 10*time.Minute, time.Hour, 0
		c.MaxWaiting, c.MaxOpen, c.MaxPerClient, c.MaxWaitingPerClient = 4000, 8000, 8000, 4000
		c.Suspect = time.Hour
	})
	h.prepaid["ann"] = 1_000_000 * market.Credit
	h.join("full", "qwen", 1, 0.9, card(1, 1, 4))
	summary := func(id string, seq uint64, state string) {
		h.must(h.n.Step(h.now, &bus.Summary{Agent: id, Boot: 1, Seq: seq, State: state, Slots: 1,
			Price: card(1, 1, 4)}))
	}
	for i := range agents {
		id := fmt.Sprintf("a-%03d", i)
		h.must(h.n.Join(h.now, registration(id, "llama", 1, 0.9, card(1, 1, 4))))
		summary(id, 1, bus.StateUnhealthy)
	}
	ask := func(id, model string) {
		h.must(h.n.Step(h.now, h.task("ann", id, of(model), worth(market.Credit))))
	}
	ask("runs", "qwen")
	h.run()
	for i := range full {
		ask(fmt.Sprint("q", i), "qwen")
	}
	for i := range others {
		ask(fmt.Sprint("l", i), "llama")
	}
	h.run()
	h.pass(20 * time.Millisecond)
	if h.n.waiting != full+others {
		t.Fatalf("%d wait, want %d", h.n.waiting, full+others)
	}
	h.dispatched = nil
	for i := range agents {
		summary(fmt.Sprintf("a-%03d", i), 2, bus.StateReady)
	}
	for range 5 {
		h.n.news()
		h.run()
		h.pass(time.Millisecond)
	}
	if len(h.dispatched) < agents {
		t.Errorf("%d of %d agents that are free were given a task", len(h.dispatched), agents)
	}
}
