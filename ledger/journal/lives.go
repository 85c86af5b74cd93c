package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

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

// tail is the last segment, by name and file, as it was when it was looked at last.
type tail struct {
	name string
	file os.FileInfo
	seq  uint64 // the last frame by then
	off  int64  // where that begins in the segment; 0: it is not known
	size int64  // of it there
	crc  uint32 // the chain's value before it
}

// gone reports whether the last frame is not where it was written, or one since the last look is not, as
// after a copy was put in the place of the files, or written into them.
func (j *Journal) gone(t *tail) bool {
	if j.last.Seq == 0 || t.follows(filepath.Join(walDir(j.dir), t.name), j.grew, j.last.Seq, j.end) {
		return false
	}
	t.off = 0
	sum, err := SumAt(j.dir, j.last.Seq) // it may stand in the segment before
	return err != nil || sum != j.end
}

// follows reads a segment from where its tail was, at most so many bytes, or from its beginning, and reports
// whether it goes on without a gap to a frame of this number and checksum. The tail is there then.
func (t *tail) follows(segment string, most int64, seq uint64, sum tip.Sum) bool {
	f, err := regular.Open(segment, maxSegment)
	if err != nil {
		return false
	}
	defer f.Close()
	at, crc := t.off, t.crc
	if at == 0 {
		most = maxSegment
	}
	b := make([]byte, most)
	n, _ := f.ReadAt(b, at)
	b = b[:n]
	if head, ok := parseRecord(b[min(8, n):], true); at == 0 && ok && head.kind == typeCRC {
		crc = head.crc
	}
	for {
		rec, gap := readRecord(b, at, crc)
		if gap != nil {
			return false
		}
		if rec.kind == typeEntry {
			if e, ok := parseEntry(rec.data); !ok || e.Seq >= seq {
				t.off, t.crc, t.size = at, crc, rec.size
				return ok && e.Seq == seq && tip.SumOf(e.Data) == sum
			}
		}
		b, at, crc = b[rec.size:], at+rec.size, rec.crc
	}
}

// held returns life.ErrReplaced if the journal's files are no longer those under their names, as after a copy
// was put in their place. The writer has its segment open and would not notice.
func (j *Journal) held() error {
	if err := j.home.Held(); err != nil {
		return err
	}
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
	was, lost := &j.tail, errors.Is(err, os.ErrNotExist)
	if err != nil && !lost {
		return nil // nobody can say
	}
	if same := now.name == was.name; lost || now.name < was.name || same && !os.SameFile(now.file, was.file) {
		return fmt.Errorf("%w: segment %s is not the one that it writes", life.ErrReplaced, was.name)
	} else if same {
		now.off, now.size, now.crc = was.off, was.size, was.crc
	}
	changed := was.name != "" && (now.seq > was.seq || !now.file.ModTime().Equal(was.file.ModTime()))
	if changed && j.gone(&now) {
		return fmt.Errorf("%w: segment %s has not frame %d any more", life.ErrReplaced, now.name, j.last.Seq)
	}
	j.tail, j.grew = now, now.size
	return nil
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
