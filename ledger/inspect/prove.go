package inspect

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"souk/ledger"
	"souk/ledger/checkpoint"
	"souk/ledger/journal"
)

// ErrNotCovered says that no checkpoint covers a record yet: the next one will.
var ErrNotCovered = errors.New("not yet covered")

// Prove makes the proof of a record of the journal in dir: of that which ends a hold, by the hold's id, which
// a receipt has, or of that with an id of its own. It takes the checkpoint that most have signed, of these
// the newest.
func Prove(dir, id string) (*checkpoint.Proof, error) {
	kept, _, err := journal.ReadKept(dir)
	if err != nil {
		return nil, err
	}
	if len(kept) == 0 {
		return nil, fmt.Errorf("%s has no checkpoints, so nothing proves what is in it: its market has no keys to "+
			"sign them: souk auth makes them", dir)
	}
	_, round, _, _ := ledger.ParseHoldID(id)
	for ; ; round = 0 { // the second time by all frames
		held := false
		record, leaf, err := journal.Search(dir, round, id, func(leaf []byte) bool {
			f, err := ledger.DecodeFrame(leaf)
			if err != nil || len(f.Records) != 1 {
				return false
			}
			r := &f.Records[0]
			if r.Hold != nil && r.ID == id {
				held = true
				return false
			}
			return r.ID == id || r.Capture != nil && r.Capture.Hold == id || r.Void != nil &&
				r.Void.Hold == id
		})
		if err == nil {
			var p *checkpoint.Proof
			if p, err = proofOf(dir, record, leaf, kept); err == nil {
				return p, nil
			}
		} else if held {
			err = fmt.Errorf("%w: %s is still held: no record says yet what came of it", ErrNotCovered, id)
		}
		if round == 0 || errors.Is(err, ErrNotCovered) {
			return nil, err
		}
	}
}

// Receipt finds the hold of a task, CLIENT/TASK, that was paid, or else the last that ended, and its journal;
// receipt is "" where there is none.
func Receipt(ctx context.Context, sources []*Source, task string) (of *Source, receipt string, err error) {
	client, id, ok := strings.Cut(task, "/")
	paid := false
	for _, s := range sources {
		if s.Role != ledger.RoleHub || !ok {
			continue
		}
		err := s.Facts(ctx, math.MaxInt64, func(f *ledger.Fact) error {
			switch h := f.Hold; {
			case h == nil || h.Client != client || h.Task != id:
			case f.Record.Capture != nil:
				of, receipt, paid = s, strings.Clone(f.Record.Capture.Hold), true
				return ErrStop
			case !paid:
				of, receipt = s, strings.Clone(f.Record.Void.Hold)
			}
			return nil
		})
		if err != nil {
			return nil, "", err
		}
	}
	return of, receipt, nil
}

func proofOf(dir string, record int64, leaf []byte, kept []journal.Kept) (*checkpoint.Proof, error) {
	var best *journal.Kept
	for i, k := range slices.Backward(kept) {
		if k.Size > record && (best == nil ||
			checkpoint.Signatures(k.Note) > checkpoint.Signatures(best.Note)) {
			best = &kept[i]
		}
	}
	if best == nil {
		return nil, fmt.Errorf("%w: it is record %d, and the last checkpoint is of size %d: come again in a second",
			ErrNotCovered, record, kept[len(kept)-1].Size)
	}
	return journal.Prove(dir, record, leaf, best.Note)
}
