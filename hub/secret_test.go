package hub_test

import (
	"testing"
	"time"

	"souk/bus"
	"souk/market"
)

// How soon a first token would come, as one client is quoted it, and when a text of its own is held that an
// agent was sent, do not tell how much of another's prompt that holds: the same is said beside a prompt that
// it has and beside one that it has not.
func TestAQuoteTellsNothingOfAnothersCache(t *testing.T) {
	text := func(hash uint64) func(*bus.Task) {
		return func(m *bus.Task) {
			m.Prompt = bus.Prompt{Bytes: 16_000, Messages: 1, Tokens: 4000,
				Prefixes: []bus.PrefixHash{{Bytes: 16_000, Hash: hash}}}
		}
	}
	quotes := func(hash uint64) (all []bus.ModelQuote) {
		h := newHouse(t, nil)
		h.prepaid["eve"] = 100 * market.Credit
		h.join("a-1", "llama", 8, 0.9, card(4, 1, 4))
		h.must(h.step(h.task("ann", "first", text(1))))
		h.serve(h.take("ann", "first"), market.Usage{Prompt: 4000, Output: 50})
		h.pass(time.Second)
		h.must(h.step(h.task("ann", "next", text(hash))))
		d := h.take("ann", "next")
		h.must(h.step(h.task("eve", "own", text(3)))) // of which she is quoted when it is held
		h.take("eve", "own")
		for range 60 {
			q := h.n.Quote(h.now, h.task("eve", "", text(3)))
			if len(q.Models) != 1 {
				t.Fatalf("%+v", q)
			}
			all = append(all, q.Models[0])
			h.pass(20 * time.Millisecond)
		}
		all[0].Cost = d.Quoted // which tells the two apart
		return all
	}
	held, new := quotes(1), quotes(2)
	if held[0].Cost >= new[0].Cost {
		t.Fatal("ann's text is not believed to be held: the test sees nothing")
	}
	for i := range held {
		a, b := held[i], new[i]
		if a.TTFTMS != b.TTFTMS || a.WaitMS != b.WaitMS || a.CachedShare != b.CachedShare {
			t.Errorf("quote %d beside what is held %+v, beside what is not %+v", i, a, b)
		}
	}
}
