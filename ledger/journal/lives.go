package journal

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxLives are remembered: each start adds one, and only a name that still stands in a registry matters.
const maxLives = 16

// Life is the random name of this opening of the journal. Whoever writes under it holds the journal's lock.
func (j *Journal) Life() string { return j.life }

// Ended reports whether life names an earlier opening of this very journal. Whoever bore that name held the
// lock that is ours now: its process has died, or has closed the journal.
func (j *Journal) Ended(life string) bool { return slices.Contains(j.past, life) }

// hasLived reports whether the journal in dir was ever opened for writing.
func hasLived(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "LIVES"))
	return err == nil
}

// live makes the name and remembers it beside the log. A disk that is full forgets it: then a later opening
// cannot prove that this one has ended, which costs it some seconds.
func (j *Journal) live() {
	path := filepath.Join(j.dir, "LIVES")
	if text, err := os.ReadFile(path); err == nil {
		j.past = strings.Fields(string(text))
	}
	j.past = j.past[max(0, len(j.past)-maxLives):]
	j.life = rand.Text()
	text := strings.Join(append(slices.Clone(j.past), j.life), "\n") + "\n"
	if os.WriteFile(path+".new", []byte(text), 0o600) == nil {
		_ = os.Rename(path+".new", path)
	}
}
