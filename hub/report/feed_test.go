package report

import (
	"testing"

	"souk/bus"
	"souk/ledger"
	"souk/market"
)

// Of a large round some awards are shown, and the sums of all.
func TestALargeRoundIsShownWithItsSums(t *testing.T) {
	r := &ledger.Round{Round: market.Round{Number: 7, Rule: market.Rule{Pricing: market.PricingPosted}}}
	for i := range market.Credits(40) {
		r.Round.Tasks = append(r.Round.Tasks, market.Task{})
		r.Outcome.Awards = append(r.Outcome.Awards, market.Award{Premium: i, SlotPrice: i})
	}
	x := Shown(r, 1)
	if len(x.Awards) != bus.MaxFeedTasks || x.Given != 40 || x.Premiums != 780 || x.SlotPrice != 39 ||
		x.More != 40-bus.MaxFeedTasks {
		t.Errorf("%d awards are shown of %d, premiums %d, the dearest slot %d, %d more", len(x.Awards), x.Given,
			x.Premiums, x.SlotPrice, x.More)
	}
}
