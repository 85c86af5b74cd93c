package hub

import (
	"math/rand/v2"
	"testing"
	"time"

	"souk/bus"
	"souk/market"
)

// A second of waiting costs every task that declares nothing the same, whatever its tokens, to the last
// nano-credit: else of two that are alike the later might go first. It lasts a minute and more.
func TestASecondCostsEveryUndeclaredTaskTheSame(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 5))
	d := Default().Terms
	for range 20_000 {
		usual := 1 + market.Credits(rng.Int64N(1<<rng.IntN(34)))
		card := market.Credits(rng.Int64N(1 << rng.IntN(36)))
		terms := d.Of(card, usual)
		if err := terms.Validate(); err != nil {
			t.Fatalf("%s where %s is usual: %v", card, usual, err)
		}
		if want := cards(usual, d.Second); terms.Second() != want && terms.Patience < market.MaxPatience {
			t.Fatalf("%s where %s is usual: a second costs %s, want %s", card, usual, terms.Second(), want)
		}
		if want := 12 * max(card, usual); terms.Worth != want || terms.Cap() != want {
			t.Fatalf("%s where %s is usual: worth %s, want %s", card, usual, terms.Worth, want)
		}
		left := terms.Value(market.Quote{Quality: 0.6, TTFT: time.Minute}) - card
		if usual > 1000 && left < 0 {
			t.Fatalf("%s where %s is usual: after a minute it is worth %s less than it costs", card, usual, -left)
		}
	}
}

// The hub gives the terms that the configuration says, by what the task costs at the cheapest agent that may
// serve it. What a client declares stands; who says what a task is worth has the patience of a usual task.
func TestTermsOfATask(t *testing.T) {
	worth, delta, ms := market.Credits(7), 0.5, int64(300)
	h := newHouse(t, nil)
	h.join("a-1", "llama", 1, 0.9, card(3, 3, 8))
	h.join("a-2", "llama", 1, 0.9, card(1, 1, 4))
	h.join("a-3", "tiny", 1, 0.9, card(1, 1, 1))
	d := h.n.cfg.Terms
	read := func(model string, said bus.Terms) *task {
		m := h.task("ann", "t1", func(m *bus.Task) { m.Model, m.MaxTokens, m.Terms = model, 1_000_000, said })
		task := &task{key: taskKey{m.Client, m.ID}, msg: m}
		h.must(h.n.setTerms(task))
		return task
	}
	of := func(model string, price market.Price) market.Terms {
		task, a := read(model, bus.Terms{}), h.n.lookup("a-1")
		c := price.Cost(market.Usage{Prompt: task.msg.Prompt.Tokens, Output: h.n.length(task, a)})
		terms := d.Of(c, h.n.usual())
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
			market.Terms{Worth: 7, Delta: d.Delta, Patience: d.Patience()}},
		{"delta", "llama", bus.Terms{Delta: &delta},
			market.Terms{Worth: usual.Worth, Delta: 0.5, Patience: usual.Patience,
				MaxPrice: market.MaxWorth}},
		{"patience", "llama", bus.Terms{PatienceMS: &ms},
			market.Terms{Worth: usual.Worth, Delta: d.Delta, Patience: 300 * time.Millisecond,
				MaxPrice: market.MaxWorth}},
	} {
		if task := read(c.model, c.said); task.terms != c.want {
			t.Errorf("%s: terms %+v, want %+v", c.name, task.terms, c.want)
		}
	}
}

// Whatever an operator may configure, and whatever a task costs, its terms are valid.
func FuzzTerms(f *testing.F) {
	f.Add(12.0, 0.8, 0.06, int64(500_000), int64(400_000))
	f.Add(999_999.0, 0.999999, 999_999.0, int64(market.MaxCredits), int64(1))
	f.Add(1e-9, 1e-9, 1e-9, int64(1), int64(market.MaxCredits))
	f.Add(1.0, 0.5, 1.0, int64(0), int64(0))
	f.Fuzz(func(t *testing.T, multiple, delta, second float64, card, usual int64) {
		terms := Terms{Multiple: multiple, Delta: delta, Second: second}
		if terms.validate() != nil || min(card, usual) < 0 || max(card, usual) > int64(market.MaxCredits) {
			t.Skip()
		}
		if of := terms.Of(market.Credits(card), market.Credits(usual)); of.Validate() != nil {
			t.Errorf("%+v of %d where %d is usual: %+v", terms, card, usual, of)
		}
		if p := terms.Patience(); p <= 0 {
			t.Errorf("%+v: a patience of %v", terms, p)
		}
	})
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
			m := h.task("ann", "t")
			mine := &task{key: taskKey{m.Client, m.ID}, msg: m}
			h.must(h.n.setTerms(mine))
			if play == 0 {
				want = mine.terms
			}
			if mine.terms != want {
				t.Fatalf("seed %d: terms %+v, and %+v where others bid otherwise", seed, want, mine.terms)
			}
			mine.asUsual++ // of a time in which something else was usual
			mine.terms.Patience = time.Second
			h.n.agree([]*task{mine})
			if mine.terms != want {
				t.Fatalf("seed %d: who waits has terms %+v, who comes %+v", seed, mine.terms, want)
			}
		}
	}
}
