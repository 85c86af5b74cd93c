package hub

import (
	"fmt"
	"testing"
	"time"

	"souk/bus"
	"souk/ledger"
	"souk/market"
)

// seeding is a house where a-1 had dialogues that begin alike, as a-2 had none of, and the next of them goes
// to a-1. It returns what was dispatched then. The treasury may be slow from then on.
func seeding(t *testing.T, slow bool, change func(*Config),
	terms ...func(*bus.Task)) (*house, []bus.Dispatch) {
	t.Helper()
	h := newHouse(t, func(c *Config) {
		c.Seed.Client, c.Fee = "seeds", 10
		if change != nil {
			change(c)
		}
	})
	h.prepaid["seeds"] = 10 * market.Credit
	h.join("a-1", "llama", 4, 0.8, card(100, 10, 100))
	dialogue := func(i int) *bus.Task {
		return h.task("ann", fmt.Sprint("t", i),
			append([]func(*bus.Task){worth(market.Credit), func(m *bus.Task) {
				m.Prompt = bus.Prompt{Bytes: 6400, Messages: 2, Tokens: 1600,
					Marks: []bus.Mark{{Bytes: 6000, Hash: 1}, {Bytes: 6400, Hash: uint64(100 + i)}}}
			}}, terms...)...)
	}
	for i := range 6 {
		h.must(h.step(dialogue(i)))
		h.serve(h.take("ann", fmt.Sprint("t", i)),
			market.Usage{Prompt: 1600, Cached: min(1, i) * 1504, Output: 20})
		h.pass(100 * time.Millisecond)
	}
	h.join("a-2", "llama", 4, 0.8, card(100, 10, 100))
	h.dispatched, h.silent = nil, slow
	h.must(h.step(dialogue(6)))
	return h, h.dispatched
}

// A text that many dialogues begin with is put on an agent that is idle and has it not, by a task of the
// hub's own for one token, in a round that is its alone: a client that was set up for that pays cost and fee,
// and nobody else pays more.
func TestATextThatManyBeginWithIsSeeded(t *testing.T) {
	h, ds := seeding(t, false, nil)
	if len(ds) != 2 || ds[0].Task.Client != "ann" || h.n.holds[ds[0].Hold].agent.id != "a-1" {
		t.Fatalf("dispatched: %+v", ds)
	}
	d := ds[1]
	if d.Task.Client != "seeds" || h.n.holds[d.Hold].agent.id != "a-2" || d.MaxTokens != 1 ||
		string(d.Task.Body) != string(ds[0].Task.Body) || d.Task.Session != "" || d.Premium != 10 {
		t.Errorf("the seed: %+v", d)
	}
	if r := h.lastRound().Round; len(r.Tasks) != 1 || len(r.Edges) != 1 {
		t.Errorf("its round: %+v", r)
	}
	before := h.prepaid["ann"]
	h.serve(ds[0], market.Usage{Prompt: 1600, Cached: 1504, Output: 20})
	h.serve(d, market.Usage{Prompt: 1600, Output: 1})
	a := h.n.lookup("a-2")
	m := ds[0].Task
	next := &task{msg: &m, deadline: h.now.Add(time.Minute),
		terms: market.Terms{Worth: market.Credit, Delta: 0.7, Patience: time.Second}}
	if got := a.expect(next).cached; got < 1400 {
		t.Errorf("%d tokens are believed to be at a-2", got)
	}
	if h.prepaid["ann"] != before || len(h.faults) > 0 {
		t.Errorf("ann has %v, had %v; faults: %v", h.prepaid["ann"], before, h.faults)
	}
	if out := h.n.quoted(next, a, 0).forecast.Output; out < 10 {
		t.Errorf("%d tokens are expected of an answer: one token that was asked for teaches no length", out)
	}
	h.pass(2 * time.Second)
	if len(h.dispatched) != 2 {
		t.Errorf("seeded again: %+v", h.dispatched[2:])
	}
	audit := ledger.NewAudit("hub-math", ledger.MaxLevel)
	for i := range h.frames {
		f := &h.frames[i]
		audit.Frame(f.Seq, f.Epoch, ledger.AppendFrame(nil, f))
	}
	if report := audit.Finish(); len(report.Findings) > 0 || report.Rounds != 8 {
		t.Errorf("the audit of %d rounds: %v", report.Rounds, report.Findings)
	}
}

// Nothing is seeded where nobody was set up to pay or has the money, where it costs more than it saves, or
// while somebody waits; and no bid has a part in it.
func TestWhenNothingIsSeeded(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Config)
		terms  func(*bus.Task)
		want   int
	}{
		"by default":          {change: func(c *Config) { c.Seed.Client = "" }, want: 1},
		"no money":            {change: func(c *Config) { c.Seed.Client = "poor" }, want: 1},
		"a fee beyond saving": {change: func(c *Config) { c.Fee = 3 * market.Credit / 10 }, want: 1},
		"bids twice as high":  {terms: worth(2 * market.Credit), want: 2},
		"bids ten times":      {terms: worth(10 * market.Credit), want: 2},
	} {
		var terms []func(*bus.Task)
		if c.terms != nil {
			terms = append(terms, c.terms)
		}
		h, ds := seeding(t, false, c.change, terms...)
		if len(ds) != c.want || len(h.faults) > 0 {
			t.Errorf("%s: %d dispatches, want %d; faults %v", name, len(ds), c.want, h.faults)
		}
		if c.want == 2 && (ds[1].Task.Client != "seeds" || ds[1].Premium != 10 ||
			ds[1].Quoted != card(100, 10, 100).Cost(market.Usage{Prompt: 1600, Output: 1})) {
			t.Errorf("%s: the seed: %+v", name, ds[1])
		}
	}
}

// A seed whose money comes when its agent is not idle any more, or when somebody waits, goes to nobody, and
// is in no round.
func TestNothingIsSeededBesideTasks(t *testing.T) {
	for _, waits := range []bool{false, true} {
		h, ds := seeding(t, true, nil)
		seed := h.n.seeds.under
		if len(ds) != 1 || seed == nil || seed.state != parked {
			t.Fatalf("%d dispatches; the seed: %+v", len(ds), seed)
		}
		a := h.n.lookup("a-2")
		if waits { // for money is not enough: its slots are taken, as the hub counts them
			k := &task{key: taskKey{"ann", "w"}, id: "ann/w", msg: h.task("ann", "w"), arrived: h.now,
				deadline: h.now.Add(time.Minute), terms: seed.terms, only: &agent{}}
			h.n.known[k.key] = k
			h.n.openPurse("ann")
			h.n.enqueue(k)
		} else {
			a.holds = append(a.holds, h.n.holds[ds[0].Hold])
		}
		rounds := h.n.stats.Rounds
		for _, f := range h.pending {
			h.must(h.n.Step(h.now, h.treasury(f)))
		}
		h.silent = false
		h.run()
		if seed.state != done || h.n.stats.Rounds != rounds || len(h.dispatched) != 1 || len(h.faults) > 0 {
			t.Errorf("somebody waits %v: the seed is in state %d, %d rounds, %d dispatches, faults %v", waits,
				seed.state, h.n.stats.Rounds-rounds, len(h.dispatched)-1, h.faults)
		}
	}
}
