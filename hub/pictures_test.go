package hub_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"souk/bus"
	"souk/hub"
	"souk/market"
)

// In a crowd of agents that are alike but for what they read, in rounds of one task and of many, no picture
// goes to an engine that reads text alone, however much of it or of its session that one holds; and none is
// refused while another reads it.
func TestPicturesInACrowd(t *testing.T) {
	for range 20 {
		seed := rand.Uint64()
		rng := rand.New(rand.NewPCG(seed, 0))
		h := newHouse(t, func(c *hub.Config) { c.Deadline = time.Minute })
		agents := 3 + rng.IntN(20)
		blind := map[string]bool{}
		for i := range agents {
			r := registration(fmt.Sprint("a-", i), "m", 1+rng.IntN(3), 0.5, card(1, 1, 2))
			if i > 0 && rng.IntN(2) == 0 {
				r.Features, blind[r.Agent] = []string{bus.Text}, true
			}
			h.must(h.register(r))
			h.run()
		}
		seen, pictures := 0, 0
		for i := range 200 {
			media := rng.IntN(2) == 0
			id := fmt.Sprint("t", i)
			h.must(h.step(h.task([]string{"ann", "bob"}[i%2], id, worth(market.Credit/10), func(m *bus.Task) {
				m.Session = fmt.Sprint("s-", rng.IntN(12))
				if media {
					m.Prompt.Loose, m.Prompt.Text = bus.LooseMedia, 400
				}
			})))
			if media {
				pictures++
			}
			if rng.IntN(3) == 0 {
				h.pass(h.n.Config().Batch.MaxWait)
			}
			end := i == 199
			for len(h.dispatched) > 0 && (end || rng.IntN(2) == 0) || end && h.n.Stats().Waiting > 0 {
				if len(h.dispatched) == 0 {
					h.pass(h.n.Config().Batch.MaxWait) // those who wait may rest
					continue
				}
				d := h.dispatched[rng.IntN(len(h.dispatched))]
				d = h.take(d.Task.Client, d.Task.ID)
				if d.Task.Prompt.Loose == bus.LooseMedia {
					if seen++; blind[h.agentOf(d)] {
						t.Fatalf("seed %d: the picture of %s went to %s", seed, d.Task.ID, h.agentOf(d))
					}
				}
				h.serve(d, market.Usage{Prompt: 100, Output: 50})
			}
		}
		if seen < pictures {
			t.Errorf("seed %d: of %d pictures %d were served", seed, pictures, seen)
		}
		for _, l := range h.messages {
			if a, ok := l.Body.(*bus.Answer); ok && a.Result != nil &&
				slices.Contains([]bus.Code{bus.CodeUnsupportedField, bus.CodeUnknownModel}, a.Result.Code) {
				t.Fatalf("seed %d: %s: %s", seed, a.Result.Task, a.Result.Message)
			}
		}
	}
}
