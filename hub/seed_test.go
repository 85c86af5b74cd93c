package hub

import (
	"fmt"
	"testing"
	"time"

	"souk/bus"
	"souk/market"
)

// seeding is a house where a-1 had dialogues that begin alike, as a-2 had none of, and the next of them goes to
// a-1. It returns what was dispatched then.
func seeding(t *testing.T, change func(*Config), terms ...func(*bus.Task)) (*house, []bus.Dispatch) {
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
		return h.task("ann", fmt.Sprint("t", i), append([]func(*bus.Task){worth(market.Credit), func(m *bus.Task) {
			m.Prompt = bus.Prompt{Bytes: 6400, Messages: 2, Tokens: 1600,
				Marks: []bus.Mark{{Bytes: 6000, Hash: 1}, {Bytes: 6400, Hash: uint64(100 + i)}}}
		}}, terms...)...)
	}
	for i := range 6 {
		h.must(h.step(dialogue(i)))
		h.serve(h.take("ann", fmt.Sprint("t", i)), market.Usage{Prompt: 1600, Cached: min(1, i) * 1504, Output: 20})
		h.pass(100 * time.Millisecond)
	}
	h.join("a-2", "llama", 4, 0.8, card(100, 10, 100))
	h.dispatched = nil
	h.must(h.step(dialogue(6)))
	return h, h.dispatched
}

// A text that many dialogues begin with is put on an agent that is idle and has it not, by a task of the hub's
// own for one token, in a round that is its alone: a client that was set up for that pays cost and fee, and
// nobody else pays more.
func TestATextThatManyBeginWithIsSeeded(t *testing.T) {
	h, ds := seeding(t, nil)
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
	next := &task{msg: &bus.Task{Prompt: ds[0].Task.Prompt}}
	if got := a.expect(next).cached; got < 1400 {
		t.Errorf("%d tokens are believed to be at a-2", got)
	}
	if h.prepaid["ann"] != before || len(h.faults) > 0 {
		t.Errorf("ann has %v, had %v; faults: %v", h.prepaid["ann"], before, h.faults)
	}
	if out := a.predictor.Forecast(h.n.quoted(next2(h, ds[0]), a, 0).features).Output; out < 10 {
		t.Errorf("%d tokens are expected of an answer: one token that was asked for teaches no length", out)
	}
	h.pass(2 * time.Second)
	if len(h.dispatched) != 2 {
		t.Errorf("seeded again: %+v", h.dispatched[2:])
	}
}

func next2(h *house, d bus.Dispatch) *task {
	m := d.Task
	return &task{msg: &m, deadline: h.now.Add(time.Minute),
		terms: market.Terms{Worth: market.Credit, Delta: 0.7, Patience: time.Second}}
}

// Nothing is seeded where nobody was set up to pay or has the money, where it costs more than it saves, or while
// somebody waits; and no bid has a part in it.
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
		h, ds := seeding(t, c.change, terms...)
		if len(ds) != c.want || len(h.faults) > 0 {
			t.Errorf("%s: %d dispatches, want %d; faults %v", name, len(ds), c.want, h.faults)
		}
		if c.want == 2 && (ds[1].Task.Client != "seeds" || ds[1].Premium != 10 ||
			ds[1].Quoted != card(100, 10, 100).Cost(market.Usage{Prompt: 1600, Output: 1})) {
			t.Errorf("%s: the seed: %+v", name, ds[1])
		}
	}
}
