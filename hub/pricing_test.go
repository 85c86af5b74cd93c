package hub_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/hub"
	"souk/ledger"
	"souk/market"
)

// Under posted prices whoever is first in the line has the slot, nobody pays for it, and an agent is paid its
// published tariff.
func TestPostedPrices(t *testing.T) {
	h := newHouse(t, func(c *hub.Config) {
		c.Pricing, c.Tariffs = market.PricingPosted, map[string]market.Credits{"h200": 5_000}
	})
	r := registration("a-1", "llama", 1, 1, card(1, 1, 1))
	r.Class, r.Owner = "h200", "lab"
	h.must(h.register(r))
	h.must(h.step(h.task("ann", "t0", worth(market.Credit))))
	d := h.take("ann", "t0")
	h.must(h.step(h.task("ann", "t1", worth(market.Credit))))
	h.must(h.step(h.task("bob", "t2", worth(3*market.Credit))))
	h.pass(20 * time.Millisecond)
	use := market.Usage{Prompt: 100, Output: 10}
	h.serve(d, use)
	if d.Tariff != 5_000 || d.Premium != 0 ||
		h.replica.Balance(ledger.Payable("a-1")) != card(1, 1, 1).Cost(use)+5_000 {
		t.Errorf("tariff %s, premium %s, the agent has %s", d.Tariff, d.Premium,
			h.replica.Balance(ledger.Payable("a-1")))
	}
	first := h.dispatched[0]
	if rec := h.lastRound(); len(h.dispatched) != 1 || first.Premium != 0 ||
		rec.Round.Rule.Pricing != market.PricingPosted || rec.Round.Rule.Instead != "" ||
		!slices.Equal(rec.Round.Sellers, []market.Seller{{Owner: "lab", Class: "h200", Tariff: 5_000}}) {
		t.Errorf("dispatched %s for %s, recorded %+v", h.running(), first.Premium, rec.Round)
	}
	h.serve(h.take(first.Task.Client, first.Task.ID), use)
	h.audited()
}

// A round whose solve has to be stopped has no prices. It is cleared at posted prices, is recorded as that,
// and passes the audit.
func TestAStoppedSolveIsPostedAndSaysSo(t *testing.T) {
	if testing.Short() {
		t.Skip("a second of computing")
	}
	h := newHouse(t, func(c *hub.Config) {
		c.Batch.ClosesAt, c.Batch.MaxBatch, c.Batch.Eager = 700, 700, false
	})
	for i := range 256 {
		h.must(h.register(registration(fmt.Sprintf("a-%03d", i), "llama", 1, 0.5+float64(i%7)/20,
			card(1, 1, 1))))
	}
	stopped := true
	h.n.Limit = func() func() bool { return func() bool { return stopped } }
	for i := range 700 { // so many that not all of them matter to prices
		h.must(h.n.Step(h.now,
			h.task([]string{"ann", "bob"}[i%2], fmt.Sprint("t", i), worth(market.Credit/10))))
	}
	h.run()
	rec := h.lastRound()
	want := market.Rule{Pricing: market.PricingPosted, Settle: market.SettleMetered,
		Clarke: market.ClarkeClient, Instead: market.PricingVCG}
	if rec.Round.Rule != want || len(rec.Outcome.Awards) != 256 || len(rec.Round.Edges) < 1<<16 ||
		h.n.Stats().Stopped != 1 {
		t.Fatalf("%+v, %d awards of %d edges, %d stopped", rec.Round.Rule, len(rec.Outcome.Awards),
			len(rec.Round.Edges), h.n.Stats().Stopped)
	}
	x, err := market.Explain(rec.Round, rec.Outcome)
	if err != nil || !strings.Contains(x.String(),
		"pricing posted instead of vcg, whose solve had to be stopped") {
		t.Errorf("%v: %.200s", err, x)
	}
	stopped = false
	best := slices.IndexFunc(h.dispatched, func(d bus.Dispatch) bool { return h.agentOf(d) == "a-006" })
	h.serve(h.dispatched[best], market.Usage{Prompt: 100, Output: 10})
	h.pass(20 * time.Millisecond)
	if r := h.lastRound().Round; r.Rule.Pricing != market.PricingVCG || r.Rule.Instead != "" {
		t.Errorf("the next round: %+v", r.Rule)
	}
	h.audited()
}
