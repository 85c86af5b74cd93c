package hub

import (
	"math/rand/v2"
	"testing"

	"souk/market"
)

// Who waits long in a crowd is told the slot price as it was when it came, and not that waiting costs
// nothing.
func TestTheSlotPriceOfWhoeverWaitsLongIsKept(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-1", "llama", 1, 0.9, card(1, 1, 4))
	a := h.n.lookup("a-1")
	for round := range uint64(1500) { // 25 a second for a minute, at another price each
		a.notePrice(1+round, market.Credits(1000+round))
	}
	if price, round := h.n.priceBefore(a, 1); price != 1000 || round != 1 {
		t.Errorf("of 1,500 rounds ago the price is %s, of round %d", price, round)
	}
	for round := range uint64(100_000) {
		a.notePrice(2000+round, market.Credits(1000+round))
	}
	if len(a.prices) > pricesKept {
		t.Errorf("%d prices are kept", len(a.prices))
	}
}

// Waiting is reckoned at the slot prices of before a task came. Those of rounds since, which its own losing
// bids may have raised, do not count.
func TestTheRoundsThatATaskLostSetNoPriceOfItsWaiting(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	waits, priced := 0, 0
	for n := range uint64(60) {
		h := crowdedHouse(t, seed+n)
		last, _ := h.n.book.LastRound()
		for _, x := range h.waiting() { // as if they had come before the last round, and lost in it
			x.since = last - 1
		}
		for _, a := range h.n.roster {
			if k := len(a.prices); k > 0 && a.prices[k-1].round == last {
				a.prices = a.prices[:k-1]
			}
			a.notePrice(last, market.Credits(1_000_000+n))
		}
		h.weigh(everybody)
		s := &h.n.round
		for i, x := range s.tasks {
			w := s.waits[i]
			if w.Loss == 0 {
				continue
			}
			waits++
			if w.Round > x.since || w.Price == market.Credits(1_000_000+n) {
				t.Fatalf("house %d: %s came after round %d, and is told of the price %s of round %d", n, x.id,
					x.since, w.Price, w.Round)
			}
			if w.Price > 0 {
				priced++
			}
		}
	}
	if waits == 0 || priced == 0 {
		t.Errorf("%d waits, %d of them with a price: the test sees little", waits, priced)
	}
}
