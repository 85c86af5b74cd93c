package witness

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"souk/ledger/checkpoint"
)

// Public lists the witnesses that the policy names with a URL, where each is asked as C2SP's tlog-witness has
// it.
func (p *Party) Public() (all []checkpoint.Witness) {
	for _, w := range p.policy.Witnesses {
		if w.URL != "" && w.Key.Name() != p.Origin {
			all = append(all, w)
		}
	}
	return all
}

// Submit returns the request that has a public witness cosign the last checkpoint; nil where it has.
func (p *Party) Submit(w checkpoint.Witness) ([]byte, error) {
	if p.note == nil || p.Doubt != "" || p.held[w.Name] >= p.last.Size {
		return nil, nil
	}
	_, old, proof, err := p.proven(p.held[w.Name])
	if err != nil {
		return nil, err
	}
	body := fmt.Appendf(nil, "old %d\n", old)
	for h := range slices.Chunk(proof, sha256.Size) {
		body = base64.StdEncoding.AppendEncode(body, h)
		body = append(body, '\n')
	}
	return append(append(body, '\n'), p.note...), nil
}

// Conflict takes in that a public witness has cosigned a checkpoint of another size last than it was told of.
func (p *Party) Conflict(w checkpoint.Witness, size int64) error {
	if size < 0 || size > p.last.Size {
		return fmt.Errorf("witness %s says that it has cosigned %d records of %s, which has signed %d", w.Name, size,
			p.Origin, p.last.Size)
	}
	if size == p.held[w.Name] {
		return fmt.Errorf("witness %s asks for a proof from record %d on, and takes none", w.Name, size)
	}
	p.held[w.Name] = size
	return nil
}

// Answered takes in the lines by which a public witness cosigned what Submit returned, and returns the
// checkpoint to be kept.
func (p *Party) Answered(w checkpoint.Witness, submitted, lines []byte) ([]byte, error) {
	_, signed, ok := strings.Cut(string(submitted), "\n\n")
	if !ok || len(lines) == 0 || len(lines) > maxNote {
		return nil, errors.New("the answer has no signature, or too many")
	}
	whole := append([]byte(signed), lines...)
	sigs, err := checkpoint.Open(whole, w.Key)
	if err == nil && len(sigs) == 0 {
		err = checkpoint.ErrUnproven
	}
	if err != nil {
		return nil, fmt.Errorf("the answer of witness %s is no signature of it on what it was sent: %w", w.Name, err)
	}
	had := p.held[w.Name] > 0
	keep, err := p.cosigned(w.Name, whole)
	p.heard = p.heard || keep != nil && had
	return keep, err
}
