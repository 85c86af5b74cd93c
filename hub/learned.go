package hub

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"souk/hub/congest"
	"souk/hub/predict"
	"souk/hub/quality"
)

// learnedMagic begins what a hub has learned: then each part with its length before it, and a sum of all at
// the end. Hubs of earlier versions wrote the first part alone, as it is.
const learnedMagic = "souk learned parts 1\n"

// Learned is what the hub has learned of its agents and of answers, for Relearn. It is no part of the
// journal: a hub that lost it begins by what it assumes.
func (n *Node) Learned() ([]byte, error) {
	l := predict.Learned{Classes: n.classes, Outputs: n.outputs}
	var answers, loads []byte // in the same order
	for _, a := range n.roster {
		l.Agents = append(l.Agents, predict.Learner{ID: a.id, Model: cmp.Or(a.reg.Model, a.learned),
			Means: a.predictor})
		answers, loads = a.answers.Append(answers), a.load.Append(loads)
	}
	forecasts, err := l.MarshalBinary()
	if err != nil {
		return nil, err
	}
	data := []byte(learnedMagic)
	for _, part := range [][]byte{forecasts, answers, loads} {
		data = append(binary.AppendUvarint(data, uint64(len(part))), part...)
	}
	sum := sha256.Sum256(data)
	return append(data, sum[:]...), nil
}

// learnedParts are those of what a hub has learned.
func learnedParts(data []byte) (parts [3][]byte, err error) {
	rest, ok := bytes.CutPrefix(data, []byte(learnedMagic))
	if !ok {
		parts[0] = data
		return parts, nil
	}
	end := len(data) - sha256.Size
	if end < len(learnedMagic) {
		return parts, errors.New("it ends too early")
	}
	if sum := sha256.Sum256(data[:end]); !bytes.Equal(sum[:], data[end:]) {
		return parts, errors.New("it is damaged: its sum is another")
	}
	rest = rest[:len(rest)-sha256.Size]
	for i := 0; i < len(parts) && len(rest) > 0; i++ {
		n, size := binary.Uvarint(rest)
		if size <= 0 || n > uint64(len(rest)-size) {
			return parts, fmt.Errorf("part %d ends too early", i)
		}
		parts[i], rest = rest[size:size+int(n)], rest[size+int(n):]
	}
	return parts, nil // what parts of later versions say is passed over
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
	parts, err := learnedParts(data)
	if err != nil {
		return err
	}
	l, err := predict.ReadLearned(n.cfg.Prior, parts[0])
	if err != nil {
		return err
	}
	answers, err := readAll(parts[1], l.Agents, quality.Read)
	if err != nil {
		return err
	}
	loads, err := readAll(parts[2], l.Agents, congest.Read)
	if err != nil {
		return err
	}
	n.classes, n.outputs = l.Classes, l.Outputs
	for i, x := range l.Agents {
		a := n.enrol(x.ID)
		a.load.Leave()
		a.predictor, a.answers, a.load = x.Means, answers[i], loads[i]
		a.learned, a.kind = x.Model, nil
	}
	return nil
}
