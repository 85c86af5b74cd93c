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
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	const agents, full, others = 512, maxLooks/512 + 20, 520
	h := newHouse(t, func(c *Config) {
		c.Deadline, c.Silence, c.Seed.Every = 10*time.Minute, time.Hour, 0
		c.MaxWaiting, c.MaxOpen, c.MaxPerClient, c.MaxWaitingPerClient = 10_000, 16_000, 16_000, 10_000
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

// Many agents that are free do not keep a round from all who wait where these may not go there: of 2,000 who
// wait for the one agent of their model, or with a context as long as theirs, the slot goes to the one that
// is worth most, though it came last.
func TestAnIdleFleetHidesNobodyWhoMayNotGoThere(t *testing.T) {
	for name, change := range map[string]func(*bus.Task){
		"of another model": of("llama"),
		"of less context": func(m *bus.Task) {
			m.Prompt.Tokens, m.Prompt.Bytes, m.Prompt.Prefixes = 9000, 36_000,
				[]bus.PrefixHash{{Bytes: 36_000}}
		},
	} {
		h := crowdHouse(t, 2048, func(c *Config) { c.Silence = time.Hour })
		reg := registration("a-1", "llama", 1, 0.9, card(1, 1, 4))
		reg.MaxModelLen = 32_768
		h.must(h.n.Join(h.now, reg))
		h.must(h.step(h.task("ann", "runs", change)))
		runs := h.take("ann", "runs")
		h.accept(runs)
		for i := range 320 {
			h.join(fmt.Sprintf("b-%03d", i), "qwen", 1, 0.9, card(1, 1, 4))
		}
		for i := range 2000 {
			client := fmt.Sprint("c", i%8)
			h.prepaid[client] = 1000 * market.Credit
			h.must(h.n.Step(h.now, h.task(client, fmt.Sprint("cheap-", i), change, worth(market.Credit/50))))
			h.now = h.now.Add(time.Microsecond)
			if i%50 == 0 {
				h.run()
			}
		}
		h.must(h.step(h.task("bob", "dear", change, worth(20*market.Credit))))
		h.pass(time.Second)
		if h.n.waiting != 2001 || h.running() != "" {
			t.Fatalf("agents %s: %d wait, dispatched are %s", name, h.n.waiting, h.running())
		}
		h.ends(runs)
		h.pass(h.n.cfg.Batch.MaxWait)
		if h.running() != "bob/dear>a-1" || h.lastRound().Round.Pruned.Beyond != 0 {
			t.Errorf("agents %s: the slot went to %s, pruned are %+v", name, h.running(),
				h.lastRound().Round.Pruned)
		}
	}
}
