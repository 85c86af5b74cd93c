package hub

import (
	"souk/ledger"
	"souk/market"
)

// seenAt is an agent of a round, and what is expected there.
type seenAt struct {
	agent    *agent
	backlog  backlog
	evidence ledger.Evidence
}

// expected is what was expected of each edge of a round, for whoever asks later why a task went where it
// went. The tasks stand in the round's order.
func (n *Node) expected(r *market.Round, tasks []*task) []ledger.Seen {
	all := make([]ledger.Seen, 0, len(r.Edges)+len(r.Others))
	seen := n.round.seen[:0]
	for i := range r.Agents {
		a := n.lookup(string(r.Agents[i].Agent))
		seen = append(seen, seenAt{a, n.backlog(a), a.evidence()})
	}
	n.round.seen = seen
	for _, edges := range [2][]market.Edge{r.Edges, r.Others} {
		for i := range edges {
			x := &seen[edges[i].Agent]
			t := tasks[edges[i].Task]
			held := n.heldBy(t, x.agent)
			q := n.noted(t, x.agent, held)
			f := x.agent.predictor.Timed(q.first, q.work, q.output, x.backlog)
			all = append(all, ledger.Seen{Prompt: q.prompt, Cached: held.cached, Output: f.Output,
				Evidence: x.evidence, First: f.TTFT, Least: f.Low, Most: f.High}.Rounded())
		}
	}
	return all
}

// evidence is what is expected of an agent's cache rests on.
func (a *agent) evidence() ledger.Evidence {
	switch {
	case a.cache.Rules():
		return ledger.EvidenceEvents
	case a.cache.Speaks():
		return ledger.EvidencePartly
	}
	return ledger.EvidenceSent
}

// seconds is what a second of a slot of each agent of a round cost when its tolls were made; nil: nothing.
func (n *Node) seconds(r *market.Round) []market.Credits {
	all := make([]market.Credits, len(r.Agents))
	some := false
	for i := range r.Agents {
		k := n.round.at[n.lookup(string(r.Agents[i].Agent)).place] - 1
		all[i] = n.round.sides[k].Second
		some = some || all[i] > 0
	}
	if !some {
		return nil
	}
	return all
}

// waited says who of a round's tasks was left by rounds before. They stand in the round's order.
func waited(tasks []*task) (all []ledger.Waited) {
	for i, t := range tasks {
		if t.rounds == 0 {
			continue
		}
		w := ledger.Waited{Task: i, For: max(0, t.waited.Round(ledger.SeenStep)), Rounds: t.rounds}
		if t.plannedFor != nil {
			w.Agent = t.plannedFor.id
		}
		all = append(all, w)
	}
	return all
}
