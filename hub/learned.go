package hub

import (
	"cmp"
	"errors"

	"souk/hub/predict"
)

// Learned appends what the hub has learned of its agents and of answers, for Relearn once it is sealed. It is
// no part of the journal: a hub that lost it begins by what it assumes.
func (n *Node) Learned(to []byte) ([]byte, error) {
	l := predict.Learned{Classes: n.classes, Outputs: n.outputs}
	for _, a := range n.roster {
		l.Agents = append(l.Agents, predict.Learner{ID: a.id, Model: cmp.Or(a.reg.Model, a.learned),
			Means: a.predictor})
	}
	return l.Append(to)
}

// Relearn takes in what an earlier life of the hub had learned, before any agent has joined. On an error
// nothing changes.
func (n *Node) Relearn(data []byte) error {
	for _, a := range n.roster {
		if a.reg.Agent != "" {
			return errors.New("agents have joined already")
		}
	}
	l, err := predict.ReadLearned(n.cfg.Prior, data)
	if err != nil {
		return err
	}
	n.classes, n.outputs = l.Classes, l.Outputs
	for _, x := range l.Agents {
		a := n.enrol(x.ID)
		a.predictor, a.learned, a.kind = x.Means, x.Model, nil
	}
	return nil
}
