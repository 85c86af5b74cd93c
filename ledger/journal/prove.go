package journal

import (
	"fmt"

	"golang.org/x/mod/sumdb/tlog"

	"souk/ledger/checkpoint"
	"souk/ledger/tree"
)

// Prove makes the proof that a checkpoint of the journal in dir covers a record: by the hashes that lie
// beside the log, or, where they are not there or wrong, by all frames. ErrOther says that the journal is not
// the one of the checkpoint.
func Prove(dir string, record int64, note []byte) (*checkpoint.Proof, error) {
	c, err := checkpoint.Peek(note)
	if err != nil {
		return nil, err
	}
	if record < 0 || record >= c.Size {
		return nil, fmt.Errorf("record %d is not covered by a checkpoint of size %d", record, c.Size)
	}
	if files, err := openHashes(dir, false); err == nil {
		defer files.Close()
		if p := files.prove(dir, record, c); p != nil {
			p.Note = note
			return p, nil
		}
	}
	p := &checkpoint.Proof{Index: record, Note: note}
	p.Hashes, err = tlog.ProveRecord(c.Size, record, tlog.HashReaderFunc(func(index []int64) ([]tree.Hash,
		error) {
		all, _, err := pick(dir, c.Size, index, func(at int64, leaf []byte) {
			if at == record {
				p.Record = append([]byte{}, leaf...)
			}
		})
		return all, err
	}))
	if err == nil && c.Size == 1 { // no hash is asked for
		_, _, err = pick(dir, 1, nil, func(_ int64, leaf []byte) { p.Record = append([]byte{}, leaf...) })
	}
	if err != nil {
		return nil, err
	}
	if err := p.Check(c); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", dir, ErrOther, err)
	}
	return p, nil
}

// prove returns the proof if the files have it and it is right.
func (h *hashes) prove(dir string, record int64, c checkpoint.Checkpoint) *checkpoint.Proof {
	proof, err := tlog.ProveRecord(c.Size, record, h)
	if err != nil {
		return nil
	}
	p := &checkpoint.Proof{Index: record, Hashes: proof}
	if p.Record, err = h.record(dir, record); err != nil || p.Check(c) != nil {
		return nil
	}
	return p
}

// record reads a record's leaf where the files say that it is.
func (h *hashes) record(dir string, record int64) (found []byte, err error) {
	frame, at := h.frameOf(record)
	r, err := readerAt(dir, frame)
	for err == nil && r.last < frame {
		var e Entry
		if e, err = r.Next(); err != nil || e.Seq != frame {
			continue
		}
		err = e.Leaves(func(leaf []byte) {
			if at == record {
				found = append([]byte{}, leaf...)
			}
			at++
		})
	}
	return found, err
}
