package hub

import (
	"fmt"
	"testing"

	"souk/market"
)

// What an owner's other agents ask is no measure of what one of them may ask.
func TestAnOwnersAgentsVouchForNone(t *testing.T) {
	h := newHouse(t, nil)
	for i, c := range []struct {
		owner string
		price market.Credits
	}{{"fair", 1}, {"dear", 50}, {"dear", 50}, {"dear", 50}, {"dear", 50}} {
		reg := registration(fmt.Sprint("a-", i), "llama", 8, 0.9, card(c.price, c.price, 4*c.price))
		reg.Owner = c.owner
		h.must(h.n.Join(h.now, reg))
		h.run()
	}
	for _, a := range h.n.roster {
		if fair := h.n.fair(a, 1000, 1); fair != (a.owner == "fair") {
			t.Errorf("%s of %s may have the hub's money: %v", a.id, a.owner, fair)
		}
	}
}
