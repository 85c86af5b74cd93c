package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/mod/sumdb/tlog"

	"souk/ledger"
	"souk/ledger/checkpoint"
	"souk/ledger/tree"
)

// Prove makes the proof that a checkpoint of the journal in dir covers a record, which has this leaf: by the
// hashes that lie beside the log, or, where they are not there or wrong, by all frames. ErrOther says that
// the journal is not the one of the checkpoint.
func Prove(dir string, record int64, leaf, note []byte) (*checkpoint.Proof, error) {
	c, err := checkpoint.Peek(note)
	if err != nil {
		return nil, err
	}
	if record < 0 || record >= c.Size {
		return nil, fmt.Errorf("record %d is not covered by a checkpoint of size %d", record, c.Size)
	}
	p := &checkpoint.Proof{Index: record, Record: leaf, Note: note}
	if files, err := openHashes(dir, false); err == nil {
		defer files.Close()
		if p.Hashes, err = tlog.ProveRecord(c.Size, record, files); err == nil && p.Check(c) == nil {
			return p, nil
		}
	}
	p.Hashes, err = tlog.ProveRecord(c.Size, record, tlog.HashReaderFunc(func(index []int64) ([]tree.Hash,
		error) {
		return pick(dir, c.Size, index)
	}))
	if err != nil {
		return nil, err
	}
	if err := p.Check(c); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", dir, ErrOther, err)
	}
	return p, nil
}

// Place is a place in a log up to which it is what was signed.
type Place struct {
	Frame  uint64 // that it is in, or behind; 0: the begin
	Before int64  // records before that frame
	Size   int64
	Root   tree.Hash // of so many
}

// Difference is a record that is not what was signed.
type Difference struct {
	Record int64
	Frame  uint64
	Leaf   []byte // nil: it is not there, as the log ends before it, in no frame
}

// ErrUnknown says that the hashes beside a log do not tell what was signed.
var ErrUnknown = errors.New("unknown")

// Differs names the first record in which the log in dir is not that of a checkpoint, after a place up to
// which it is: by the leaves beside the log, where they are those that were signed.
func Differs(dir string, from Place, c checkpoint.Checkpoint) (d Difference, err error) {
	files, err := openHashes(dir, false)
	if err != nil {
		return d, fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	defer files.Close()
	was, err := tree.At(from.Size, files)
	if err != nil || from.Size > 0 && was.Root() != from.Root {
		return d, ErrUnknown
	}
	for n := from.Size; n < c.Size; n++ {
		leaf, err := files.ReadHashes([]int64{tlog.StoredHashIndex(0, n)})
		if err != nil {
			return d, fmt.Errorf("%w: %w", ErrUnknown, err)
		}
		was.Append(leaf[0], nil)
	}
	if was.Root() != c.Root {
		return d, ErrUnknown
	}
	n := from.Before
	for e, err := range entries(dir, from.Frame) {
		if err == nil {
			err = e.Leaves(func(leaf []byte) {
				if d.Leaf == nil && n >= from.Size && n < c.Size {
					stored, err := files.ReadHashes([]int64{tlog.StoredHashIndex(0, n)})
					if err == nil && stored[0] != tree.Leaf(leaf) {
						d = Difference{n, e.Seq, bytes.Clone(leaf)}
					}
				}
				n++
			})
		}
		if err != nil || d.Leaf != nil {
			return d, err
		}
	}
	if n < c.Size {
		return Difference{Record: n}, nil
	}
	return d, ErrUnknown
}

// Search looks for a record that names an id, from before a round on, 0 for the first frame, and returns its
// number and its leaf. How many records are before that is what the files beside the log say; whoever makes a
// proof of it sees whether that is right.
func Search(dir string, round uint64, id string, is func(leaf []byte) bool) (record int64, leaf []byte,
	err error) {
	segs, err := segments(walDir(dir))
	if err != nil {
		return 0, nil, err
	}
	frame, n := uint64(1), int64(0)
	if files, err := openHashes(dir, false); err == nil && round > 0 {
		defer files.Close()
		for k := segmentOf(segs, round); k > 0; k-- {
			if n = files.count(segs[k].first - 1); n > 0 {
				frame = segs[k].first
				break
			}
		}
	}
	for e, err := range entries(dir, frame) {
		if err == nil && !bytes.Contains(e.Data, []byte(id)) {
			_, records := ledger.Written(e.Data)
			n += int64(records)
			continue
		}
		if err == nil {
			err = e.Leaves(func(b []byte) {
				if leaf == nil && is(b) {
					record, leaf = n, bytes.Clone(b)
				}
				n++
			})
		}
		if err != nil || leaf != nil {
			return record, leaf, err
		}
	}
	return 0, nil, fmt.Errorf("%s: no such record: %w", dir, fs.ErrNotExist)
}
