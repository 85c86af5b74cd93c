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
		c.Fee = 10
		if change != nil {
			change(c)
		}
	})
	h.prepaid["probe-math"], h.prepaid["seeds"] = 10*market.Credit, 10*market.Credit
	price := card(100, 10, 100)
	if h.n.cfg.Seed.Client == "flat" { // what is cached costs as much as what is not
		h.prepaid["flat"], price = 10*market.Credit, card(100, 100, 100)
	}
	h.join("a-1", "llama", 4, 0.8, price)
	dialogue := func(i int) *bus.Task {
		return h.task("ann", fmt.Sprint("t", i),
			append([]func(*bus.Task){worth(market.Credit), func(m *bus.Task) {
				m.Salt = "of-ann"
				m.Prompt = bus.Prompt{Bytes: 6400, Messages: 2, Tokens: 1600,
					Prefixes: []bus.PrefixHash{{Bytes: 6000, Hash: 1}, {Bytes: 6400, Hash: uint64(100 + i)}}}
			}}, terms...)...)
	}
	for i := range 6 {
		h.must(h.step(dialogue(i)))
		h.serve(h.take("ann", fmt.Sprint("t", i)),
			market.Usage{Prompt: 1600, Cached: min(1, i) * 1504, Output: 20})
		h.pass(100 * time.Millisecond)
	}
	h.join("a-2", "llama", 4, 0.8, price)
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
	if d.Task.Client != "probe-math" || h.n.holds[d.Hold].agent.id != "a-2" || d.MaxTokens != 1 ||
		d.Task.Salt != "of-ann" || ds[0].Task.Salt != "of-ann" || // it is put into the cache that they share
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
	if out := h.n.quoted(next, a, backlog{}).forecast.Output; out < 10 {
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

// What a second is worth counts beside the money: agents are seeded whose card has cached tokens as dear as
// others, if those served lately lose by waiting. Nothing is seeded where it is switched off, where there is
// no money to pay it from, or where it costs more than it saves; and what the next task bids has no part in
// it.
func TestWhenATextIsSeeded(t *testing.T) {
	patient := func(m *bus.Task) { delta := 1.0; m.Terms.Delta = &delta }
	for name, c := range map[string]struct {
		change func(*Config)
		terms  func(*bus.Task)
		payer  string
	}{
		"by default":          {payer: "probe-math"},
		"another pays":        {change: func(c *Config) { c.Seed.Client = "seeds" }, payer: "seeds"},
		"switched off":        {change: func(c *Config) { c.Seed.Every = 0 }},
		"no money":            {change: func(c *Config) { c.Seed.Client = "poor" }},
		"a fee beyond saving": {change: func(c *Config) { c.Fee = 3 * market.Credit / 10 }},
		"bids twice as high":  {terms: worth(2 * market.Credit), payer: "probe-math"},
		"bids ten times":      {terms: worth(10 * market.Credit), payer: "probe-math"},
		"time is all it saves": {change: func(c *Config) { c.Seed.Client = "flat" },
			terms: func(m *bus.Task) {
				w, p := 30*market.Credit, int64(1000)
				m.Terms.Worth, m.Terms.PatienceMS = &w, &p
			}, payer: "flat"},
		"and nobody minds": {change: func(c *Config) { c.Seed.Client = "flat" }, terms: patient},
	} {
		var terms []func(*bus.Task)
		if c.terms != nil {
			terms = append(terms, c.terms)
		}
		h, ds := seeding(t, false, c.change, terms...)
		if seeded := len(ds) == 2; seeded != (c.payer != "") || len(ds) == 0 || len(h.faults) > 0 {
			t.Errorf("%s: %d dispatches; faults %v", name, len(ds), h.faults)
			continue
		}
		if c.payer != "" && (ds[1].Task.Client != c.payer || ds[1].Premium != 10 ||
			ds[1].Quoted != ds[1].Price.Cost(market.Usage{Prompt: 1600, Output: 1})) {
			t.Errorf("%s: the seed: %+v", name, ds[1])
		}
		if n := h.n.stats.Arrived; n != 7 || h.n.stats.Tasks[bus.CodeUnknownClient] != 0 {
			t.Errorf("%s: %d tasks came, outcomes %v", name, n, h.n.stats.Tasks)
		}
	}
}

// Where whoever is to pay has no money the treasury is asked for it once in a while, and not for each
// dialogue. What one dialogue alone says is seeded nowhere, however many turns it has.
func TestHowOftenSeedsAreTried(t *testing.T) {
	h, _ := seeding(t, false, func(c *Config) { c.Seed.Client, c.Silence = "poor", time.Hour })
	h.serve(h.take("ann", "t6"), market.Usage{Prompt: 1600, Output: 20})
	asks := func(id string, prefixes ...bus.PrefixHash) (asked int) {
		h.must(h.step(h.task("ann", id, worth(market.Credit), func(m *bus.Task) {
			m.Prompt = bus.Prompt{Bytes: 6400, Messages: 2, Tokens: 1600, Prefixes: prefixes}
		})))
		h.serve(h.take("ann", id), market.Usage{Prompt: 1600, Output: 20})
		h.pass(time.Second)
		for _, f := range h.asked {
			if f.Request.Client == "poor" && f.Op == bus.OpAllot {
				asked++
			}
		}
		return asked
	}
	for i := range 30 {
		if n := asks(fmt.Sprint("more-", i), bus.PrefixHash{Bytes: 6000, Hash: 1}); n != 1 {
			t.Fatalf("the treasury is asked %d times, want once", n)
		}
	}
	h.pass(time.Minute)
	var own []bus.PrefixHash
	for i := range 30 {
		own = append(own, bus.PrefixHash{Bytes: 3000 + 100*i, Hash: uint64(400 + i)})
		if n := asks(fmt.Sprint("turn-", i), own...); n != 1 {
			t.Fatalf("the %d. turn of a dialogue would be seeded", i+1)
		}
	}
	for i := range 9 {
		asks(fmt.Sprint("again-", i), bus.PrefixHash{Bytes: 6000, Hash: 2})
	}
	if n := asks("again", bus.PrefixHash{Bytes: 6000, Hash: 2}); n != 2 {
		t.Errorf("a minute later it was asked %d times, want twice", n)
	}
}

// A seed whose money comes when its agent is not idle any more goes to nobody, and is in no round. Where
// somebody waits who is not for that agent, it has a round of its own.
func TestNothingIsSeededBesideTasks(t *testing.T) {
	for _, waits := range []bool{false, true} {
		h, ds := seeding(t, true, nil)
		seed := h.n.seeds.under
		if len(ds) != 1 || seed == nil || seed.state != awaitingFunds {
			t.Fatalf("%d dispatches; the seed: %+v", len(ds), seed)
		}
		a := h.n.lookup("a-2")
		if waits { // for money is not enough: its slots are taken, as the hub counts them
			k := &task{key: taskKey{"ann", "w"}, id: "ann/w", msg: h.task("ann", "w"), arrived: h.now,
				deadline: h.now.Add(time.Minute), terms: seed.terms, only: &agent{}}
			h.n.known[k.key] = k
			h.n.openAccount("ann")
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
		state, more := done, int64(0)
		if waits {
			if state, more = running, 1; len(h.n.round.whole.Tasks) > 1 {
				t.Errorf("a round with a seed: %+v", h.n.round.whole.Tasks)
			}
		}
		if seed.state != state || h.n.stats.Rounds != rounds+more || len(h.dispatched) != 1+int(more) ||
			len(h.faults) > 0 {
			t.Errorf("somebody waits %v: the seed is in state %d, %d rounds, %d dispatches, faults %v", waits,
				seed.state, h.n.stats.Rounds-rounds, len(h.dispatched)-1, h.faults)
		}
	}
}
