package ledger

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"souk/market"
)

// crowd writes a hub's journal of so many crowded rounds: two slots, eight tasks that may wait for one of the
// agents at the price that was recorded for it some rounds ago, pruned before they are cleared. lie spoils a
// wait before its round is cleared.
func crowd(t *testing.T, seed uint64, rounds int, lie func(n int, w *market.Wait)) *desk {
	rng := rand.New(rand.NewPCG(seed, 90))
	d := newDesk(t, "hub-maths", RoleHub)
	for i := range 8 {
		c := fmt.Sprint("client-", i)
		d.must(NewAccept(d.name, uint64(i+1), c, 100_000*market.Credit, d.nextSalt()))
	}
	var p market.Pruner
	recorded := map[uint64]map[market.AgentID]market.Credits{}
	for range rounds {
		number, prev := d.book.LastRound()
		r := market.Round{Domain: "maths", Number: number + 1, Prev: prev, Rule: market.DefaultRule,
			Fee: 1000, Agents: []market.Supply{{Agent: "a", Tiers: []market.Tier{{Slots: 1}}},
				{Agent: "b", Tiers: []market.Tier{{Slots: 1}}}}}
		for j := range 8 {
			c := fmt.Sprint("client-", j)
			id := market.TaskID(fmt.Sprintf("%s/t%d", c, r.Number))
			task := market.Task{ID: id, Client: c}
			if rng.IntN(2) == 0 {
				w := &market.Wait{Agent: []market.AgentID{"a", "b", "full"}[rng.IntN(3)], Time: 40_000_000,
					Value: market.Credits(3_000_000 + rng.IntN(2_500_000)), Cost: 600_000, Toll: -100,
					Charge: -200, Share: market.FullShare}
				if r.Number > 1 {
					w.Round = r.Number - min(r.Number-1, 1+rng.Uint64N(9))
					w.Price = recorded[w.Round][w.Agent]
				}
				if w.Loss = w.Sum(r.Fee); w.Loss > 0 && w.Loss < 1_000_000 {
					if lie != nil {
						lie(int(r.Number), w)
						w.Loss = w.Sum(r.Fee)
					}
					task.Wait = w
				}
			}
			r.Tasks = append(r.Tasks, task)
			for a := range r.Agents {
				r.Edges = append(r.Edges, market.Edge{Task: j, Agent: a,
					Value: market.Credits(3_000_000 + rng.IntN(2_500_000)),
					Cost:  market.Credits(rng.IntN(900_000))})
			}
		}
		r.Sort()
		p.Prune(&r, 512, 3)
		o := clearRound(t, r)
		frame := []Record{NewRound(d.name, r, o, d.nextSalt())}
		var ends []Record
		for slot, a := range o.Awards {
			h := holdFor(r, a, slot)
			frame = append(frame, NewHold(d.name, h, d.nextSalt()))
			ends = append(ends, NewVoid(d.name, h, "agent_failed", d.nextSalt()))
		}
		d.must(frame...)
		if len(ends) > 0 {
			d.must(ends...)
		}
		recorded[r.Number] = map[market.AgentID]market.Credits{}
		for _, x := range o.Prices {
			if x.Tier == 0 {
				recorded[r.Number][r.Agents[x.Agent].Agent] = x.Price
			}
		}
	}
	return d
}

// Waits at recorded prices are in order; levels below ask nothing of them; each kind of lie is found where it
// stands.
func TestWaitsNameRecordedPrices(t *testing.T) {
	honest := crowd(t, 1, 150, nil)
	waits, priced := 0, 0
	for _, f := range honest.frames {
		if r := f.Records[0].Round; r != nil {
			for _, x := range r.Round.Tasks {
				if x.Wait != nil {
					waits++
					if x.Wait.Price > 0 {
						priced++
					}
				}
			}
		}
	}
	report := audit("h", MaxLevel, store(honest.frames)).Finish()
	if waits < 20 || priced < 10 || report.Rounds != 150 || report.Distant > 0 {
		t.Errorf("%d waits, %d of them at a price, report %+v: the test sees nothing", waits, priced, report)
	}
	for _, f := range report.Findings {
		t.Errorf("an honest journal: %s", f)
	}
	for name, lie := range map[string]func(w *market.Wait){
		"too low a price":          func(w *market.Wait) { w.Price-- },
		"too high a price":         func(w *market.Wait) { w.Price++ },
		"another round":            func(w *market.Wait) { w.Round-- },
		"a price of another agent": func(w *market.Wait) { w.Agent = "c" },
	} {
		lies := 0
		d := crowd(t, 1, 150, func(n int, w *market.Wait) {
			if w.Price > 0 && w.Round > 2 && lies == 0 {
				lie(w)
				lies = n
			}
		})
		for level := range MaxLevel + 1 {
			r := audit("h", level, store(d.frames)).Finish()
			if level < LevelAuctions {
				if r.Count > 0 {
					t.Errorf("%s: level %d finds %s", name, level, r.Findings[0])
				}
				continue
			}
			if r.Count != 1 || r.Findings[0].Invariant != "I6" ||
				r.Findings[0].Record != RoundID(d.name, uint64(lies)) ||
				!strings.Contains(r.Findings[0].Expected, "that an earlier round recorded") {
				t.Errorf("%s in round %d: level %d finds %d: %+v", name, lies, level, r.Count, r.Findings)
			}
		}
	}
}

// A wait whose parts do not sum to its loss, or are out of bounds, is no part of a certified outcome.
func TestWaitsAddUp(t *testing.T) {
	for name, spoil := range map[string]func(w *market.Wait){
		"a larger loss":     func(w *market.Wait) { w.Loss++ },
		"more than all":     func(w *market.Wait) { w.Share++ },
		"a toll in favour":  func(w *market.Wait) { w.Toll = 1; w.Loss = w.Sum(1000) },
		"a price too early": func(w *market.Wait) { w.Round = 1 << 40 },
	} {
		d := crowd(t, 2, 20, nil)
		spoilt := false
		for i := range d.frames {
			r := d.frames[i].Records[0].Round
			if r == nil || spoilt || i < 20 {
				continue
			}
			for j := range r.Round.Tasks {
				if w := r.Round.Tasks[j].Wait; w != nil && !spoilt {
					spoil(w)
					spoilt = true
				}
			}
		}
		got := audit("h", LevelAuctions, store(d.frames)).Finish()
		if !spoilt || !strings.Contains(fmt.Sprint(got.Findings), "wait:") {
			t.Errorf("%s: found %v", name, got.Findings)
		}
	}
}

// Prices are kept for so many rounds and no more than so many of them: an older round may not be named, and
// what was forgotten is counted.
func TestPricesAreKeptForALimitedTime(t *testing.T) {
	a := NewAudit("h", LevelAuctions)
	round := func(number uint64, prices int, w *market.Wait) *raw {
		r := market.Round{Domain: "maths", Number: number, Rule: market.DefaultRule,
			Tasks: []market.Task{{ID: "c/1", Client: "c", Wait: w}}}
		var o market.Outcome
		for i := range max(1, prices) {
			r.Agents = append(r.Agents, market.Supply{Agent: market.AgentID(fmt.Sprintf("a%05d", i))})
			if prices > 0 {
				o.Prices = append(o.Prices, market.SlotPrice{Agent: i, Price: 7})
			}
		}
		return &raw{round: r.AppendCanonical(nil), outcome: o.AppendCanonical(nil)}
	}
	wait := func(n uint64, price market.Credits) *market.Wait {
		return &market.Wait{Agent: "a00000", Round: n, Price: price}
	}
	a.crowded(1, "r", round(3, 1, nil))
	a.crowded(2, "r", round(3+WaitRounds, 0, wait(3, 7)))
	if a.out.Count != 0 || a.out.Distant != 0 {
		t.Fatalf("the oldest round that may be named: %+v", a.out)
	}
	a.crowded(3, "r", round(4+WaitRounds, 1, wait(3, 7)))
	if a.out.Count != 1 || !strings.Contains(a.out.Findings[0].String(), "at most 65,536 rounds old") {
		t.Fatalf("a round that lies too far back: %+v", a.out)
	}
	if n := len(a.prices.last); n != 1 {
		t.Errorf("%d prices kept, want 1", n)
	}
	const each = 1 << 13
	for n := range uint64(maxPriced/each + 1) {
		a.crowded(4, "r", round(5+WaitRounds+n, each, nil))
	}
	if n := len(a.prices.last); n != maxPriced {
		t.Errorf("%d prices kept, want %d", n, maxPriced)
	}
	next := 5 + WaitRounds + uint64(maxPriced/each) + 1
	a.crowded(5, "r", round(next, 0, wait(5+WaitRounds, 7)))
	if a.out.Count != 1 || a.out.Distant != 1 {
		t.Errorf("a price that was forgotten: %d findings, %d distant", a.out.Count, a.out.Distant)
	}
	a.crowded(6, "r", round(next, 0, wait(next-1, 7)))
	if a.out.Count != 1 || a.out.Distant != 1 {
		t.Errorf("a price that is known: %d findings, %d distant", a.out.Count, a.out.Distant)
	}
}
