package hub_test

import (
	"fmt"
	"testing"
	"time"

	"souk/bus"
	"souk/hub"
	"souk/hub/regime"
	"souk/ledger"
	"souk/market"
)

// What a regime charges may be more than a free slot is worth to a task. When the regime ends the task has
// the slot, though nothing else happens.
func TestARegimeThatEndsIsNewsToWhoeverItCharged(t *testing.T) {
	h, _ := crowded(t, 40, 25*time.Second, alike, func(c *hub.Config) {
		c.Regimes.Adapt = true // what the cache saves is charged in full
		c.Regimes.Transition, c.Regimes.Saturated = regime.Params{Overlap: 0}, regime.Params{Overlap: 0}
		c.Silence, c.Suspect, c.Prewarm.Every = time.Hour, time.Hour, 0
	})
	for _, x := range h.openHolds() { // the crowd leaves
		h.must(h.step(&bus.Completion{Agent: x.Agent, Boot: 1,
			Hold:   ledger.HoldID("hub-math", x.Round, x.Slot),
			Client: x.Client, Task: x.Task, Outcome: bus.OutcomeFailed, Code: bus.CodeEngineFailed}))
	}
	h.n.RefuseWaiting()
	h.leave("a-2")
	dear := registration("a-1", "llama", 4, 0.9, card(100, 1, 4))
	h.must(h.register(dear))
	h.must(h.summary("a-1", func(s *bus.Summary) { s.Price, s.Slots = dear.Price, 4 }))
	ask := func(id string, w market.Credits) {
		delta, ms, most := 0.9, int64(600_000), 10*market.Credit
		h.must(h.step(h.task("ann", id, func(m *bus.Task) {
			m.Session, m.Prompt.Tokens, m.Prompt.Bytes, m.MaxTokens = "s", 6000, 24_000, 10
			m.Prompt.Prefixes = []bus.PrefixHash{{Bytes: 23_000, Hash: 77}}
			m.Terms = bus.Terms{Worth: &w, Delta: &delta, PatienceMS: &ms, MaxPrice: &most}
			m.DeadlineMS = h.now.Add(10 * time.Minute).UnixMilli()
		})))
	}
	h.dispatched = nil
	ask("t0", 10*market.Credit)
	h.serve(h.take("ann", "t0"), market.Usage{Prompt: 6000, Output: 10})
	h.pass(50 * time.Millisecond)
	ask("t1", market.Credit*4/10) // more than what is left to pay, and less than all of the prompt
	if h.n.Regime() == regime.Below || h.n.Stats().Waiting != 1 || h.n.Stats().Holds > 0 {
		t.Fatalf("%v, %d wait and %d run: the test sees nothing", h.n.Regime(), h.n.Stats().Waiting, h.n.Stats().Holds)
	}
	for h.n.Stats().Waiting > 0 {
		h.pass(max(0, h.wake.Sub(h.now)))
	}
	if got := fmt.Sprint(h.n.Regime(), " ", h.running()); got != "below ann/t1>a-1" {
		t.Errorf("%s, and the task was told %q", got, h.answerTo("inbox.ann.t1"))
	}
	h.audited()
}
