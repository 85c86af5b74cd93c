package hub

import (
	"cmp"
	"slices"

	"souk/ledger"
	"souk/market"
)

// seenAt is an agent of a round, and what is expected there.
type seenAt struct {
	agent    *agent
	burden   burden
	evidence ledger.Evidence
}

// expected is what was expected of each edge of a round, for whoever asks later why a task went where it
// went: of those that are awarded, by the steps of their engines where that errs less. The tasks stand in the
// round's order.
func (n *Node) expected(r *market.Round, tasks []*task, won []won) []ledger.Seen {
	all := make([]ledger.Seen, 0, len(r.Edges)+len(r.Others))
	seen := n.round.seen[:0]
	for i := range r.Agents {
		a := n.lookup(string(r.Agents[i].Agent))
		seen = append(seen, seenAt{a, n.burden(a), a.evidence()})
	}
	n.round.seen = seen
	for _, edges := range [2][]market.Edge{r.Edges, r.Others} {
		for i := range edges {
			x := &seen[edges[i].Agent]
			t := tasks[edges[i].Task]
			held := n.heldBy(t, x.agent)
			q := n.noted(t, x.agent, held)
			f := x.agent.predictor.Timed(q.first, q.work, q.output, x.burden)
			all = append(all, ledger.Seen{Prompt: q.prompt, Cached: held.cached, Output: f.Output,
				Evidence: x.evidence, First: f.TTFT, Least: f.Low, Most: f.High}.Rounded())
		}
	}
	for k := range won {
		w := &won[k]
		at := slices.IndexFunc(seen, func(x seenAt) bool { return x.agent == w.agent })
		edge, ok := slices.BinarySearchFunc(r.Edges, market.Edge{Task: w.at, Agent: at}, byPair)
		if !ok {
			continue
		}
		a, q := w.agent, &w.quote
		path := a.queue.Path(a.predictor, n.nano, q.prompt, q.features.Cached)
		f := a.predictor.Along(q.forecast, path)
		all[edge] = ledger.Seen{Prompt: q.prompt, Cached: q.features.Cached, Output: f.Output,
			Evidence: seen[at].evidence, First: f.TTFT, Least: f.Low, Most: f.High}.Rounded()
	}
	return all
}

// byPair is the order of a round's edges.
func byPair(a, b market.Edge) int {
	return cmp.Or(cmp.Compare(a.Task, b.Task), cmp.Compare(a.Agent, b.Agent))
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
