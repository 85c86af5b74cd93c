package hub

import (
	"slices"
	"testing"
	"time"

	"souk/bus"
	"souk/ledger"
	"souk/market"
)

// lastRound is the round recorded last.
func (h *house) lastRound() ledger.Round {
	h.t.Helper()
	for _, f := range slices.Backward(h.frames) {
		for _, r := range slices.Backward(f.Records) {
			if r.Round != nil {
				return *r.Round
			}
		}
	}
	h.t.Fatal("no round is recorded")
	return ledger.Round{}
}

func (h *house) joinTiers(id string, score float64, tiers ...market.Tier) {
	h.t.Helper()
	slots, err := market.ValidateTiers(tiers)
	h.must(err)
	r := registration(id, "llama", slots, score, card(1, 1, 4))
	r.Tiers = tiers
	h.must(h.n.Join(h.now, r))
	h.run()
}

// Who comes alone pays no charge; who comes beside one that runs pays for slowing it, and its receipt says
// how much.
func TestACongestionChargeIsPaidByWhoComesLater(t *testing.T) {
	h := newHouse(t, func(c *Config) { c.Fee = 7 })
	h.joinTiers("a-1", 0.8, market.Tier{Slots: 1}, market.Tier{Slots: 2, Toll: -500})
	h.must(h.step(h.task("ann", "t1")))
	first := h.take("ann", "t1")
	if first.Premium != 7 || first.Toll != -7 || first.Congestion != 0 || first.Tier != 0 {
		t.Errorf("alone: %+v", first)
	}
	h.accept(first)
	if r := h.lastRound().Round; len(r.Agents) != 1 || len(r.Agents[0].Tiers) != 1 ||
		r.Agents[0].Tiers[0] != (market.Tier{Slots: 1}) {
		t.Errorf("recorded tiers %v: one task can reach one slot", r.Agents)
	}
	h.must(h.step(h.task("bob", "t2")))
	second := h.take("bob", "t2")
	if second.Premium != 507 || second.Toll != -507 || second.Congestion != -500 || second.SlotPrice != 0 {
		t.Errorf("beside one: %+v", second)
	}
	rec := h.lastRound()
	if tiers := rec.Round.Agents[0].Tiers; len(tiers) != 1 ||
		tiers[0] != (market.Tier{Slots: 2, Toll: -500}) {
		t.Errorf("recorded tiers %v", tiers)
	}
	if congestion, regime, fee := rec.Round.Tolls(rec.Outcome.Awards[0]); congestion != -500 || regime != 0 ||
		fee != -7 {
		t.Errorf("by the record: congestion %d, regime %d, fee %d", congestion, regime, fee)
	}
	h.serve(second, market.Usage{Prompt: 100, Output: 10})
	h.must(h.step(completion("a-1", first, market.Usage{Prompt: 100, Output: 10})))
	if surplus, fee := h.replica.Balance(ledger.Surplus), h.replica.Balance(ledger.Fee); surplus != 500 ||
		fee != 14 {
		t.Errorf("surplus %d, fees %d, want the charge and twice the fee", surplus, fee)
	}
	// Nothing runs there any more: the next is alone again.
	h.must(h.step(h.task("ann", "t3")))
	if d := h.take("ann", "t3"); d.Congestion != 0 || d.Premium != 7 {
		t.Errorf("alone again: %+v", d)
	}
}

// What meets in one round meets on the engine. Six equal tasks and two agents, one a little better: without
// tiers all herd onto it; with them they spread, and those who share an agent pay the same for it.
func TestTiersKeepABatchFromHerding(t *testing.T) {
	tiers := []market.Tier{{Slots: 1}, {Slots: 1, Toll: -400_000}, {Slots: 2, Toll: -800_000},
		{Slots: 4, Toll: -1_600_000}}
	for _, c := range []struct {
		name  string
		tiers bool
		want  map[string]int
	}{{"tiers", true, map[string]int{"a-1": 4, "a-2": 2}}, {"none", false, map[string]int{"a-1": 6}}} {
		t.Run(c.name, func(t *testing.T) {
			h := newHouse(t, func(cfg *Config) { cfg.Tiers, cfg.Batch.Eager = c.tiers, false })
			h.joinTiers("a-1", 0.80, tiers...)
			h.joinTiers("a-2", 0.75, tiers...)
			for _, id := range []string{"u", "v", "w", "x", "y", "z"} {
				// each a client of its own: several tasks of one would be priced together
				h.prepaid[id] = market.Credit
				h.must(h.step(h.task(id, "t", worth(20_000_000))))
			}
			h.pass(20 * time.Millisecond)
			got := map[string]int{}
			paid := map[string]market.Credits{}
			for _, d := range h.dispatched {
				agent := h.agentOf(d)
				got[agent]++
				if p, ok := paid[agent]; ok && p != d.Premium {
					t.Errorf("on %s one pays %d and another %d for the same", agent, p, d.Premium)
				}
				paid[agent] = d.Premium
			}
			if len(got) != len(c.want) || got["a-1"] != c.want["a-1"] || got["a-2"] != c.want["a-2"] {
				t.Errorf("placed %v, want %v", got, c.want)
			}
			if (paid["a-1"] > 0) != c.tiers {
				t.Errorf("paid %v", paid)
			}
		})
	}
}

// A task that is worth its cost but not what it would take from those who run waits until one of them has
// ended.
func TestATaskNotWorthItsChargeWaits(t *testing.T) {
	h := newHouse(t, nil)
	h.joinTiers("a-1", 1, market.Tier{Slots: 1}, market.Tier{Slots: 1, Toll: -900_000_000})
	h.must(h.step(h.task("ann", "t1")))
	first := h.take("ann", "t1")
	h.accept(first)
	h.must(h.step(h.task("bob", "t2", worth(500_000_000))))
	if got := h.running(); got != "" {
		t.Fatalf("%s runs at a loss", got)
	}
	h.pass(time.Second)
	h.must(h.step(completion("a-1", first, market.Usage{Prompt: 100, Output: 10})))
	if d := h.take("bob", "t2"); d.Premium != 0 {
		t.Errorf("%+v", d)
	}
}

// An agent changes its tiers by a summary, for later rounds. A summary whose tiers are not its slots is
// refused.
func TestTiersFromSummaries(t *testing.T) {
	h := newHouse(t, nil)
	h.joinTiers("a-1", 0.8, market.Tier{Slots: 2})
	a := h.n.lookup("a-1")
	two := []market.Tier{{Slots: 1}, {Slots: 2, Toll: -9}}
	for i, c := range []struct {
		says, want []market.Tier
		good       bool
	}{
		{two, two, true},
		{[]market.Tier{{Slots: 3}, {Slots: 1, Toll: -9}}, two, false},
		{[]market.Tier{{Slots: 1}, {Slots: 2, Toll: 9}}, two, false},
		{nil, []market.Tier{{Slots: 3}}, true},
	} {
		s := &bus.Summary{Agent: "a-1", Boot: 1, Seq: uint64(i + 1), State: bus.StateReady, Slots: 3,
			Tiers: c.says, Price: card(1, 1, 4)}
		if err := h.step(s); (err == nil) != c.good {
			t.Errorf("%v: %v", c.says, err)
		}
		if got := a.offer(nil, a.free(h.n), 100, 100); !slices.Equal(got, c.want) {
			t.Errorf("after %v it offers %v, want %v", c.says, got, c.want)
		}
	}
	// Of more tiers than the round has room for the cheapest are offered.
	a.tiers = []market.Tier{{Slots: 1}, {Slots: 1, Toll: -5}, {Slots: 1, Toll: -9}}
	if got := a.offer(nil, 3, 100, 2); !slices.Equal(got, a.tiers[:2]) {
		t.Errorf("offered %v", got)
	}
}

// Where a free slot's charge was all that stood in the way, nobody outbid the task, and it is not told so
// (I19).
func TestATooDearChargeIsNotCalledOutbid(t *testing.T) {
	h := newHouse(t, nil)
	h.joinTiers("a-1", 1, market.Tier{Slots: 1}, market.Tier{Slots: 1, Toll: -900_000_000})
	h.must(h.step(h.task("ann", "t1")))
	h.accept(h.take("ann", "t1"))
	h.must(h.step(h.task("bob", "t2", worth(500_000_000))))
	h.pass(2 * time.Minute)
	h.want("inbox.bob.t2", "not_worth_it")
}
