package hub_test

import (
	"fmt"
	"testing"
	"time"

	"souk/bus"
	"souk/hub"
	"souk/market"
)

// Whatever an agent says that it holds of prompts with pictures, it is paid no more than what it was quoted
// with: it does not answer for it there, so it is not believed either. What it has served counts as ever.
func TestOfPicturesNoWordIsBelieved(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-1", "llama", 1, 0.9, card(100, 10, 40))
	h.join("liar", "llama", 1, 0.9, card(110, 10, 40))
	s := &tells{h: h, agent: "liar"}
	again := 0
	for i := range 8 {
		x := h.task("ann", fmt.Sprint("t", i), wide(uint64(i/2), 20), worth(10*market.Credit))
		x.Prompt.Loose = bus.LooseMedia
		h.must(s.say(1, 0.95, x.Prompt.Prefixes, nil))
		h.must(h.step(x))
		d := h.take("ann", x.ID)
		h.accept(d)
		who := h.agentOf(d)
		if i%2 == 0 && (who != "a-1" || d.Quoted < d.Price.Cost(market.Usage{Prompt: 2000})) {
			t.Errorf("task %d goes to %s, quoted with %s, where nobody has served any of it", i, who,
				hub.Money(d.Quoted))
		} else if i%2 == 1 && who == "a-1" && d.Quoted < d.Price.Cost(market.Usage{Prompt: 1000}) {
			again++
		}
		h.serve(d, market.Usage{Prompt: 2560, Cached: 2544 * (i % 2), Output: 50})
		h.pass(300 * time.Millisecond)
	}
	if again != 4 {
		t.Errorf("%d of 4 prompts are expected to be cached where they were served", again)
	}
}
