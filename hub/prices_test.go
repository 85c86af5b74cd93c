package hub

import (
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
