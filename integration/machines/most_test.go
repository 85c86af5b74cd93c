package machines

import (
	"math/rand/v2"
	"testing"
	"time"

	"souk/bus"
	"souk/classifier"
	"souk/cmd/choices"
	"souk/market"
)

// What a door vouches for by its defaults is all that a hub may need for a task by its own, whatever the task
// says of its terms, where models cost no more than 8 credits a million tokens: so no task of a market as it
// comes is worth less for its door's word.
func TestDoorsVouchForWhatHubsNeed(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 6))
	door, c := classifier.Default(), choices.Hub()
	for range 10_000 {
		m := bus.Task{MaxTokens: r.IntN(1 << r.IntN(18)),
			Prompt: bus.Prompt{Tokens: 1 + r.IntN(1<<r.IntN(18))}}
		m.MaxTokens = min(m.MaxTokens, 128<<10) // no model writes more
		amount := func() *market.Credits {
			if r.IntN(2) == 0 {
				return nil
			}
			c := 1 + market.Credits(r.Int64N(int64(market.MaxWorth)))
			return &c
		}
		m.Terms.Worth, m.Terms.MaxPrice = amount(), amount()
		output := m.MaxTokens
		if output == 0 {
			output = door.AnswerTokens
		}
		cost := market.Credits(r.Int64N(int64(8 * market.Credit)))
		card := func(tokens int) market.Credits {
			return market.Price{Miss: cost}.Cost(market.Usage{Prompt: tokens})
		}
		terms := c.Terms.Of(card(m.Prompt.Tokens+output), card(r.IntN(512)))
		if w := m.Terms.Worth; w != nil {
			terms.Worth, terms.Patience = *w, time.Second
		}
		if p := m.Terms.MaxPrice; p != nil {
			terms.MaxPrice = *p
		}
		if most := door.Most(&m); most < terms.Cap() {
			t.Fatalf("%+v, %d tokens and %d: the door vouches for %s, the hub's cap is %s", m.Terms,
				m.Prompt.Tokens, m.MaxTokens, most, terms.Cap())
		}
	}
}
