package journal

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"souk/ledger/checkpoint"
	"souk/ledger/tree"
)

// ErrOther marks a journal that is not the one whose checkpoints are kept beside it: frames that were signed
// are not what they were, or are not there.
var ErrOther = errors.New("not the journal that was signed")

// Tree is the Merkle tree of a journal that is written, made of what is read back from the disk beside its
// writer, which never waits for it. For one goroutine; see [Journal.Tree].
type Tree struct {
	j     *Journal
	in    *Reader // nil: it is to be opened
	frame uint64
	tree  tree.Tree
	Kept  []Kept // the oldest first
	due   []Kept // of them, what the log has still to reach
	// of them, what it was not compared with, as the hashes beside it begin the tree
	trusted []Kept

	files   *hashes
	pending []tree.Hash
	counts  []int64
	written tree.Head // up to which the files go
	wrong   bool      // they are, and are made anew
	anew    bool      // that has begun
}

// anewFor bounds the time for which one call makes hashes anew: somebody waits for it.
var anewFor = 50 * time.Millisecond

// flushHashes so many are written at once.
const flushHashes = 1 << 12

// Tree begins the journal's Merkle tree from the newest checkpoint that fits the hashes that lie beside the
// log, or else from nothing. Call Close before that of the journal.
func (j *Journal) Tree() (*Tree, error) {
	kept, wrong, err := ReadKept(j.dir)
	if err != nil {
		return nil, fmt.Errorf("journal %s: %w", j.dir, err)
	}
	for _, w := range wrong {
		j.cfg.Log.Warn("a checkpoint cannot be read and is left out", "journal", j.dir, "err", w)
	}
	t := &Tree{j: j, Kept: kept, due: kept}
	if t.files, err = openHashes(j.dir, true); err != nil {
		j.cfg.Log.Warn("the hashes of the journal's tree cannot lie beside it: each start reads it whole, and proofs "+
			"are made of its frames", "journal", j.dir, "err", err)
		if t.files, err = tempHashes(); err != nil {
			return nil, t.failed(err)
		}
	}
	last, _, _ := j.Last()
	for i, k := range slices.Backward(kept) {
		if k.Frame > last {
			continue // the log does not reach it
		}
		if at, ok := t.files.at(k.Head()); ok {
			t.frame, t.tree, t.due, t.trusted = k.Frame, at, kept[i+1:], slices.Clone(kept[:i+1])
			break
		}
	}
	t.written = t.head()
	if err := t.files.cut(t.frame, t.tree.Size()); err != nil {
		return nil, t.failed(err)
	}
	return t, nil
}

func (t *Tree) head() tree.Head {
	return tree.Head{Frame: t.frame, Size: t.tree.Size(), Root: t.tree.Root()}
}

// Grow reads back what was made durable since it was called last, and returns the tree up to the last durable
// frame. It ends early, with an error, once stop is closed, and where hashes are made anew, which several
// calls do. ErrOther says that the journal is not the one of the checkpoints that are kept.
func (t *Tree) Grow(stop <-chan struct{}) (tree.Head, error) {
	until, _, _ := t.j.Last()
	pace, begun := pacer(stop), time.Now()
	if t.wrong && !t.anew {
		t.in, t.frame, t.tree, t.due = nil, 0, tree.Tree{}, t.Kept
		t.pending, t.counts, t.written, t.anew = nil, nil, tree.Head{}, true
	}
	for t.frame < until {
		if err := t.next(until); err != nil {
			t.in = nil
			return tree.Head{}, t.failed(err)
		}
		if t.anew && time.Since(begun) > anewFor {
			return tree.Head{}, t.failed(errAnew)
		}
		if err := pace(); err != nil {
			return tree.Head{}, err
		}
	}
	if err := t.flush(); err != nil {
		return tree.Head{}, t.failed(err)
	}
	if len(t.due) > 0 {
		return tree.Head{}, t.failed(t.other(t.due[0], "the journal ends with record %d", t.tree.Size()))
	}
	t.wrong, t.anew = false, false
	return t.head(), nil
}

// Recheck reads the log back as far as [Journal.Tree] took the word of the hashes beside it, and returns
// ErrOther where it is not what was signed. It may be called beside the other methods.
func (t *Tree) Recheck(stop <-chan struct{}) error {
	again, pace := &Tree{j: t.j, due: t.trusted}, pacer(stop)
	for len(again.due) > 0 {
		err := again.next(t.trusted[len(t.trusted)-1].Frame)
		if err == nil {
			err = pace()
		}
		if err != nil {
			return t.failed(err)
		}
	}
	return nil
}

// next takes the next frame in, which is there.
func (t *Tree) next(until uint64) error {
	if t.in == nil {
		in, err := ReaderAt(t.j.dir, t.frame+1)
		if err != nil {
			return err
		}
		t.in = in
	}
	e, err := t.in.Next()
	if err == io.EOF {
		err = fmt.Errorf("the log ends before frame %d, which is in it", until)
	}
	if err != nil || e.Seq <= t.frame {
		return err
	}
	err = e.Leaves(func(leaf []byte) { t.pending = t.tree.Append(tree.Leaf(leaf), t.pending) })
	if err != nil {
		return err
	}
	t.frame = e.Seq
	t.counts = append(t.counts, t.tree.Size())
	for len(t.due) > 0 && t.due[0].Frame <= t.frame {
		if t.due[0].Head() != t.head() {
			return t.other(t.due[0], "frame %d ends with record %d and root %v", t.frame, t.tree.Size(), t.tree.Root())
		}
		t.due = t.due[1:]
	}
	if len(t.pending) >= flushHashes {
		return t.flush()
	}
	return nil
}

func (t *Tree) other(k Kept, found string, args ...any) error {
	return fmt.Errorf("%w: its checkpoint %s says that frame %d ends with record %d and root %v, and %s", ErrOther,
		k.Path, k.Frame, k.Size, k.Root, fmt.Sprintf(found, args...))
}

func (t *Tree) failed(err error) error { return fmt.Errorf("journal %s: its tree: %w", t.j.dir, err) }

// flush writes the hashes that are new; what could not be written is written the next time.
func (t *Tree) flush() error {
	if t.files != nil { // else it is read for a look alone
		if err := t.files.write(t.written.Frame, t.written.Size, t.pending, t.counts); err != nil {
			return err
		}
	}
	t.written = tree.Head{Frame: t.frame, Size: t.tree.Size()}
	t.pending, t.counts = t.pending[:0], t.counts[:0]
	return nil
}

// Extends reports whether the tree that Grow returned last goes on a tree of this size and root.
func (t *Tree) Extends(size int64, root tree.Hash) (bool, error) {
	if !t.wrong && (size < 0 || size > t.tree.Size()) {
		return false, nil
	}
	was, _, err := t.was(size)
	return err == nil && was.Root() == root, err
}

// Consistency proves that the tree that Grow returned last goes on that of an earlier size.
func (t *Tree) Consistency(from int64) (tlog.TreeProof, error) {
	if !t.wrong && (from < 0 || from > t.tree.Size()) {
		return nil, fmt.Errorf("journal %s: a proof from record %d on, and it has %d", t.j.dir, from, t.tree.Size())
	}
	_, p, err := t.was(from)
	return p, err
}

// was returns the tree of an earlier size, and the proof that this one goes on it. Where the hashes do not
// say that, Grow makes them anew.
func (t *Tree) was(size int64) (was tree.Tree, p tlog.TreeProof, err error) {
	now := t.head()
	switch {
	case t.wrong:
		return was, nil, t.failed(errAnew)
	case size == 0:
		return was, nil, nil
	case size == now.Size:
		return t.tree, nil, nil
	}
	if was, err = tree.At(size, t.files); err == nil {
		p, err = tlog.ProveTree(now.Size, size, t.files)
	}
	if err == nil {
		err = tlog.CheckTree(p, now.Size, now.Root, size, was.Root())
	}
	if err != nil {
		t.wrong = true
		return was, nil, t.failed(fmt.Errorf("%w: %w", errAnew, err))
	}
	return was, p, nil
}

// errAnew says that the hashes of a tree are wrong.
var errAnew = errors.New("its hashes are made anew")

// Keep keeps a note of a checkpoint of the tree that Grow has returned last, or adds its signatures to those
// of one that is kept. Of any other nothing is kept: later ones are to come.
func (t *Tree) Keep(note []byte) error {
	if err := t.j.Held(); err != nil {
		return err // the directory there is another's
	}
	c, err := checkpoint.Peek(note)
	now, i := t.head(), slices.IndexFunc(t.Kept, func(k Kept) bool { return k.Size == c.Size })
	switch {
	case err != nil:
	case i >= 0:
		t.Kept, err = keep(t.j.dir, t.Kept, t.Kept[i].Frame, note)
	case c.Size == now.Size && c.Root == now.Root:
		t.Kept, err = keep(t.j.dir, t.Kept, now.Frame, note)
	}
	if err != nil {
		return fmt.Errorf("journal %s: a checkpoint: %w", t.j.dir, err)
	}
	return nil
}

// Close closes the files of the hashes.
func (t *Tree) Close() error { return t.files.Close() }
