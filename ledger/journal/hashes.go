package journal

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"souk/bus/regular"
	"souk/ledger"
	"souk/ledger/tree"
)

// The hashes of a journal's tree lie in two files beside the log, written behind it and never synced:
//
//	tree/hashes    32 bytes each, as tlog stores them
//	tree/frames    8 bytes for each frame, little-endian: the records up to its end
//
// They prove nothing and only save time. Whoever reads them checks what follows from them against a root that
// was computed from the log, or was signed, and makes them anew where they are wrong.
const (
	hashBytes  = tlog.HashSize
	countBytes = 8
	// maxHashes bounds the file that is read: of a journal with a billion records.
	maxHashes = 2 * hashBytes << 30
)

func treeDir(dir string) string { return filepath.Join(dir, "tree") }

// hashes are the two files.
type hashes struct{ hashes, frames *os.File }

// openHashes opens the files to be read, or to be written as well, and made where they are not there.
func openHashes(dir string, write bool) (*hashes, error) {
	if write {
		if err := os.MkdirAll(treeDir(dir), 0o700); err != nil {
			return nil, err
		}
	}
	open := func(name string) (*os.File, error) {
		path := filepath.Join(treeDir(dir), name)
		if write {
			return regular.Update(path)
		}
		return regular.Open(path, maxHashes)
	}
	h := &hashes{}
	var err error
	if h.hashes, err = open("hashes"); err != nil {
		return nil, err
	}
	if h.frames, err = open("frames"); err != nil {
		h.hashes.Close()
		return nil, err
	}
	return h, nil
}

// tempHashes are files that no name leads to.
func tempHashes() (h *hashes, err error) {
	dir, err := os.MkdirTemp("", "souk-tree-")
	if err == nil {
		h, err = openHashes(dir, true)
	}
	return h, errors.Join(err, os.RemoveAll(dir))
}

func (h *hashes) Close() error { return errors.Join(h.hashes.Close(), h.frames.Close()) }

// ReadHashes implements tlog.HashReader.
func (h *hashes) ReadHashes(index []int64) ([]tree.Hash, error) {
	all := make([]tree.Hash, len(index))
	for i, n := range index {
		if _, err := h.hashes.ReadAt(all[i][:], n*hashBytes); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// count is the number of records up to the end of a frame; 0 where the files do not say.
func (h *hashes) count(frame uint64) int64 {
	var b [countBytes]byte
	if frame == 0 || frame > maxHashes/countBytes {
		return 0
	}
	if _, err := h.frames.ReadAt(b[:], int64(frame-1)*countBytes); err != nil {
		return 0
	}
	if n := binary.LittleEndian.Uint64(b[:]); n <= tree.MaxSize {
		return int64(n)
	}
	return 0
}

// at returns the tree behind a frame if that has this head.
func (h *hashes) at(head tree.Head) (t tree.Tree, ok bool) {
	if head.Frame == 0 || h.count(head.Frame) != head.Size {
		return t, false
	}
	t, err := tree.At(head.Size, h)
	return t, err == nil && t.Root() == head.Root
}

// write writes what follows on a frame and its tree.
func (h *hashes) write(frame uint64, size int64, hashes []tree.Hash, counts []int64) error {
	b := make([]byte, 0, max(len(hashes)*hashBytes, len(counts)*countBytes))
	for i := range hashes {
		b = append(b, hashes[i][:]...)
	}
	_, err := h.hashes.WriteAt(b, tlog.StoredHashCount(size)*hashBytes)
	b = b[:0]
	for _, n := range counts {
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
	}
	if err == nil {
		_, err = h.frames.WriteAt(b, int64(frame)*countBytes)
	}
	return err
}

// cut leaves nothing of the files behind a frame and its tree.
func (h *hashes) cut(frame uint64, size int64) error {
	return cmp.Or(h.hashes.Truncate(tlog.StoredHashCount(size)*hashBytes),
		h.frames.Truncate(int64(frame)*countBytes))
}

// pick reads the log up to a size of its tree and returns the hashes at these places, for whoever has not got
// them from the files.
func pick(dir string, size int64, index []int64) ([]tree.Hash, error) {
	var t tree.Tree
	all, next, buf := make([]tree.Hash, len(index)), int64(0), []tree.Hash(nil)
	for e, err := range entries(dir, 0) {
		if err == nil {
			err = e.Leaves(func(leaf []byte) {
				if t.Size() == size {
					return
				}
				buf = t.Append(tree.Leaf(leaf), buf[:0])
				for _, h := range buf {
					if i := slices.Index(index, next); i >= 0 {
						all[i] = h
					}
					next++
				}
			})
		}
		if err != nil {
			return nil, err
		}
		if t.Size() == size {
			return all, nil
		}
	}
	return nil, fmt.Errorf("the journal has %d records, and not %d: %w", t.Size(), size, fs.ErrNotExist)
}

// Leaves calls f with the bytes of each leaf of the entry's frame; see [ledger.Leaves].
func (e Entry) Leaves(f func(leaf []byte)) error {
	if err := ledger.Leaves(e.Data, f); err != nil {
		return e.undecodable(err)
	}
	return nil
}
