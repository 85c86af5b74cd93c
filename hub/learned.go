package hub

import (
	"cmp"
	"errors"
	"fmt"

	"souk/bus/learned"
	"souk/hub/predict"
	"souk/hub/quality"
)

// Learned is what a hub has learned of its agents and of answers, as plain numbers. It is no part of the
// journal: a hub that lost it begins by what it assumes.
type Learned struct {
	Forecasts *predict.Saved
	Answers   []quality.Agent // by agent, as the forecasts have them
}

// Learned appends what the hub has learned, for Relearn once it is sealed.
func (n *Node) Learned(to []byte) ([]byte, error) {
	l, all := predict.Learned{Classes: n.classes, Outputs: n.outputs}, Learned{}
	for _, a := range n.roster {
		l.Agents = append(l.Agents, predict.Learner{ID: a.id, Model: cmp.Or(a.reg.Model, a.learned),
			Means: a.predictor})
		all.Answers = append(all.Answers, a.answers)
	}
	var err error
	if all.Forecasts, err = l.Saved(); err != nil {
		return nil, err
	}
	return learned.Append(to, &all)
}

// Relearn takes in what an earlier life of the hub had learned, before any agent has joined. On an error
// nothing changes.
func (n *Node) Relearn(data []byte) error {
	for _, a := range n.roster {
		if a.reg.Agent != "" {
			return errors.New("agents have joined already")
		}
	}
	var all Learned
	if err := learned.Read(data, &all); err != nil {
		return err
	}
	if err := learned.Check(&all, 1e40); err != nil {
		return err
	}
	if all.Forecasts == nil || len(all.Answers) != len(all.Forecasts.Agents) {
		return errors.New("it is not of the same agents throughout")
	}
	for i, a := range all.Forecasts.Agents {
		if !all.Answers[i].Valid() {
			return fmt.Errorf("what is known of agent %q does not fit together", a.ID)
		}
	}
	l, err := all.Forecasts.Restore(n.cfg.Prior, n.cfg.Parts.Gates)
	if err != nil {
		return err
	}
	n.classes, n.outputs = l.Classes, l.Outputs
	for i, x := range l.Agents {
		a := n.enrol(x.ID)
		a.predictor, a.answers = x.Means, all.Answers[i]
		a.along = predict.Line{}
		a.learned, a.kind = x.Model, nil
	}
	return nil
}
