package hub_test

import (
	"fmt"
	"testing"

	"souk/market"
)

// An engine that comes back with less room, while its agentd goes on, is believed to hold no more than fits
// there: what was served last. One whose blocks have another size holds nothing that is known.
func TestAnEngineThatComesBackWithAnotherSize(t *testing.T) {
	const prompts, tokens = 10, 2560
	for _, c := range []struct {
		name        string
		block, room int
		least, most int // of all that is believed
	}{
		{"as it was", 16, 100_000, prompts * 2500, prompts * tokens},
		{"more room", 16, 200_000, prompts * 2500, prompts * tokens},
		{"less room", 16, 8192, 3 * 2500, 8192},
		{"its room is not known", 16, 0, prompts * 2500, prompts * tokens},
		{"other blocks", 32, 100_000, 0, 0},
	} {
		h := newHouse(t, nil)
		h.join("a-1", "llama", 1, 0.9, card(100, 10, 40))
		for i := range prompts {
			id := fmt.Sprint("t", i)
			h.must(h.step(h.task("ann", id, wide(uint64(1+i), 20), worth(10*market.Credit))))
			d := h.take("ann", id)
			h.accept(d)
			h.must(h.step(billed("a-1", d, market.Usage{Prompt: tokens, Output: 50})))
		}
		reg := h.agents["a-1"].Registration
		reg.BlockSize, reg.KVTokens = c.block, c.room
		h.must(h.register(reg))
		all, last := 0, 0
		for i := range prompts {
			next := h.task("ann", fmt.Sprint("n", i), wide(uint64(1+i), 20))
			last = h.n.Believed("a-1", next)
			all += last
		}
		if all < c.least || all > c.most || last < 2500 && c.most > 0 {
			t.Errorf("%s: %d tokens are believed to be held, %d of the last prompt; want %d to %d", c.name,
				all, last, c.least, c.most)
		}
	}
}
