package round

import (
	"slices"

	"souk/hub/estimate"
	"souk/ledger"
	"souk/market"
)

// Seen returns the forecast of each edge of the round, as its record has it, for whoever asks later why a
// task went where it went. of says it of an offer, at such a time.
func (c *Cleared) Seen(now int64, waiters []estimate.Waiter,
	of func(now int64, o *estimate.Offer) ledger.Seen) []ledger.Seen {
	all := make([]ledger.Seen, 0, len(c.Round.Edges)+len(c.Round.Others))
	for _, edges := range [2][]market.Edge{c.Round.Edges, c.Round.Others} {
		for _, x := range edges {
			agent, offers := c.Agents[x.Agent], waiters[c.Tasks[x.Task]].Offers
			k := slices.IndexFunc(offers, func(o estimate.Offer) bool { return o.Agent == agent })
			all = append(all, of(now, &offers[k]).Rounded())
		}
	}
	return all
}

// Waited says who of the round's tasks was left by rounds before. planned is where a waiter was last planned
// for a seat to come; "": nowhere.
func (c *Cleared) Waited(waiters []estimate.Waiter, planned func(waiter int32) string) (all []ledger.Waited) {
	for i, k := range c.Tasks {
		if w := &waiters[k]; w.Rounds > 0 {
			all = append(all, ledger.Waited{Task: i, For: max(0, w.Waited.Round(ledger.SeenStep)),
				Rounds: w.Rounds, Agent: planned(k)})
		}
	}
	return all
}
