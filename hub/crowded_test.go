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

// crowdedHouse is a house with a few agents, of which some are full, prices of past rounds, and tasks of
// several clients that wait, one of them with a few, for the next round.
func crowdedHouse(t *testing.T, seed uint64, change ...func(*hub.Config)) *house {
	rng := rand.New(rand.NewPCG(seed, 21))
	h := newHouse(t, func(c *hub.Config) {
		c.Batch.Eager, c.Batch.ClosesAt, c.Batch.Apart, c.Settle = false, 1000, 0, market.SettleQuoted
		c.Clarke = []string{market.ClarkeClient, market.ClarkeTask}[seed%2]
		c.Fee = market.Credits(rng.IntN(1000))
		for _, f := range change {
			f(c)
		}
	})
	slots := 0
	for i := range 2 + rng.IntN(3) {
		own := 1 + rng.IntN(2)
		slots += own
		h.join(fmt.Sprint("a-", i), "llama", own, 0.6+rng.Float64()/4, card(1, 1, 4))
	}
	ask := func(client, id string, change ...func(*bus.Task)) {
		if _, ok := h.prepaid[client]; !ok {
			h.prepaid[client] = 1000 * market.Credit
		}
		h.must(h.step(h.task(client, id, append([]func(*bus.Task){crowdTerms(rng)}, change...)...)))
	}
	for n := range slots + 4 { // rounds in which slots had prices, and sessions that agents hold
		ask(fmt.Sprint("c", n%4), fmt.Sprint("past-", n), sharedSession(rng))
	}
	h.pass(20 * time.Millisecond)
	for _, d := range slices.Clone(h.dispatched) {
		h.now = h.now.Add(time.Duration(rng.IntN(300)) * time.Millisecond)
		h.serve(d, market.Usage{Prompt: 100, Output: 20 + rng.IntN(60)})
	}
	h.pass(20 * time.Millisecond)
	for n, d := range slices.Clone(h.dispatched[min(slots, len(h.dispatched)):]) {
		if h.accept(d); n%2 == 0 {
			h.serve(d, market.Usage{Prompt: 100, Output: 20 + rng.IntN(60)})
		}
	}
	for n := range 3 + rng.IntN(8) {
		h.now = h.now.Add(time.Duration(rng.IntN(200)) * time.Microsecond)
		ask(fmt.Sprint("c", rng.IntN(4)), fmt.Sprint("t", n), sharedSession(rng))
	}
	h.now = h.now.Add(time.Duration(rng.IntN(3000)) * time.Millisecond)
	h.n.Advance(h.now)
	return h
}

func crowdTerms(rng *rand.Rand) func(*bus.Task) {
	worth, delta := market.Credits(2_000_000+rng.IntN(60_000_000)), 0.1+rng.Float64()*0.8
	patience := int64(100 + rng.IntN(8000))
	if rng.IntN(4) == 0 {
		worth, patience = worth*50, patience*20
	}
	return func(m *bus.Task) {
		m.Terms = bus.Terms{Worth: &worth, Delta: &delta, PatienceMS: &patience}
	}
}

// sharedSession gives a task a session of a few, whose text is as long as some blocks.
func sharedSession(rng *rand.Rand) func(*bus.Task) {
	s, tokens := fmt.Sprint("s-", rng.IntN(6)), 60+rng.IntN(300)
	return func(m *bus.Task) {
		m.Session, m.Prompt.Tokens, m.Prompt.Bytes = s, tokens, 4*tokens
		m.Prompt.Prefixes = []bus.PrefixHash{{Bytes: 200, Hash: bus.SessionKey("all", s)}}
	}
}
