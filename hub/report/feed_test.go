package report

import (
	"fmt"
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

// What it takes a hub to be watched for a second, by one or by many: four rounds in each of ten feeds, of 24
// tasks that want the 16 slots of eight agents, and once the hub with 1,000 agents.
func BenchmarkFeed(b *testing.B) {
	in := market.Round{Number: 1, Rule: market.Rule{Pricing: market.PricingVCG, Settle: market.SettleMetered,
		Clarke: market.ClarkeTask}}
	for i := range 8 {
		in.Agents = append(in.Agents, market.Supply{Agent: market.AgentID(fmt.Sprint("a-", i)),
			Seats: []market.Seat{{Slots: 2}}})
	}
	for i := range 24 {
		in.Tasks = append(in.Tasks, market.Task{ID: market.TaskID(fmt.Sprintf("c/t-%02d", i)), Client: "c"})
		for k := range in.Agents {
			in.Edges = append(in.Edges, market.Edge{Task: i, Agent: k, Value: market.Credits(1000 + 37*i%400),
				Cost: market.Credits(100 + 11*k)})
		}
	}
	out, err := market.Clear(in)
	if err != nil || len(out.Awards) != 16 {
		b.Fatal(len(out.Awards), err)
	}
	r := &ledger.Round{Round: in, Outcome: out}
	st := New()
	for i := range 1000 {
		st.Agents = append(st.Agents, AgentStats{Agent: fmt.Sprint("agent-", i), Model: "m", Slots: 4})
	}
	for b.Loop() {
		for n := range 10 {
			x := &bus.Feed{Domain: "d", Journal: "j"}
			for range bus.MaxFeedRounds {
				x.Rounds = append(x.Rounds, Shown(r, 1))
			}
			if n == 0 {
				x.State = st.State(ledger.Totals{})
			}
			if _, err := bus.Encode(x); err != nil {
				b.Fatal(err)
			}
		}
	}
}
