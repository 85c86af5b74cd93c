package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"

	"souk/bus/life"
	"souk/bus/regular"
	"souk/bus/tip"
)

// Life names this opening of the journal. Whoever writes under it holds the journal's lock.
func (j *Journal) Life() string { return j.home.Life() }

// Ended reports whether life names an earlier opening of this journal, on this very file, machine and boot.
// Whoever bore that name held the lock that is ours now: its process has died, or has closed the journal. If
// not, it says why nothing proves that; see package life.
func (j *Journal) Ended(life string) (ended bool, why string) { return j.home.Ended(life) }

// Moved reports whether the journal was opened last on another file, machine or boot, was written over since,
// or has lost frames, or whether that is not known, and nobody has settled that: what is in it may then be an
// older copy.
func (j *Journal) Moved() bool { return j.home.Moved() }

// Confirmed reports whether it was moved once, and is held for the newest since by another's word alone.
func (j *Journal) Confirmed() bool { return j.home.Confirmed() }

// word says in LIVES how far a journal is written: its frames, and the checksum of the last.
func word(seq uint64, sum tip.Sum) string { return fmt.Sprintf("%d:%s", seq, sum) }

func (j *Journal) word() string { return word(j.last.Seq, j.end) }

// frameOf is the frame that a word names; 0: none.
func frameOf(word string) uint64 {
	n, _, _ := strings.Cut(word, ":")
	seq, _ := strconv.ParseUint(n, 10, 64)
	return seq
}

// tail is the last segment, by name and file, as this writer left it.
type tail struct {
	name string
	file os.FileInfo
	open *os.File // that file, whatever has its name now
}

// overwritten reports whether the last frame is no more where it was written, as after a copy was written
// into the very files.
func (j *Journal) overwritten() bool {
	sum, err := SumAt(j.dir, j.last.Seq)
	return j.last.Seq > 0 && (err != nil || sum != j.end)
}

// held returns life.ErrReplaced if the journal's files are no longer those under their names, as after a copy
// was put in their place. The writer has its segment open and would not notice.
func (j *Journal) held() error {
	if err := j.home.Held(); err != nil {
		return err
	}
	var now tail
	entries, err := os.ReadDir(walDir(j.dir)) // sorted by name, as segments are
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".wal") {
			now.name = e.Name()
		}
	}
	if err == nil && now.name != "" {
		now.file, err = os.Stat(filepath.Join(walDir(j.dir), now.name))
	}
	switch gone := errors.Is(err, os.ErrNotExist); {
	case err != nil && !gone:
		return nil // nobody can say
	case gone, now.name < j.tail.name, now.name == j.tail.name && !os.SameFile(now.file, j.tail.file),
		now.name > j.tail.name && !written(filepath.Join(walDir(j.dir), now.name)):
		return fmt.Errorf("%w: segment %s is not the one that it writes", life.ErrReplaced, j.tail.name)
	case j.tail.file != nil && !now.file.ModTime().Equal(j.tail.file.ModTime()) && j.overwritten():
		return fmt.Errorf("%w: segment %s has not frame %d any more", life.ErrReplaced, now.name, j.last.Seq)
	}
	if now.open = j.tail.open; now.name != j.tail.name {
		j.tail.open.Close()
		now.open, _ = regular.Open(filepath.Join(walDir(j.dir), now.name), maxSegment) // nil: each look reads
	}
	j.tail = now
	return nil
}

// written reports whether somebody writes a segment, and so has it locked.
func written(segment string) bool {
	lock, err := fileutil.TryLockFile(segment, os.O_RDWR, 0)
	if err == nil {
		lock.Close()
	}
	return err != nil
}

// Held implements [ledger.Journal].
func (j *Journal) Held() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.look()
}

// look takes nothing more once the journal is lost. The lock is held.
func (j *Journal) look() error {
	if err := j.held(); err != nil {
		j.broken = fmt.Errorf("journal %s: nothing more is taken: %w: what this process wrote since is in files "+
			"that no start reads; start it where the newest journal is", j.dir, err)
		return j.broken
	}
	return nil
}

// hasLived reports whether the journal in dir was ever opened for writing.
func hasLived(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "LIVES"))
	return err == nil
}
