package hub_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"souk/bus"
	"souk/hub"
	"souk/market"
)

// Whatever a task says, and however full a hub is, a quote says at least, expected and at most in this order,
// of each model; and of one that the task would be given at most what its client would pay at most.
func TestAQuoteExpectsNoMoreThanItsMost(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 4))
	edges := []market.Credits{0, 1, 1000, market.Credit / 1000, market.Credit / 10, market.Credit,
		market.MaxWorth}
	quotes, wins := 0, 0
	for world := range 60 {
		e := newEngines(t, func(c *hub.Config) {
			c.Settle = []string{market.SettleMetered, market.SettleQuoted}[rng.IntN(2)]
			c.Fee = market.Credits(rng.IntN(3)) * market.Credits(rng.IntN(1_000_000))
			if rng.IntN(4) == 0 {
				c.Pricing, c.Tariffs = market.PricingPosted, map[string]market.Credits{"m0": 10_000_000}
			}
		})
		for k := range 1 + rng.IntN(4) {
			dear := market.Credits(1) << rng.IntN(12)
			e.join(fmt.Sprint("a-", k), fmt.Sprint("m", rng.IntN(3)), 1+rng.IntN(4), rng.Float64(),
				card(dear, dear, dear*market.Credits(rng.IntN(8))))
		}
		e.took = func(d *bus.Dispatch) (time.Duration, market.Usage) {
			return time.Duration(rng.IntN(20_000)) * time.Millisecond,
				market.Usage{Prompt: d.Task.Prompt.Tokens, Output: rng.IntN(d.MaxTokens%1000 + 1)}
		}
		task := func(m *bus.Task) {
			m.Prompt.Tokens = 1 + rng.IntN(1<<rng.IntN(12))
			m.Prompt.Bytes, m.Prompt.Prefixes[0].Bytes = 4*m.Prompt.Tokens, 4*m.Prompt.Tokens
			m.MaxTokens = []int{0, 1, 100, 100_000}[rng.IntN(4)]
			if rng.IntN(2) == 0 {
				m.Terms.Worth = &edges[rng.IntN(len(edges))]
			}
			if rng.IntN(3) == 0 {
				m.Terms.MaxPrice = &edges[rng.IntN(len(edges))]
			}
			if rng.IntN(3) == 0 {
				m.Terms.Delta = new([]float64{0, 5e-324, 0.5, 1}[rng.IntN(4)])
			}
			if rng.IntN(3) == 0 {
				m.Terms.PatienceMS = new([]int64{1, 1000, 24 * 3600 * 1000}[rng.IntN(3)])
			}
		}
		for range 40 {
			for range rng.IntN(6) {
				e.ask(fmt.Sprint("c", rng.IntN(3)), task)
			}
			e.lets(time.Duration(rng.IntN(1000)) * time.Millisecond)
			m := e.task(fmt.Sprint("c", rng.IntN(4)), "q", task)
			q := e.n.Quote(e.now, m)
			for _, x := range q.Models {
				quotes++
				p := x.Price
				if p.Min < 0 || p.Min > p.Expected || p.Expected > p.Max {
					t.Fatalf("world %d: at least %s, expected %s, at most %s: %+v of terms %+v", world, p.Min,
						p.Expected, p.Max, x, m.Terms)
				}
				if x.WouldWin {
					wins++
					if most := m.Terms.MaxPrice; most != nil && *most > 0 && p.Max > *most {
						t.Fatalf("world %d: at most %s, where it says %s", world, p.Max, *most)
					}
				}
			}
		}
	}
	if quotes < 1000 || wins < 200 {
		t.Errorf("%d quotes, of which %d would win: the test sees little", quotes, wins)
	}
}
