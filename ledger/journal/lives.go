package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"souk/bus/life"
	"souk/bus/tip"
)

// word says in LIVES how far a journal is written: its frames, and the checksum of the last.
func word(seq uint64, sum tip.Sum) string { return fmt.Sprintf("%d:%s", seq, sum) }

func (j *Journal) word() string { return word(j.last.Seq, j.end) }

// frameOf is the frame that a word names; 0: none.
func frameOf(word string) uint64 {
	n, _, _ := strings.Cut(word, ":")
	seq, _ := strconv.ParseUint(n, 10, 64)
	return seq
}

// tail is the last segment, by name and file, as it was when it was looked at last.
type tail struct {
	name string
	file os.FileInfo
	seq  uint64 // the last frame by then
}

// gone returns life.ErrReplaced if the last frame is not where it was written, or one since the last look is
// not, as after a copy was put in the place of the files, or written into them. Else the tail is there then.
func (j *Journal) gone(t *tail) error {
	if j.tail.name == "" {
		return nil
	}
	end, sum, err := uint64(0), tip.Sum{}, error(nil)
	for e, failed := range entries(j.dir, j.tail.seq) { // through all segments since, to their end
		if err = failed; err == nil {
			if end = e.Seq; end == j.last.Seq {
				sum = tip.SumOf(e.Data)
			}
		}
	}
	switch own := err == nil && end == j.last.Seq && sum == j.end; {
	case !own && (err == nil || errors.Is(err, ErrDamaged) || errors.Is(err, os.ErrNotExist)):
		return fmt.Errorf("%w: segment %s has not frame %d any more", life.ErrReplaced, t.name, j.last.Seq)
	case !own:
		*t = j.tail // nobody can say
	}
	return nil
}

// held returns life.ErrReplaced if the journal's files are no longer those under their names, as after a copy
// was put in their place. The writer has its segment open and would not notice.
func (j *Journal) held() error {
	if err := j.home.Held(); err != nil {
		return err
	}
	was := &j.tail
	now := tail{seq: j.last.Seq}
	entries, err := os.ReadDir(walDir(j.dir)) // sorted by name, as segments are
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".wal") {
			now.name = e.Name()
		}
	}
	if err == nil && now.name != "" {
		now.file, err = os.Stat(filepath.Join(walDir(j.dir), now.name))
	}
	switch lost := errors.Is(err, os.ErrNotExist); {
	case err != nil && !lost:
		return nil // nobody can say
	case lost, now.name < was.name, now.name == was.name && !os.SameFile(now.file, was.file):
		return fmt.Errorf("%w: segment %s is not the one that it writes", life.ErrReplaced, was.name)
	case now.name > was.name, now.seq > was.seq, !now.file.ModTime().Equal(was.file.ModTime()):
		err = j.gone(&now)
	}
	j.tail = now
	return err
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
