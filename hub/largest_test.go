package hub_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	runtimepolicy "souk/bus/policy"
	"souk/hub"
	"souk/hub/policy"
	"souk/ledger"
	"souk/market"
)

// The largest round that a hub may hold at posted prices, where every task may go to every agent and a regime
// charges each pair, fits in a frame, however long names are; who has no room in it is served by the next.
func TestTheLargestRoundFitsInAFrame(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	const agents, tasks = 1000, 512
	long := strings.Repeat("x", 50)
	client := "ann" + long
	h := crowdHouse(t, 2*tasks, func(c *hub.Config) {
		c.Pricing, c.Regime.Temperature = market.PricingPosted, 0.5
		c.Batch.Eager, c.Batch.ClosesAt, c.Batch.MaxBatch = false, tasks, tasks
	})
	h.prepaid[client] = 1000 * market.Credit
	for i := range agents {
		h.join(fmt.Sprintf("a-%03d%s", i, long), "llama", 1, 0.9, card(1, 1, 4))
	}
	for i := range tasks {
		h.must(h.step(h.task(client, fmt.Sprintf("t%03d%s", i, long))))
	}
	for range 100 {
		h.pass(20 * time.Millisecond)
	}
	rounds, most, named := 0, 0, 0
	for i := range h.frames {
		f := &h.frames[i]
		most = max(most, len(ledger.AppendFrame(nil, f)))
		for _, r := range f.Records {
			if r.Round != nil {
				rounds, named = rounds+1, named+len(r.Round.Set)
			}
		}
	}
	t.Logf("%d rounds, %d charges, the largest frame has %d bytes", rounds, named, most)
	if most > ledger.MaxFrame || rounds == 0 || named == 0 {
		t.Errorf("a frame has %d bytes, want at most %d; in %d rounds %d charges are named", most,
			ledger.MaxFrame, rounds, named)
	}
	if got := len(h.dispatched); got != tasks {
		t.Errorf("%d of %d tasks are served", got, tasks)
	}
	h.audited()
}

// Of the agents where a policy lets a task not go its record names the first.
func TestWhereATaskMayNotGoIsNamedBriefly(t *testing.T) {
	h := newHouse(t, nil)
	only := runtimepolicy.IDOf("a-07")
	h.n.SetPolicy(policy.Place, "spy", &spy{score: func(i runtimepolicy.Item) float64 {
		if i.Agent == only {
			return 0
		}
		return runtimepolicy.Never
	}})
	for i := range 40 {
		h.join(fmt.Sprintf("a-%02d", i), "llama", 1, 0.9, card(1, 1, 4))
	}
	h.must(h.step(h.task("ann", "t")))
	r := h.lastRound()
	if got := h.running(); got != "ann/t>a-07" || len(r.Set) != market.MaxShown || r.Set[0].Agent != "a-00" {
		t.Errorf("running %s; named are %v", got, r.Set)
	}
	h.audited()
}
