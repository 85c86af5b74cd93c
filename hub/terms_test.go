package hub_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"souk/bus"
	"souk/hub/admission"
	"souk/market"
)

// The hub gives the terms that the configuration says, by what the task costs at the cheapest agent that may
// serve it. What a client declares stands; who says what a task is worth has the patience of a usual task.
func TestTermsOfATask(t *testing.T) {
	worth, delta, ms := market.Credits(7), 0.5, int64(300)
	h := newHouse(t, nil)
	h.join("a-1", "llama", 1, 0.9, card(3, 3, 8))
	h.join("a-2", "llama", 1, 0.9, card(1, 1, 4))
	h.join("a-3", "tiny", 1, 0.9, card(1, 1, 1))
	d := h.n.Config().Terms
	read := func(model string, said bus.Terms) *bus.Task {
		return h.task("ann", "t1", func(m *bus.Task) {
			m.Model, m.MaxTokens, m.Terms = model, 1_000_000, said
		})
	}
	of := func(model string, price market.Price) market.Terms {
		m := read(model, bus.Terms{})
		c := price.Cost(market.Usage{Prompt: m.Prompt.Tokens, Output: h.n.Length("a-1", m)})
		terms := d.Of(c, h.n.Usual())
		terms.MaxPrice = market.MaxWorth
		return terms
	}
	usual := of("llama", card(1, 1, 4))
	for _, c := range []struct {
		name, model string
		said        bus.Terms
		want        market.Terms
	}{
		{"nothing", "llama", bus.Terms{}, usual},
		{"any model", "", bus.Terms{}, of("", card(1, 1, 1))},
		{"worth", "llama", bus.Terms{Worth: &worth},
			market.Terms{Worth: 7, Delta: d.Delta, Patience: d.Patience(), Doubles: admission.Doubles}},
		{"delta", "llama", bus.Terms{Delta: &delta},
			market.Terms{Worth: usual.Worth, Delta: 0.5, Patience: usual.Patience,
				MaxPrice: market.MaxWorth, Doubles: admission.Doubles}},
		{"patience", "llama", bus.Terms{PatienceMS: &ms},
			market.Terms{Worth: usual.Worth, Delta: d.Delta, Patience: 300 * time.Millisecond,
				MaxPrice: market.MaxWorth}},
	} {
		if got, _ := h.n.TermsOf(read(c.model, c.said)); got != c.want {
			t.Errorf("%s: terms %+v, want %+v", c.name, got, c.want)
		}
	}
}

// What others bid, in whatever order and by whatever scale, does not move the terms of who says nothing; and
// what was paid moves those of all who wait, at once.
func TestDefaultTermsDependOnNoBid(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 6))
	for range 50 {
		var want market.Terms
		bids := make([]market.Credits, 6)
		for i := range bids {
			bids[i] = market.Credits(1 + r.Int64N(int64(market.Credit)/100))
		}
		for play := range 3 {
			h := newHouse(t, nil)
			h.join("a-1", "llama", 1, 0.9, card(3, 1, 15))
			for i, bid := range bids {
				scaled := bid * market.Credits(1+99*(play/2))
				h.must(h.step(h.task("bob", string(rune('a'+i)),
					func(m *bus.Task) { m.Terms.Worth = &scaled })))
			}
			r.Shuffle(len(bids), func(a, b int) { bids[a], bids[b] = bids[b], bids[a] })
			comes, waits := h.n.TermsOf(h.task("ann", "t"))
			if play == 0 {
				want = comes
			}
			if comes != want {
				t.Fatalf("seed %d: terms %+v, and %+v where others bid otherwise", seed, want, comes)
			}
			if waits != want {
				t.Fatalf("seed %d: who waits has terms %+v, who comes %+v", seed, waits, want)
			}
		}
	}
}
