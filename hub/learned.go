package hub

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"souk/bus/congest"
	"souk/hub/predict"
	"souk/hub/quality"
)

// learnedMagic begins what a hub has learned: then what is known of agents' answers, and of how load slows
// them, each with its length before it, the forecasts, and a sum of all at the end. Hubs of earlier versions
// wrote the forecasts alone, with a sum.
const learnedMagic = "souk learned parts 1\n"

// Learned appends what the hub has learned of its agents and of answers, for Relearn once it is sealed. It is
// no part of the journal: a hub that lost it begins by what it assumes.
func (n *Node) Learned(to []byte) ([]byte, error) {
	l := predict.Learned{Classes: n.classes, Outputs: n.outputs}
	var answers, loads []byte // in the same order
	for _, a := range n.roster {
		l.Agents = append(l.Agents, predict.Learner{ID: a.id, Model: cmp.Or(a.reg.Model, a.learned),
			Means: a.predictor})
		answers, loads = a.answers.Append(answers), a.load.Append(loads)
	}
	to = append(to, learnedMagic...)
	for _, part := range [][]byte{answers, loads} {
		to = append(binary.AppendUvarint(to, uint64(len(part))), part...)
	}
	return l.Append(to)
}

// sealed has a sum at its end.
func sealed(data []byte) []byte {
	sum := sha256.Sum256(data)
	return append(data, sum[:]...)
}

// learnedParts are those of what a hub has learned: forecasts, with a sum of their own, answers and loads.
func learnedParts(data []byte) (forecasts, answers, loads []byte, err error) {
	end := len(data) - sha256.Size
	switch {
	case !bytes.HasPrefix(data, []byte(learnedMagic)):
		return data, nil, nil, nil
	case end < len(learnedMagic):
		return nil, nil, nil, errors.New("it ends too early")
	case !bytes.Equal(sealed(slices.Clone(data[:end])), data):
		return nil, nil, nil, errors.New("it is damaged: its sum is another")
	}
	rest := data[len(learnedMagic):end]
	for _, part := range []*[]byte{&answers, &loads} {
		n, size := binary.Uvarint(rest)
		if size <= 0 || n > uint64(len(rest)-size) {
			return nil, nil, nil, errors.New("a part of it ends too early")
		}
		*part, rest = rest[size:size+int(n)], rest[size+int(n):]
	}
	return sealed(slices.Clone(rest)), answers, loads, nil
}

// readAll reads what a part says of each agent; of a part that is not there, nothing of any.
func readAll[T any](part []byte, agents []predict.Learner,
	read func([]byte) (T, []byte, error)) ([]T, error) {
	all := make([]T, len(agents))
	if part == nil {
		return all, nil
	}
	for i := range all {
		var err error
		if all[i], part, err = read(part); err != nil {
			return nil, fmt.Errorf("of agent %q: %w", agents[i].ID, err)
		}
	}
	if len(part) > 0 {
		return nil, fmt.Errorf("%d bytes follow what is known of %d agents", len(part), len(all))
	}
	return all, nil
}

// Relearn takes in what an earlier life of the hub had learned, before any agent has joined. On an error
// nothing changes.
func (n *Node) Relearn(data []byte) error {
	for _, a := range n.roster {
		if a.reg.Agent != "" {
			return errors.New("agents have joined already")
		}
	}
	forecasts, known, loaded, err := learnedParts(data)
	if err != nil {
		return err
	}
	l, err := predict.ReadLearned(n.cfg.Prior, forecasts)
	if err != nil {
		return err
	}
	answers, err := readAll(known, l.Agents, quality.Read)
	if err != nil {
		return err
	}
	loads, err := readAll(loaded, l.Agents, congest.Read)
	if err != nil {
		return err
	}
	n.classes, n.outputs = l.Classes, l.Outputs
	for i, x := range l.Agents {
		a := n.enrol(x.ID)
		a.load.Leave()
		a.predictor, a.answers, a.load = x.Means, answers[i], loads[i]
		a.along = predict.Line{}
		a.learned, a.kind = x.Model, nil
	}
	return nil
}
