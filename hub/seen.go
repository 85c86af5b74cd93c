package hub

import (
	"souk/ledger"
	"souk/market"
)

// expected is what was expected of each edge of a round, for whoever asks later why a task went where it
// went. The tasks stand in the round's order.
func (n *Node) expected(r *market.Round, tasks []*task) []ledger.Seen {
	all := make([]ledger.Seen, 0, len(r.Edges)+len(r.Others))
	for _, edges := range [2][]market.Edge{r.Edges, r.Others} {
		for _, e := range edges {
			a := n.lookup(string(r.Agents[e.Agent].Agent))
			q := n.quoted(tasks[e.Task], a, n.burden(a))
			f := &q.forecast
			all = append(all, ledger.Seen{Prompt: q.prompt, Cached: q.features.Cached, Output: f.Output,
				Evidence: a.evidence(), First: f.TTFT, Least: f.Low, Most: f.High}.Rounded())
		}
	}
	return all
}

// evidence is what the belief about an agent's cache rests on.
func (a *agent) evidence() ledger.Evidence {
	switch {
	case a.belief.Rules():
		return ledger.EvidenceEvents
	case a.belief.Speaks():
		return ledger.EvidencePartly
	}
	return ledger.EvidenceSent
}
