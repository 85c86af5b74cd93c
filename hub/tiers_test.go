package hub

import (
	"fmt"
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

// A hub that measures charges an agent, and those of its class, for what answers beside others took by its
// own count and clock, whatever the agent says of its tiers; but an operator's tiers rule.
func TestTiersAreMeasuredByTheHub(t *testing.T) {
	own := []market.Tier{{Slots: 1}, {Slots: 7, Toll: -5}}
	last := map[string]map[bool]market.Credits{}
	for _, agent := range []string{"measured", "measured, and lies", "of its class", "configured"} {
		last[agent] = map[bool]market.Credits{}
		for _, slows := range []bool{false, true} {
			h := newHouse(t, func(c *Config) { c.LearnTiers = true })
			for _, id := range []string{"a-1", "a-2"} {
				r := registration(id, "llama", 8, 0.8, card(1, 1, 400))
				r.Tiers, r.Measured, r.Class = own, agent != "configured", "h100"
				h.must(h.n.Join(h.now, r))
				h.run()
			}
			a, b := h.n.lookup("a-1"), h.n.lookup("a-2")
			if got := a.tiers[len(a.tiers)-1].Toll; (got == -5) != (agent == "configured") {
				t.Fatalf("%s: it begins with %v", agent, a.tiers)
			}
			b.avoidUntil = h.n.at(time.Hour) // a-1 has all
			seq := uint64(0)
			for i := range 60 {
				beside := i % 4
				for k := range beside + 1 {
					h.must(h.step(h.task("ann", fmt.Sprint("t", i, "-", k), worth(10*market.Credit))))
				}
				h.pass(20 * time.Millisecond)
				itl := 10 * time.Millisecond
				if slows {
					itl += time.Duration(beside) * 2 * time.Millisecond
				}
				var all []bus.Dispatch
				for k := range beside + 1 {
					all = append(all, h.take("ann", fmt.Sprint("t", i, "-", k)))
					h.accept(all[k])
				}
				h.pass(50*time.Millisecond + 99*itl)
				for _, d := range all {
					c := completion("a-1", d, market.Usage{Prompt: 100, Output: 100})
					if c.ITLUS = itl.Microseconds(); agent == "measured, and lies" {
						c.ITLUS = 5000
					}
					h.must(h.step(c))
				}
				for _, id := range []string{"a-1", "a-2"} {
					seq++
					h.must(h.summary(id, seq, func(s *bus.Summary) {
						s.Tiers, s.Measured = own, agent != "configured"
					}))
				}
			}
			of := a
			if agent == "of its class" {
				of = b
			}
			last[agent][slows] = of.tiers[len(of.tiers)-1].Toll
		}
	}
	// 100 tokens at 400 credits a million: of these 4*0.2 / 1.8 beside four, where each slows by a fifth; as
	// an engine that nobody has measured is taken for one of 0.023, it is half way there by now
	honest := last["measured"]
	if share := float64(-honest[true]) / 40e6; share < 0.25 || share > 0.5 || honest[false] < -3e6 {
		t.Errorf("measured: %v", honest)
	}
	if got := last["of its class"]; got[true] != honest[true] || got[false] != honest[false] {
		t.Errorf("another of its class: %v, and measured %v", got, honest)
	}
	if got := last["measured, and lies"]; got[true] > honest[true]/2 {
		t.Errorf("that lies: %v, and measured %v", got, honest)
	}
	if got := last["configured"]; got[true] != -5 || got[false] != -5 {
		t.Errorf("configured: %v", got)
	}
}
