package hub

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

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
	var answers []byte
	for _, a := range n.roster {
		l.Agents = append(l.Agents, predict.Learner{ID: a.id, Model: cmp.Or(a.reg.Model, a.learned),
			Means: a.predictor})
		answers = a.answers.Append(answers) // in the same order
	}
	forecasts, err := l.MarshalBinary()
	if err != nil {
		return nil, err
	}
	data := []byte(learnedMagic)
	for _, part := range [][]byte{forecasts, answers} {
		data = append(binary.AppendUvarint(data, uint64(len(part))), part...)
	}
	sum := sha256.Sum256(data)
	return append(data, sum[:]...), nil
}

// learnedParts are those of what a hub has learned.
func learnedParts(data []byte) (parts [2][]byte, err error) {
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
	for i := range parts {
		n, size := binary.Uvarint(rest)
		if size <= 0 || n > uint64(len(rest)-size) {
			return parts, fmt.Errorf("part %d ends too early", i)
		}
		parts[i], rest = rest[size:size+int(n)], rest[size+int(n):]
	}
	return parts, nil // what parts of later versions say is passed over
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
	answers := make([]quality.Agent, len(l.Agents))
	if rest := parts[1]; rest != nil {
		for i := range answers {
			if answers[i], rest, err = quality.Read(rest); err != nil {
				return fmt.Errorf("of agent %q: %w", l.Agents[i].ID, err)
			}
		}
		if len(rest) > 0 {
			return fmt.Errorf("%d bytes follow what is known of answers", len(rest))
		}
	}
	n.classes, n.outputs = l.Classes, l.Outputs
	for i, x := range l.Agents {
		a := n.enrol(x.ID)
		a.predictor, a.answers, a.learned, a.kind = x.Means, answers[i], x.Model, nil
	}
	return nil
}
