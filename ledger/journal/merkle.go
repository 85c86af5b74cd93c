package journal

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"golang.org/x/mod/sumdb/tlog"

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
	kept  []Kept
	due   []Kept // of them, what the log has still to reach
	// of them, what it was not compared with, as the hashes beside it begin the tree
	trusted []Kept
	known   []tree.Head // some that it was found to be
	rest    time.Time   // until then the log is not read from its beginning again

	files   *hashes // nil: none, since they cannot be written
	pending []tree.Hash
	counts  []int64
	written tree.Head // up to which the files go
}

// flushHashes so many are written at once.
const flushHashes = 1 << 12

// maxKnown bounds what a tree remembers to have been: some minutes, and the checkpoints that were kept.
// restsFor times as long as it took the log is not read from its beginning again, unless that was soonRead.
const maxKnown, restsFor, soonRead = 256, 50, 10 * time.Millisecond

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
	t := &Tree{j: j, kept: kept, due: kept}
	if t.files, err = openHashes(j.dir, true); err != nil {
		t.unwritten(err)
		return t, nil
	}
	last, _, _ := j.Last()
	for i, k := range slices.Backward(kept) {
		if k.Frame > last {
			continue // the log does not reach it
		}
		if at, ok := t.files.at(k.Head()); ok {
			t.frame, t.tree, t.due, t.trusted = k.Frame, at, kept[i+1:], slices.Clone(kept[:i+1])
			t.knows(k.Head())
			break
		}
	}
	t.written = t.head()
	if err := t.files.cut(t.frame, t.tree.Size()); err != nil {
		t.unwritten(err)
	}
	return t, nil
}

// unwritten goes on without the files: proofs take longer to make.
func (t *Tree) unwritten(err error) {
	t.j.cfg.Log.Warn("the hashes of the journal's tree are not written: proofs are made of its frames", "journal",
		t.j.dir, "err", err)
	if t.files != nil {
		t.files.Close()
	}
	t.files, t.pending, t.counts = nil, nil, nil
}

func (t *Tree) head() tree.Head {
	return tree.Head{Frame: t.frame, Size: t.tree.Size(), Root: t.tree.Root()}
}

// Grow reads back what was made durable since it was called last, and returns the tree up to the last durable
// frame. It ends early, with an error, once stop is closed. ErrOther says that the journal is not the one of
// the checkpoints that are kept.
func (t *Tree) Grow(stop <-chan struct{}) (tree.Head, error) {
	until, _, _ := t.j.Last()
	pace := pacer(stop)
	for t.frame < until {
		if err := t.next(until); err != nil {
			t.in = nil
			return tree.Head{}, t.failed(err)
		}
		if err := pace(); err != nil {
			return tree.Head{}, err
		}
	}
	t.flush()
	if len(t.due) > 0 {
		return tree.Head{}, t.failed(t.other(t.due[0], "the journal ends with record %d", t.tree.Size()))
	}
	t.knows(t.head())
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

// knows notes what the tree was, so that whoever speaks of that later needs no look at the log.
func (t *Tree) knows(h tree.Head) {
	if n := len(t.known); n == 0 || t.known[n-1] != h {
		t.known = append(t.known[max(0, n+1-maxKnown):], h)
	}
}

// errRests says that the log was read from its beginning just now, which is seldom done.
var errRests = errors.New("its hashes are not beside the log, and that was read just now: later")

// seldom calls what reads the log from its beginning, and has a rest of many times what that took.
func (t *Tree) seldom(read func() error) error {
	begun := time.Now()
	if begun.Before(t.rest) {
		return fmt.Errorf("journal %s: %w", t.j.dir, errRests)
	}
	err := read()
	if took := time.Since(begun); took > soonRead {
		t.rest = time.Now().Add(restsFor * took)
	}
	return err
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
	t.in.sure = until
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
	if t.counts = append(t.counts, t.tree.Size()); len(t.pending) >= flushHashes {
		t.flush()
	}
	for len(t.due) > 0 && t.due[0].Frame <= t.frame {
		if t.due[0].Head() != t.head() {
			return t.other(t.due[0], "frame %d ends with record %d and root %v", t.frame, t.tree.Size(), t.tree.Root())
		}
		t.knows(t.head())
		t.due = t.due[1:]
	}
	return nil
}

func (t *Tree) other(k Kept, found string, args ...any) error {
	return fmt.Errorf("%w: its checkpoint %s says that frame %d ends with record %d and root %v, and %s", ErrOther,
		k.Path, k.Frame, k.Size, k.Root, fmt.Sprintf(found, args...))
}

func (t *Tree) failed(err error) error { return fmt.Errorf("journal %s: its tree: %w", t.j.dir, err) }

// flush writes the hashes that are new.
func (t *Tree) flush() {
	if t.files != nil && len(t.counts) > 0 {
		if err := t.files.write(t.written.Frame, t.written.Size, t.pending, t.counts); err != nil {
			t.unwritten(err)
		}
	}
	t.written = tree.Head{Frame: t.frame, Size: t.tree.Size()}
	t.pending, t.counts = t.pending[:0], t.counts[:0]
}

// Extends reports whether the tree that Grow returned last goes on a tree of this size and root.
func (t *Tree) Extends(size int64, root tree.Hash) (bool, error) {
	now := t.head()
	if size < 0 || size > now.Size {
		return false, nil
	}
	if size == 0 {
		return root == new(tree.Tree).Root(), nil
	}
	if size == now.Size {
		return root == now.Root, nil
	}
	for _, h := range t.known {
		if h.Size == size {
			return h.Root == root, nil
		}
	}
	if t.files != nil {
		p, err := tlog.ProveTree(now.Size, size, t.files)
		if err == nil && tlog.CheckTree(p, now.Size, now.Root, size, root) == nil {
			return true, nil
		}
	}
	var was tree.Tree
	err := t.seldom(func() (err error) {
		_, was, err = pick(t.j.dir, size, nil)
		return err
	})
	return err == nil && was.Root() == root, err
}

// Consistency proves that the tree that Grow returned last goes on that of an earlier size.
func (t *Tree) Consistency(from int64) (tlog.TreeProof, error) {
	now := t.head()
	if from < 0 || from > now.Size {
		return nil, fmt.Errorf("journal %s: a proof from record %d on, and it has %d", t.j.dir, from, now.Size)
	}
	if from == 0 || from == now.Size {
		return nil, nil
	}
	if t.files != nil {
		was, err := tree.At(from, t.files)
		if err == nil {
			p, err := tlog.ProveTree(now.Size, from, t.files)
			if err == nil && tlog.CheckTree(p, now.Size, now.Root, from, was.Root()) == nil {
				return p, nil
			}
		}
	}
	read := tlog.HashReaderFunc(func(index []int64) (all []tree.Hash, err error) {
		err = t.seldom(func() error {
			all, _, err = pick(t.j.dir, now.Size, index)
			return err
		})
		return all, err
	})
	return tlog.ProveTree(now.Size, from, read)
}

// Keep keeps a note of a checkpoint that Grow has returned, in the place of one of the same size that has
// fewer signatures.
func (t *Tree) Keep(frame uint64, note []byte) (err error) {
	if err := t.j.Held(); err != nil {
		return err // the directory there is another's
	}
	if t.kept, err = keep(t.j.dir, t.kept, frame, note); err != nil {
		return fmt.Errorf("journal %s: a checkpoint: %w", t.j.dir, err)
	}
	return nil
}

// Kept returns the checkpoints that are kept, the oldest first.
func (t *Tree) Kept() []Kept { return t.kept }

// Close closes the files of the hashes.
func (t *Tree) Close() error {
	if t.files == nil {
		return nil
	}
	return t.files.Close()
}
