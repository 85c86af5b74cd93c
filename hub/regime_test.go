package hub_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/hub"
	"souk/hub/regime"
	"souk/ledger"
	"souk/market"
)

// regimeHouse is a house with three agents and warm caches under a regime, and a batch of tasks of which
// one's worth is given.
func regimeHouse(t *testing.T, p regime.Params, batch uint64, bid func() market.Credits) *house {
	h := newHouse(t, func(c *hub.Config) {
		c.Regime, c.Fee, c.Batch.Eager = p, 500, false
		c.Clarke = market.ClarkeTask // each premium is its own slot price and toll
	})
	for i, id := range []string{"a-1", "a-2", "a-3"} {
		h.join(id, "llama", 3, 0.7+float64(i)/10, card(1, 1, 4))
	}
	again := func(m *bus.Task) { m.Session = "s" }
	h.must(h.step(h.task("ann", fmt.Sprint("warm-", batch), again)))
	h.pass(20 * time.Millisecond)
	for _, d := range h.dispatched {
		h.serve(d, market.Usage{Prompt: 100, Output: 20})
	}
	h.dispatched = nil
	h.pass(time.Second)
	rng := rand.New(rand.NewPCG(batch, 3))
	for i := range 5 {
		h.must(h.step(h.task("bob", fmt.Sprint("t", i), worth(market.Credits(500_000+rng.IntN(4_000_000))))))
	}
	h.must(h.step(h.task("ann", "bid", again, worth(bid()))))
	h.pass(20 * time.Millisecond)
	return h
}

// tolls of the last round's edges, before it was cut: "task>agent". The regime's is all of it, as no slot has
// had a price so far.
func (h *house) tolls() map[string]market.Credits {
	r := h.n.Whole()
	tolls := map[string]market.Credits{}
	for _, e := range r.Edges {
		tolls[string(r.Tasks[e.Task].ID)+">"+string(r.Agents[e.Agent].Agent)] = e.Toll
	}
	return tolls
}

// A regime moves rounds by the toll alone: it is in the record, at most zero, charged to the nano-credit and
// named on the receipt, and the audit finds nothing amiss.
func TestTheRegimesTollIsRecordedAndCharged(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	tolled, moved, saved := 0, 0, 0
	for n := range uint64(40) {
		bid := func() market.Credits { return 3_000_000 }
		h := regimeHouse(t, regime.Params{Temperature: 4, Overlap: 0}, seed+n, bid)
		plain := regimeHouse(t, regime.Default(), seed+n, bid)
		rec := h.lastRound()
		for _, e := range rec.Round.Edges {
			if e.Toll > 0 {
				t.Fatalf("toll %d", e.Toll)
			}
			if e.Toll < 0 {
				tolled++
			}
		}
		for _, e := range plain.lastRound().Round.Edges {
			if e.Toll != 0 {
				t.Fatalf("an idle regime charges %d", e.Toll)
			}
		}
		before := map[string]string{}
		for _, a := range plain.lastRound().Outcome.Awards {
			before[string(a.Task)] = string(a.Agent)
		}
		tolls := h.tolls() // of this round: what is served below may begin another
		for i, a := range rec.Outcome.Awards {
			if was, ok := before[string(a.Task)]; ok && was != string(a.Agent) {
				moved++
			}
			client, id, _ := strings.Cut(string(a.Task), "/")
			d := h.take(client, id)
			toll := tolls[string(a.Task)+">"+string(a.Agent)]
			if d.Fee != 500 || d.Toll != toll-d.Fee || a.Toll != d.Toll || d.Own != 0 ||
				d.Premium != d.SlotPrice-d.Toll {
				t.Fatalf("award %d: %+v dispatched as %+v: the regime's toll is %d", i, a, d, toll)
			}
			if toll < 0 {
				saved++
			}
			h.serve(d, market.Usage{Prompt: 100, Cached: 50, Output: 20})
		}
		if s := h.replica.Balance(ledger.Surplus); s < 0 {
			t.Fatalf("a deficit of %d", -s)
		}
		h.audited()
	}
	if tolled == 0 || moved == 0 || saved == 0 {
		t.Errorf("%d edges tolled, %d awards moved, %d charged: the test sees little", tolled, moved, saved)
	}
}

// Whatever a client bids, and with it which agents are worth its while, nobody's toll changes by it: nor by a
// bid that is below any cost, which is refused at once.
func TestNoBidIsInTheRegimesToll(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 5))
	compared, fewer, refused := 0, 0, 0
	for n := range uint64(40) {
		p := regime.Params{Temperature: 3 * rng.Float64(), Overlap: rng.Float64()}
		honest := regimeHouse(t, p, seed+n, func() market.Credits { return 3_000_000 }).tolls()
		house := regimeHouse(t, p, seed+n,
			func() market.Credits {
				return market.Credits(150_000 +
					rng.Int64N(int64(1)<<rng.IntN(24)))
			})
		if !house.n.Knows("ann", "bid") {
			refused++
		}
		lied := house.tolls()
		for edge, toll := range lied {
			if was, ok := honest[edge]; ok {
				compared++
				if toll != was {
					t.Fatalf("round %d: the toll of %s is %d, and was %d before one client bid otherwise", n,
						edge, toll, was)
				}
			}
		}
		if len(lied) < len(honest) {
			fewer++
		}
	}
	if compared == 0 || fewer == 0 || refused == 0 {
		t.Errorf("%d edges compared, the bid moved edges in %d rounds and was refused in %d: the test sees little",
			compared, fewer, refused)
	}
}
