package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

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
				p.Record = bytes.Clone(leaf)
			}
		})
		return all, err
	}))
	if err == nil && c.Size == 1 { // no hash is asked for
		_, _, err = pick(dir, 1, nil, func(_ int64, leaf []byte) { p.Record = bytes.Clone(leaf) })
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
				found = bytes.Clone(leaf)
			}
			at++
		})
	}
	return found, err
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
	Leaf   []byte
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
	r, err := readerAt(dir, from.Frame)
	found := false
	for n := from.Before; err == nil && !found; {
		var e Entry
		if e, err = r.Next(); err != nil || e.Seq < from.Frame {
			continue
		}
		err = e.Leaves(func(leaf []byte) {
			if !found && n >= from.Size && n < c.Size {
				stored, err := files.ReadHashes([]int64{tlog.StoredHashIndex(0, n)})
				if found = err == nil && stored[0] != tree.Leaf(leaf); found {
					d = Difference{n, e.Seq, bytes.Clone(leaf)}
				}
			}
			n++
		})
	}
	if err == nil && !found || err == io.EOF {
		err = ErrUnknown
	}
	return d, err
}

// Search looks for a record from before a round on, 0 for the first frame, and returns its number. How many
// records are before that is what the files beside the log say; whoever makes a proof of it sees whether that
// is right.
func Search(dir string, round uint64, is func(leaf []byte) bool) (record int64, err error) {
	segs, err := segments(walDir(dir))
	if err != nil {
		return 0, err
	}
	frame, before := uint64(1), int64(0)
	if files, err := openHashes(dir, false); err == nil && round > 0 {
		defer files.Close()
		k, _ := slices.BinarySearchFunc(segs[1:], round, func(s segment, round uint64) int {
			n := roundIn(dir, s)
			if n == 0 || n > round {
				return 1
			}
			return -1
		})
		for ; k > 0; k-- { // segs[k] is the last one that begins with a round no later
			if n := files.count(segs[k].first - 1); n > 0 {
				frame, before = segs[k].first, n
				break
			}
		}
	}
	r, err := readerAt(dir, frame)
	at := int64(-1)
	for n := before; err == nil && at < 0; {
		var e Entry
		if e, err = r.Next(); err != nil || e.Seq < frame {
			continue
		}
		err = e.Leaves(func(leaf []byte) {
			if at < 0 && is(leaf) {
				at = n
			}
			n++
		})
	}
	if err == io.EOF {
		err = fmt.Errorf("%s: no such record: %w", dir, fs.ErrNotExist)
	}
	return at, err
}

// roundIn is the number of the first round from the beginning of a segment on; 0: none.
func roundIn(dir string, s segment) (number uint64) {
	r, err := readerAt(dir, s.first)
	for err == nil && number == 0 {
		var e Entry
		if e, err = r.Next(); err != nil {
			break
		}
		f, wrong := e.Frame()
		for i := range f.Records {
			if x := f.Records[i].Round; x != nil {
				number = x.Round.Number
			}
		}
		err = wrong
	}
	return number
}
