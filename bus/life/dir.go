package life

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"

	"souk/bus/regular"
)

// ErrTaken: another process has the directory.
var ErrTaken = errors.New("another process has this directory")

// A directory keeps the last of its lives: only one that may still stand in a registry matters.
const (
	maxLives = 16
	maxLIVES = 64 << 10 // bytes, of a file that has a few hundred each
)

// Dir is a directory that this process has, as it holds the lock on the file LOCK in it. The file LIVES
// beside it has a line for each of the last lives: its text, when that life changed LOCK last, which no copy
// onto it can repeat, and how much had been written in the directory then. It ends with a word where what is
// in the directory may be an older copy all the same.
type Dir struct {
	path  string
	lock  *fileutil.LockedFile
	own   Life
	past  []string // texts of earlier lives, the last one last
	lived bool
	moved atomic.Bool

	mu    sync.Mutex
	wrote uint64
}

// Take locks a directory, which must be there. ErrTaken if another process has it. Begin is to follow.
func Take(path string) (*Dir, error) {
	name := filepath.Join(path, "LOCK")
	if err := regular.Check(name); err != nil {
		return nil, err
	}
	lock, err := fileutil.TryLockFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if errors.Is(err, fileutil.ErrLocked) {
		return nil, fmt.Errorf("%w: process %s", ErrTaken, holder(name))
	}
	if open := (*os.PathError)(nil); errors.As(err, &open) { // etcd's function names itself before it
		return nil, open
	}
	if err != nil {
		return nil, err
	}
	d := &Dir{path: path, lock: lock}
	id, changed, known := stamp(lock.File)
	what := file
	if !known {
		what = 0
	}
	d.own = begin(what, id)
	d.read(changed)
	d.touch()
	return d, nil
}

// touch writes the process id into the lock, for whoever is kept out; a full disk forgets it.
func (d *Dir) touch() {
	pid := []byte(strconv.Itoa(os.Getpid()) + "\n")
	if _, err := d.lock.WriteAt(pid, 0); err == nil {
		_ = d.lock.Truncate(int64(len(pid)))
	}
}

// holder reads the process id that the holder of a lock has written into it.
func holder(name string) string {
	text, _ := regular.Read(name, 20)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return "unknown"
	}
	return strconv.Itoa(pid)
}

// read takes in LIVES. changed is when LOCK was changed last, before this life has.
func (d *Dir) read(changed uint64) {
	text, err := regular.Read(filepath.Join(d.path, "LIVES"), maxLIVES)
	d.lived = !errors.Is(err, os.ErrNotExist)
	past, wrote, here := d.lines(string(text), changed)
	d.past, d.wrote = past, wrote
	d.moved.Store(d.lived && !here)
}

// lines are the lives that LIVES names, whatever is in it, and how much the last of them had written. here
// reports whether that one was here, and left LOCK as it is.
func (d *Dir) lines(text string, changed uint64) (past []string, wrote uint64, here bool) {
	for line := range strings.Lines(text) {
		name, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		l, err := Parse(name)
		if here = false; err != nil {
			continue
		}
		past = append(past, name)
		at, rest, _ := strings.Cut(rest, " ")
		much, doubt, _ := strings.Cut(rest, " ")
		then, err := strconv.ParseUint(at, 16, 64)
		count, wrong := strconv.ParseUint(much, 10, 64)
		wrote = count
		here = err == nil && wrong == nil && then == changed && doubt == "" && d.differs(l) == ""
	}
	return past[max(0, len(past)-maxLives):], wrote, here
}

// Begin remembers this life in the directory, where so much is written; 0 where nobody counts. If that is
// less than the life before had written, an older copy was put behind LOCK and LIVES. A disk that is full
// forgets it: then a later one cannot prove that this one has ended, which costs it some seconds.
func (d *Dir) Begin(wrote uint64) {
	if wrote < d.wrote || wrote > 0 && !d.lived {
		d.moved.Store(true)
	}
	d.wrote = wrote
	d.remember(true)
}

// ErrReplaced: what is in the directory is not what this process holds.
var ErrReplaced = errors.New("the directory was moved away, or a copy was put in its place")

// Held returns ErrReplaced if the directory's path does not lead to the file any more whose lock this process
// has. What it writes then is read by nobody who starts there.
func (d *Dir) Held() error {
	own, err := d.lock.Stat()
	if err != nil {
		return err
	}
	there, err := os.Stat(filepath.Join(d.path, "LOCK"))
	if errors.Is(err, os.ErrNotExist) || err == nil && !os.SameFile(own, there) {
		return ErrReplaced
	}
	return nil
}

// Wrote remembers how much is written by now. It changes LOCK, so that a copy of the directory that was made
// before has another, by the time that programs go by which put back what differs. It is not synced: after a
// power cut the machine starts anew, and then nothing is proven anyway.
func (d *Dir) Wrote(wrote uint64) {
	d.mu.Lock()
	d.wrote = wrote
	d.mu.Unlock()
	d.touch()
	d.remember(false)
}

// Settle says whether what is in the directory is known to be what was written there last. As long as it is
// not, later lives find the directory moved, too.
func (d *Dir) Settle(own bool) {
	d.moved.Store(!own)
	d.remember(true)
}

func (d *Dir) remember(sync bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.Held() != nil {
		return // LIVES there is another's
	}
	if sync {
		_ = d.lock.Sync() // a network file system says only then when it was changed
	}
	_, changed, _ := stamp(d.lock.File)
	line := fmt.Sprintf("%s %x %d", d.own, changed, d.wrote)
	if d.moved.Load() {
		line += " moved"
	}
	text := []byte(strings.Join(append(slices.Clone(d.past), line), "\n") + "\n")
	path := filepath.Join(d.path, "LIVES")
	if sync {
		_ = regular.Replace(path, text)
	} else if regular.Write(path+".new", text) == nil {
		_ = os.Rename(path+".new", path)
	}
}

// Life names this life.
func (d *Dir) Life() string { return d.own.String() }

// Ended reports whether a life, as a registry has it, is an earlier one of this directory that is proven to
// have ended; if not, why nothing proves it.
func (d *Dir) Ended(text string) (ended bool, why string) {
	l, err := Parse(text)
	switch {
	case err != nil:
		return false, err.Error()
	case text == d.own.String():
		return false, "it is this one"
	case !slices.Contains(d.past, text):
		return false, "it is none of the last that had this directory"
	}
	why = d.differs(l)
	return why == "", why
}

// differs says why a life was not on the file that is locked now, in this boot; "": it was.
func (d *Dir) differs(l Life) string {
	if why := l.place(d.own); why != "" {
		return why
	}
	if l.What != d.own.What || l.ID != d.own.ID {
		return "this directory is a copy of the one that it had, or was made anew: LOCK is another file"
	}
	return ""
}

// Moved reports whether the directory was had last on another file, boot or machine, or was written over
// since, or whether that cannot be told; or was already when it was had last, and nobody has settled that.
// What is in it may then be an older copy. It is false where nothing was ever here.
func (d *Dir) Moved() bool { return d.moved.Load() }

// Close lets another have the directory.
func (d *Dir) Close() error { return d.lock.Close() }
