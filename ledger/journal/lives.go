package journal

import (
	"os"
	"path/filepath"
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

// hasLived reports whether the journal in dir was ever opened for writing.
func hasLived(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "LIVES"))
	return err == nil
}
