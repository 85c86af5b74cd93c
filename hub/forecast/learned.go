package forecast

import (
	"cmp"
	"errors"

	"souk/bus/learned"
	"souk/hub/predict"
	"souk/hub/quality"
)

// saved holds what a hub has learned of its agents and of answers, as plain numbers. It is no part of the
// journal: a hub that lost it begins by what it assumes.
type saved struct {
	Forecasts *predict.Saved
	Answers   []quality.Agent // by agent, as the forecasts have them
}

// Learned appends what was learned of agents, by id, and of answers, for Relearn once it is sealed.
func (r *Room) Learned(to []byte) (_ []byte, err error) {
	l, all := predict.Learned{Classes: r.Lines, Outputs: r.Outputs}, saved{}
	for _, a := range r.agents {
		l.Agents = append(l.Agents, predict.Learner{ID: a.ID(), Model: cmp.Or(a.Reg().Model, a.learned),
			Means: a.Means})
		all.Answers = append(all.Answers, a.Answers.Said)
	}
	if all.Forecasts, err = l.Saved(); err != nil {
		return nil, err
	}
	return learned.Append(to, &all)
}

// Relearn takes in what an earlier life of the hub had learned, before any agent has joined. On an error
// nothing changes.
func (r *Room) Relearn(data []byte) error {
	for _, a := range r.agents {
		if a.Reg().Agent != "" {
			return errors.New("agents have joined already")
		}
	}
	var all saved
	if err := learned.Read(data, &all); err != nil {
		return err
	}
	l, err := all.Forecasts.Restore(r.Gates)
	if err != nil {
		return err
	}
	r.Lines, r.Outputs = l.Classes, l.Outputs
	for i, x := range l.Agents {
		a := r.enrol(x.ID)
		a.learned, a.class, a.Means = x.Model, nil, x.Means
		a.Answers.Said = all.Answers[i]
	}
	return nil
}
