package journal

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"souk/bus/regular"
	"souk/ledger/checkpoint"
	"souk/ledger/tree"
)

// Checkpoints are kept as files, each put in its place whole and never synced: whoever cosigned one knows it,
// too.
//
//	checkpoints/FRAME-SIZE.note
//
// With age, which is how many records came since, fewer of them are kept: one goes where the gap that it
// leaves is less than a quarter of its age, unless it has more signatures than all later ones. The first one
// stays, and so do the last.
const (
	keptSuffix = ".note"
	// keepLast so many are kept without a look at their age: some that a witness has not answered yet.
	keepLast = 16
	// maxKept bounds those that are read: more than are ever kept.
	maxKept = 1024
)

// Kept is a checkpoint that lies beside the log.
type Kept struct {
	Frame uint64
	checkpoint.Checkpoint
	Note []byte
	Path string
}

// Head of the tree that was signed.
func (k *Kept) Head() tree.Head { return tree.Head{Frame: k.Frame, Size: k.Size, Root: k.Root} }

func keptDir(dir string) string { return filepath.Join(dir, "checkpoints") }

// ReadKept reads the checkpoints that are kept in a journal's directory, the oldest first. Their signatures
// are for others to judge. wrong says what is there and is no checkpoint: one that a crash tore, or damage.
func ReadKept(dir string) (kept []Kept, wrong []error, err error) {
	entries, err := os.ReadDir(keptDir(dir)) // sorted by name
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		if filepath.Ext(e.Name()) != keptSuffix {
			continue
		}
		if len(kept)+len(wrong) == maxKept {
			return kept, append(wrong, fmt.Errorf("%s has more than %d checkpoints", keptDir(dir), maxKept)), nil
		}
		k, err := readKept(filepath.Join(keptDir(dir), e.Name()))
		switch {
		case errors.Is(err, fs.ErrNotExist): // another took its place
		case err != nil:
			wrong = append(wrong, err)
		default:
			kept = append(kept, k)
		}
	}
	slices.SortStableFunc(kept, func(a, b Kept) int { return cmp.Compare(a.Size, b.Size) })
	return kept, wrong, nil
}

func readKept(path string) (Kept, error) {
	k := Kept{Path: path}
	var size int64
	if n, err := fmt.Sscanf(filepath.Base(path), "%016x-%016x"+keptSuffix, &k.Frame, &size); n != 2 ||
		err != nil {
		return k, fmt.Errorf("%s: no name of a checkpoint", path)
	}
	var err error
	if k.Note, err = regular.Read(path, checkpoint.MaxNote); err != nil {
		return k, err
	}
	if k.Checkpoint, err = checkpoint.Peek(k.Note); err != nil {
		return k, fmt.Errorf("%s: %w", path, err)
	}
	if filepath.Base(path) != keptName(k.Head()) || k.Size != size {
		return k, fmt.Errorf("%s: a checkpoint of size %d under another's name", path, k.Size)
	}
	return k, nil
}

func keptName(h tree.Head) string { return fmt.Sprintf("%016x-%016x%s", h.Frame, h.Size, keptSuffix) }

// keep puts a note among those that are kept, and returns what is to be kept of all. Of one size the
// signatures of all who have signed it are kept.
func keep(dir string, all []Kept, frame uint64, note []byte) ([]Kept, error) {
	c, err := checkpoint.Peek(note)
	if err != nil {
		return all, err
	}
	k := Kept{Frame: frame, Checkpoint: c, Note: note}
	k.Path = filepath.Join(keptDir(dir), keptName(k.Head()))
	at, found := slices.BinarySearchFunc(all, k.Size, func(k Kept, size int64) int {
		return cmp.Compare(k.Size, size)
	})
	if found { // what is of another tree, or too much, gives way
		if more, err := checkpoint.Merge(all[at].Note, note); err == nil {
			k.Note = more
		}
	}
	if err := os.MkdirAll(keptDir(dir), 0o700); err != nil {
		return all, err
	}
	if err := regular.Write(k.Path+".new", k.Note); err != nil {
		return all, errors.Join(err, os.Remove(k.Path+".new")) // what was kept stays
	}
	if err := os.Rename(k.Path+".new", k.Path); err != nil {
		return all, err
	}
	if found {
		all[at] = k
	} else {
		all = slices.Insert(all, at, k)
	}
	for _, i := range slices.Backward(thinned(all)) {
		if err := os.Remove(all[i].Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return all, err
		}
		all = slices.Delete(all, i, i+1)
	}
	return all, nil
}

// thinned returns which of these may go, the oldest first.
func thinned(all []Kept) (gone []int) {
	if len(all) <= keepLast {
		return nil
	}
	now, most := all[len(all)-1].Size, 0
	signed := make([]int, len(all)) // the most signatures that one after it has
	for i := len(all) - 1; i >= 0; i-- {
		signed[i] = most
		most = max(most, checkpoint.Signatures(all[i].Note))
	}
	before := all[0].Size // of the last that stays
	for i := 1; i < len(all)-keepLast; i++ {
		if gap := all[i+1].Size - before; gap < (now-all[i].Size)/4 &&
			checkpoint.Signatures(all[i].Note) <= signed[i] {
			gone = append(gone, i)
			continue
		}
		before = all[i].Size
	}
	return gone
}
