package report

import (
	"cmp"
	"slices"

	"souk/bus"
	"souk/ledger"
	"souk/market"
)

// State shows a hub as a whole to those who look on: its counts, its money, and some of its agents.
func (s *Stats) State(t ledger.Totals) *bus.FeedState {
	x := &bus.FeedState{Tasks: s.Arrived, Served: s.Captured, Rounds: s.Rounds, Awards: s.Awards,
		Stopped: s.Stopped, Faults: s.Faults, Waiting: s.Waiting, Running: s.Holds, Avail: t.Avail,
		Held:    t.Held,
		Surplus: t.Surplus, Fee: t.Fee, Payable: t.Payable}
	for code, n := range s.Tasks {
		if code != "" {
			x.Refused += n
		}
	}
	var there []AgentStats
	for _, a := range s.Agents {
		if a.Agent != "" && a.Slots > 0 && a.State != "gone" {
			there = append(there, a)
		}
	}
	x.Fleet = len(there)
	slices.SortStableFunc(there, func(a, b AgentStats) int {
		return cmp.Or(-cmp.Compare(a.State, b.State), cmp.Compare(b.Running, a.Running))
	})
	for _, a := range there[:min(len(there), bus.MaxFeedAgents)] {
		x.Agents = append(x.Agents, bus.FeedAgent{Agent: a.Agent, Model: a.Model, State: a.State,
			Slots:   a.Slots,
			Running: min(a.Running, bus.MaxSlots), Free: a.Free, Tasks: a.Tasks,
			Prompt: int64(a.Usage.Prompt),
			Cached: int64(a.Usage.Cached), Cost: a.Cost, Failed: a.Refused + a.Failed + a.Expired + a.Dead})
	}
	return x
}

// mostExplained bounds the pairs of a task and an agent of a round of which it is said what would have won:
// that takes the round to be checked once more.
const mostExplained = 2000

// Shown returns a round as those who look on see it, which was recorded at a time, in Unix milliseconds.
func Shown(r *ledger.Round, atMS int64) bus.FeedRound {
	in, out := &r.Round, &r.Outcome
	p := in.Pruned
	x := bus.FeedRound{Number: in.Number, AtMS: atMS, Pricing: in.Rule.Pricing,
		Instead: in.Rule.Instead != "", Given: len(out.Awards), Agents: len(in.Agents),
		Tasks: len(in.Tasks) + p.Tasks + p.Planned + p.Beyond, Welfare: max(0, out.Welfare)}
	for slot, a := range out.Awards {
		x.Premiums, _ = x.Premiums.Add(a.Premium)
		x.SlotPrice = max(x.SlotPrice, a.SlotPrice)
		if len(x.Awards) < bus.MaxFeedTasks {
			x.Awards = append(x.Awards, bus.FeedAward{Slot: slot, Agent: string(a.Agent), Value: a.Value,
				Cost: a.Cost, Premium: a.Premium, SlotPrice: a.SlotPrice})
		}
	}
	if len(in.Edges) <= mostExplained && len(in.Tasks) > len(out.Awards) &&
		in.Rule.Pricing != market.PricingPosted {
		if e, err := market.Explain(*in, *out); err == nil {
			for i := range e.Tasks {
				if l, ok := left(&e.Tasks[i]); ok && len(x.Left) < bus.MaxFeedTasks {
					x.Left = append(x.Left, l)
				}
			}
		}
	}
	x.More = x.Tasks - len(x.Awards) - len(x.Left)
	return x
}

// left says of a task without a slot where it lacked least for one.
func left(t *market.TaskExplanation) (l bus.FeedLeft, ok bool) {
	if t.Award != nil {
		return l, false
	}
	for _, o := range t.Options {
		if lacks := o.Needed - o.Value; !o.Cut && (!ok || lacks < l.Needed-l.Value) {
			within := func(c market.Credits) market.Credits {
				return max(-market.MaxCredits, min(market.MaxCredits, c))
			}
			l, ok = bus.FeedLeft{Agent: string(o.Agent), Value: within(o.Value), Needed: within(o.Needed)},
				true
		}
	}
	if t.Planned != nil { // it has won a slot that is to come
		l.Agent, l.Needed, l.Planned = string(t.Planned.Agent), 0, true
	}
	return l, ok
}
