package hub_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/hub"
	"souk/ledger"
	"souk/market"
)

// prewarming returns a house where a-1 had dialogues that begin alike, as a-2 had none of, and the next of
// them goes to a-1. It returns what was dispatched then. as: the treasury is slow from then on, who pays is
// poor, or agents' cards are flat: what is cached costs as much as what is not.
func prewarming(t *testing.T, as string, change func(*hub.Config),
	terms ...func(*bus.Task)) (*house, []bus.Dispatch) {
	t.Helper()
	h := newHouse(t, func(c *hub.Config) {
		c.Fee = 10
		if change != nil {
			change(c)
		}
	})
	price := card(100, 10, 100)
	if as == "flat" {
		price = card(100, 100, 100)
	}
	if as != "poor" {
		h.prepaid["probe-math"] = 10 * market.Credit
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
	h.dispatched, h.silent = nil, as == "slow"
	h.must(h.step(dialogue(6)))
	return h, h.dispatched
}

// A text that many dialogues begin with is put on an agent that is idle and has it not, by a task of the
// hub's own for one token, in a round that is its alone: a client that was set up for that pays cost and fee,
// and nobody else pays more.
func TestATextThatManyBeginWithIsPrewarmed(t *testing.T) {
	h, ds := prewarming(t, "", nil)
	if len(ds) != 2 || ds[0].Task.Client != "ann" || h.agentOf(ds[0]) != "a-1" {
		t.Fatalf("dispatched: %+v", ds)
	}
	d := ds[1]
	if d.Task.Client != "probe-math" || h.agentOf(d) != "a-2" || d.MaxTokens != 1 ||
		d.Task.Salt != "of-ann" || ds[0].Task.Salt != "of-ann" || // it is put into the cache that they share
		string(d.Task.Body) != string(ds[0].Task.Body) || d.Task.Session != "" || d.Premium != 10 {
		t.Errorf("the prewarming: %+v", d)
	}
	if r := h.lastRound().Round; len(r.Tasks) != 1 || len(r.Edges) != 1 {
		t.Errorf("its round: %+v", r)
	}
	before := h.prepaid["ann"]
	h.serve(ds[0], market.Usage{Prompt: 1600, Cached: 1504, Output: 20})
	h.serve(d, market.Usage{Prompt: 1600, Output: 1})
	next := ds[0].Task
	if got := h.n.Believed("a-2", &next); got < 1400 {
		t.Errorf("%d tokens are believed to be at a-2", got)
	}
	if h.prepaid["ann"] != before || len(h.faults) > 0 {
		t.Errorf("ann has %v, had %v; faults: %v", h.prepaid["ann"], before, h.faults)
	}
	if out := h.n.IdleEstimate("a-2", &next).Forecast.Output; out < 10 {
		t.Errorf("%d tokens are expected of an answer: one token that was asked for teaches no length", out)
	}
	h.pass(2 * time.Second)
	if len(h.dispatched) != 2 {
		t.Errorf("prewarmed again: %+v", h.dispatched[2:])
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

// What a second is worth counts beside the money: agents are prewarmed whose card has cached tokens as dear
// as others, if those served lately lose by waiting. Nothing is prewarmed where it is switched off, where
// there is no money to pay it from, or where it costs more than it saves; and what the next task bids has no
// part in it.
func TestWhenATextIsPrewarmed(t *testing.T) {
	patient := func(m *bus.Task) { delta := 1.0; m.Terms.Delta = &delta }
	for name, c := range map[string]struct {
		as     string
		change func(*hub.Config)
		terms  func(*bus.Task)
		pays   bool
	}{
		"by default":          {pays: true},
		"switched off":        {change: func(c *hub.Config) { c.Prewarm.Every = 0 }},
		"no money":            {as: "poor"},
		"a fee beyond saving": {change: func(c *hub.Config) { c.Fee = 3 * market.Credit / 10 }},
		"bids twice as high":  {terms: worth(2 * market.Credit), pays: true},
		"bids ten times":      {terms: worth(10 * market.Credit), pays: true},
		"time is all it saves": {as: "flat", terms: func(m *bus.Task) {
			w, p := 30*market.Credit, int64(1000)
			m.Terms.Worth, m.Terms.PatienceMS = &w, &p
		}, pays: true},
		"and nobody minds": {as: "flat", terms: patient},
	} {
		var terms []func(*bus.Task)
		if c.terms != nil {
			terms = append(terms, c.terms)
		}
		h, ds := prewarming(t, c.as, c.change, terms...)
		if prewarmed := len(ds) == 2; prewarmed != c.pays || len(ds) == 0 || len(h.faults) > 0 {
			t.Errorf("%s: %d dispatches; faults %v", name, len(ds), h.faults)
			continue
		}
		if c.pays && (ds[1].Task.Client != "probe-math" || ds[1].Premium != 10 ||
			ds[1].Quoted != ds[1].Price.Cost(market.Usage{Prompt: 1600, Output: 1})) {
			t.Errorf("%s: the prewarming: %+v", name, ds[1])
		}
		if n := h.n.Stats().Arrived; n != 7 || h.n.Stats().Tasks[bus.CodeUnknownClient] != 0 {
			t.Errorf("%s: %d tasks came, outcomes %v", name, n, h.n.Stats().Tasks)
		}
	}
}

// Where whoever is to pay has no money the treasury is asked for it once in a while, and not for each
// dialogue. What one dialogue alone says is prewarmed nowhere, however many turns it has.
func TestHowOftenPrewarmingIsTried(t *testing.T) {
	h, _ := prewarming(t, "poor", func(c *hub.Config) { c.Silence = time.Hour })
	h.serve(h.take("ann", "t6"), market.Usage{Prompt: 1600, Output: 20})
	asks := func(id string, prefixes ...bus.PrefixHash) (asked int) {
		h.must(h.step(h.task("ann", id, worth(market.Credit), func(m *bus.Task) {
			m.Prompt = bus.Prompt{Bytes: 6400, Messages: 2, Tokens: 1600, Prefixes: prefixes}
		})))
		h.serve(h.take("ann", id), market.Usage{Prompt: 1600, Output: 20})
		h.pass(time.Second)
		for _, f := range h.asked {
			if f.Request.Client == "probe-math" && f.Op == bus.OpAllot {
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
			t.Fatalf("the %d. turn of a dialogue would be prewarmed", i+1)
		}
	}
	for i := range 9 {
		asks(fmt.Sprint("again-", i), bus.PrefixHash{Bytes: 6000, Hash: 2})
	}
	if n := asks("again", bus.PrefixHash{Bytes: 6000, Hash: 2}); n != 2 {
		t.Errorf("a minute later it was asked %d times, want twice", n)
	}
}

// A prewarming whose money comes when its agent is not idle any more goes to nobody, and is in no round.
// Where somebody waits who is not for that agent, it has a round of its own.
func TestNothingIsPrewarmedBesideTasks(t *testing.T) {
	for _, waits := range []bool{false, true} {
		h, ds := prewarming(t, "slow", func(c *hub.Config) { c.Silence = time.Hour })
		if asked := len(h.pending); len(ds) != 1 || asked != 1 ||
			h.pending[0].Request.Client != "probe-math" {
			t.Fatalf("%d dispatches, and the treasury is asked for %+v", len(ds), h.pending)
		}
		own := h.pending[0]
		if h.silent = false; waits {
			h.join("b-1", "qwen", 1, 0.8, card(1, 1, 1))
			h.must(h.step(h.task("ann", "runs", of("qwen"))))
			h.accept(h.take("ann", "runs"))
			h.must(h.step(h.task("ann", "waits", of("qwen"))))
			if _, planned := h.n.Planned("ann", "waits"); !planned {
				t.Fatal("nobody waits")
			}
		} else {
			for i := 0; h.runningAt("a-2") == 0; i++ {
				h.must(h.step(h.task("ann", fmt.Sprint("x", i), of("llama"))))
			}
		}
		h.dispatched = nil
		rounds := h.n.Stats().Rounds
		h.must(h.step(h.treasury(own)))
		got := h.running()
		switch held := h.n.Stats().Rounds - rounds; {
		case len(h.faults) > 0:
			t.Errorf("somebody waits %v: faults %v", waits, h.faults)
		case !waits && (got != "" || held != 0):
			t.Errorf("its agent is not idle: %d rounds, %s", held, got)
		case waits && (held != 1 || !strings.HasPrefix(got, "probe-math/") ||
			!strings.HasSuffix(got, ">a-2")):
			t.Errorf("its agent is idle: %d rounds, %s", held, got)
		case waits && len(h.lastRound().Round.Tasks) != 1:
			t.Errorf("a round with a prewarming: %+v", h.lastRound().Round.Tasks)
		}
	}
}

func of(model string) func(*bus.Task) { return func(m *bus.Task) { m.Model = model } }
