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
	maxWord  = 64       // bytes
)

// Dir is a directory that this process has, as it holds the lock on the file LOCK in it. The file LIVES
// beside it has a line for each of the last lives: its text, when that life changed LOCK last, which no copy
// onto it can repeat, and a word of that life on what it has written. It ends with "moved" where what is in
// the directory may be an older copy all the same, and with "confirmed" where it might have been, and
// somebody has said that it is none.
type Dir struct {
	path  string
	lock  *fileutil.LockedFile
	own   Life
	past  []entry // of earlier lives, the last one last
	lived bool
	state atomic.Int32 // an index of states

	mu   sync.Mutex
	word string
}

// entry is an earlier life, and its word; "-" where that is of no use, as it may be of another directory.
type entry struct{ life, word string }

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
	d.own = begin(id, known)
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
	past, here, state := d.lines(string(text), changed)
	for i := range past {
		if !here {
			past[i].word = "-"
		}
	}
	d.past = past
	if d.lived && !here {
		state = isMoved
	}
	d.state.Store(state)
}

// The states of a directory, as LIVES has them: it is known to be no copy, or may be one, or might have been.
const isOwn, isMoved, isConfirmed int32 = 0, 1, 2

var states = []string{"", " moved", " confirmed"}

// lines parses the lives that LIVES names, whatever is in it. here reports whether the last of them was here,
// and left LOCK as it is, and state is how it left the directory.
func (d *Dir) lines(text string, changed uint64) (past []entry, here bool, state int32) {
	for line := range strings.Lines(text) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), " ")
		l, err := Parse(fields[0])
		if here, state = false, isOwn; err != nil {
			continue
		}
		e := entry{l.String(), "-"}
		if len(fields) > 2 && len(fields[2]) <= maxWord {
			then, err := strconv.ParseUint(fields[1], 16, 64)
			e.word = fields[2]
			here = err == nil && then == changed && d.differs(l) == ""
			if len(fields) > 3 {
				state = max(isMoved, int32(slices.Index(states, " "+fields[3])))
			}
		}
		past = append(past, e)
	}
	return past[max(0, len(past)-maxLives):], here, state
}

// Words lists the words of the earlier lives that this very directory has had, the last one last, as far back
// as nothing but they has written to it.
func (d *Dir) Words() (all []string) {
	for _, e := range d.past {
		if e.word != "-" {
			all = append(all, e.word)
		}
	}
	return all
}

// Begin remembers this life in the directory, with its first word. kept reports whether all is there that
// the life before said; if not, an older copy was put behind LOCK and LIVES. A disk that is full forgets it:
// then a later one cannot prove that this one has ended, which costs it some seconds.
func (d *Dir) Begin(word string, kept bool) {
	if !kept {
		d.state.Store(isMoved)
	}
	d.word = word
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

// Wrote remembers a word on what is written by now. It changes LOCK, so that a copy of the directory that
// was made before has another, by the time that programs go by which put back what differs. It is not synced:
// after a power cut the machine starts anew, and then nothing is proven anyway.
func (d *Dir) Wrote(word string) {
	d.mu.Lock()
	d.word = word
	d.mu.Unlock()
	d.touch()
	d.remember(false)
}

// Settle says whether what is in the directory is known to be what was written there last. As long as it is
// not, later lives find the directory moved, too; then they find it confirmed.
func (d *Dir) Settle(own bool) {
	if !own {
		d.state.Store(isMoved)
	} else if d.Moved() {
		d.state.Store(isConfirmed)
	}
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
	var text []byte
	for _, e := range d.past {
		text = fmt.Appendf(text, "%s 0 %s\n", e.life, e.word)
	}
	text = fmt.Appendf(text, "%s %x %s%s\n", d.own, changed, d.word, states[d.state.Load()])
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
	case !slices.ContainsFunc(d.past, func(e entry) bool { return e.life == text }):
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
	if l.ID != d.own.ID {
		return "this directory is a copy of the one that it had, or was made anew: LOCK is another file"
	}
	return ""
}

// Moved reports whether the directory was had last on another file, boot or machine, or was written over
// since, or whether that cannot be told; or was already when it was had last, and nobody has settled that.
// What is in it may then be an older copy. It is false where nothing was ever here.
func (d *Dir) Moved() bool { return d.state.Load() == isMoved }

// Confirmed reports whether the directory was moved once, and is held for the newest since by what was said
// to whoever settled that.
func (d *Dir) Confirmed() bool { return d.state.Load() == isConfirmed }

// Close lets another have the directory.
func (d *Dir) Close() error { return d.lock.Close() }
