package hub_test

import (
	"fmt"
	"testing"

	"souk/market"
)

// What an owner's other agents ask is no measure of what one of them may ask.
func TestAnOwnersAgentsVouchForNone(t *testing.T) {
	h := newHouse(t, nil)
	owners := map[string]string{}
	for i, c := range []struct {
		owner string
		price market.Credits
	}{{"fair", 1}, {"dear", 50}, {"dear", 50}, {"dear", 50}, {"dear", 50}} {
		reg := registration(fmt.Sprint("a-", i), "llama", 8, 0.9, card(c.price, c.price, 4*c.price))
		reg.Owner, owners[reg.Agent] = c.owner, c.owner
		h.must(h.register(reg))
		h.run()
	}
	for id, owner := range owners {
		if fair := h.n.Fair(id, 1000, 1); fair != (owner == "fair") {
			t.Errorf("%s of %s may have the hub's money: %v", id, owner, fair)
		}
	}
}
