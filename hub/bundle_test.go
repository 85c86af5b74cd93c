package hub

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/market"
)

// sibling is a task whose prompt begins with 2,000 tokens that those of its family share, and goes on by itself.
func (h *house) sibling(client, id string, family uint64, change ...func(*bus.Task)) *bus.Task {
	own := uint64(0)
	for _, c := range client + id {
		own = own*131 + uint64(c)
	}
	m := h.task(client, id, worth(market.Credit/10))
	m.Prompt = bus.Prompt{Bytes: 8800, Messages: 2, Tokens: 2200, Marks: []bus.Mark{
		{Bytes: 3000, Hash: family}, {Bytes: 6000, Hash: family + 1}, {Bytes: 8000, Hash: family + 2}, {Bytes: 8800, Hash: own}}}
	for _, c := range change {
		c(m)
	}
	return m
}

func siblingsHouse(t *testing.T, change func(*Config)) *house {
	h := newHouse(t, func(c *Config) {
		c.Batch.Eager = false
		if change != nil {
			change(c)
		}
	})
	for i := range 4 {
		h.join(fmt.Sprint("a-", i), "llama", 4, 0.8, card(10, 1, 4))
	}
	return h
}

// batch sends four tasks of each family at once, and says on how many agents each family is.
func (h *house) batch(round string, families ...uint64) (spread map[uint64]int) {
	h.t.Helper()
	on := map[uint64]map[string]bool{}
	for _, f := range families {
		for i := range 4 {
			h.must(h.n.Step(h.now, h.sibling([]string{"ann", "bob"}[i%2], fmt.Sprint(round, "-", f, "-", i), f)))
		}
		on[f] = map[string]bool{}
	}
	h.pass(20 * time.Millisecond)
	spread = map[uint64]int{}
	for len(h.dispatched) > 0 {
		d := h.dispatched[0]
		f := d.Task.Prompt.Marks[0].Hash
		on[f][h.agentOf(d)] = true
		spread[f] = len(on[f])
		h.serve(h.take(d.Task.Client, d.Task.ID), market.Usage{Prompt: 2200, Cached: 2000, Output: 10})
	}
	return spread
}

// Tasks that begin alike go to one agent the first time that they come together, are quoted their part of what they share, and the
// record says which they were.
func TestSiblingsGoTogether(t *testing.T) {
	h := siblingsHouse(t, nil)
	if got := h.batch("first", 10, 20); got[10] != 1 || got[20] != 1 {
		t.Errorf("on %v agents, want one for each family", got)
	}
	rec := h.lastRound()
	alone := card(10, 1, 4).Cost(market.Usage{Prompt: 2200})
	if got := fmt.Sprint(rec.Round.Bundles); got != "[{[0 1 4 5]} {[2 3 6 7]}]" || rec.Outcome.Awards[0].Cost >= alone/2 {
		t.Errorf("bundles %s, quoted %s; alone %s", got, rec.Outcome.Awards[0].Cost, alone)
	}
	x, err := market.Explain(rec.Round, rec.Outcome)
	if err != nil || !strings.Contains(x.String(), "it shares a prefix with ann/first-10-2, bob/first-10-1, bob/first-10-3: whoever of them is served is served there") {
		t.Errorf("%v\n%s", err, x)
	}
	// Now agents hold it: the next who begin so are placed as ever.
	h.batch("second", 10)
	if rec := h.lastRound(); len(rec.Round.Bundles) != 0 {
		t.Errorf("bundles %v of a prefix that was computed before", rec.Round.Bundles)
	}
	h.batch("third", 30)
	if rec := h.lastRound(); len(rec.Round.Bundles) != 1 {
		t.Errorf("bundles %v", rec.Round.Bundles)
	}
	h.audited()
}

func TestWhereSiblingsAreApart(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Config)
		limit  bool
	}{
		"not wanted":          {func(c *Config) { c.BundleTokens = 0 }, false},
		"too short":           {func(c *Config) { c.BundleTokens = 2300 }, false},
		"posted":              {func(c *Config) { c.Pricing = market.PricingPosted }, false},
		"no time to place it": {nil, true},
	} {
		h := siblingsHouse(t, c.change)
		if c.limit {
			h.n.Limit = func() func() bool { return func() bool { return true } }
		}
		h.batch("first", 10, 20)
		rec := h.lastRound()
		if alone := card(10, 1, 4).Cost(market.Usage{Prompt: 2200}); len(rec.Round.Bundles) != 0 || rec.Round.Rule.Instead != "" || len(rec.Outcome.Awards) == 0 || rec.Outcome.Awards[0].Cost < alone {
			t.Errorf("%s: bundles %v, %+v, first award %+v", name, rec.Round.Bundles, rec.Round.Rule, rec.Outcome.Awards)
		}
		h.audited()
	}
}

// Where no agent can serve a task of a bundle in time, what the others were quoted does not hold: they are quoted anew, apart.
func TestABundleThatLostATask(t *testing.T) {
	h := siblingsHouse(t, nil)
	for i := range 3 {
		h.must(h.n.Step(h.now, h.sibling("ann", fmt.Sprint("t", i), 10)))
	}
	h.n.known[taskKey{"ann", "t1"}].deadline = h.now
	h.pass(20 * time.Millisecond)
	rec := h.lastRound()
	if alone := card(10, 1, 4).Cost(market.Usage{Prompt: 2200}); len(rec.Round.Tasks) != 2 || len(rec.Round.Bundles) != 0 || rec.Outcome.Awards[0].Cost < alone {
		t.Errorf("%+v\n%+v", rec.Round, rec.Outcome)
	}
	h.audited()
}
