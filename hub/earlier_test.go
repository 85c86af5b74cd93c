package hub_test

import (
	"fmt"
	"slices"
	"testing"

	"souk/bus/learned"
	"souk/hub"
)

// A hub that knows more agents than it keeps forgets those of its earlier life that do not come back before
// those that it has seen.
func TestAgentsOfAnEarlierLifeAreForgottenFirst(t *testing.T) {
	before := newHouse(t, nil)
	for i := range 10 {
		before.join(fmt.Sprint("old-", i), "llama", 1, 0.9, card(1, 1, 4))
	}
	data, err := before.n.Forecasts.Learned(nil)
	before.must(err)
	data, err = learned.Sealed(data)
	before.must(err)
	h := newHouse(t, func(c *hub.Config) { c.MaxAgents = 2 })
	h.must(h.n.Forecasts.Relearn(data))
	for range 20 {
		h.join("new", "llama", 1, 0.9, card(1, 1, 4))
		h.leave("new")
	}
	if known := h.n.Known(); !slices.Contains(known, "new") || len(known) != 4 {
		t.Errorf("%d agents are known, want 4 and the new one among them", len(known))
	}
}
