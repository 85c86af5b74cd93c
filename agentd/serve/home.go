package serve

import (
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"souk/agentd"
)

// ErrHomeTaken says that another process has the node's directory.
var ErrHomeTaken = errors.New("another agentd has this directory")

// Home is a node's own directory: the proof that its former lives are dead, and what they left to be paid. Whoever has its lock is this
// node, and knows the names of those who had it before.
type Home struct {
	dir  string
	lock *os.File
	life string
	past []string
}

// maxLives are remembered: each start adds one, and only a name that still stands in the registry matters.
const maxLives = 16

// OpenHome makes or takes the directory of a node below data, and keeps other processes out of it until Close. ErrHomeTaken if one
// is there.
func OpenHome(data, node string) (*Home, error) {
	dir := filepath.Join(data, "agentd", "node-"+url.PathEscape(node))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "LOCK")
	lock, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = fmt.Errorf("%w: stop that one, or give this one another node name or data directory", ErrHomeTaken)
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	h := &Home{dir: dir, lock: lock}
	h.live()
	return h, nil
}

// live makes the name of this life and remembers it. A disk that is full forgets it: then a later life cannot prove that this one
// has ended, and waits for its lease.
func (h *Home) live() {
	path := filepath.Join(h.dir, "LIVES")
	if text, err := os.ReadFile(path); err == nil {
		h.past = strings.Fields(string(text))
	}
	h.past = h.past[max(0, len(h.past)-maxLives):]
	h.life = rand.Text()
	text := strings.Join(append(slices.Clone(h.past), h.life), "\n") + "\n"
	if os.WriteFile(path+".new", []byte(text), 0o600) == nil {
		_ = os.Rename(path+".new", path)
	}
}

// Life names this opening. The zero Home has none.
func (h *Home) Life() string {
	if h == nil {
		return ""
	}
	return h.life
}

// Ended reports whether life names an earlier opening of this directory: its process has died, or has closed it.
func (h *Home) Ended(life string) bool { return h != nil && slices.Contains(h.past, life) }

// Close lets another have the directory.
func (h *Home) Close() error { return h.lock.Close() }

// Spool keeps the completions of one agent until they are acknowledged. What was added is there after a kill. What its hub has not
// acknowledged after syncAfter is synced, so that it is there after a power cut as well; nobody waits for that, and where hubs answer,
// which they do once it is in their own synced journal, nothing is synced.
type Spool struct {
	Failed func(error) // hears that the disk does not take what waits, once until it does again; nil: nobody hears it

	path, agent string

	mu     sync.Mutex
	file   *os.File
	size   int64
	open   map[string][]byte // entries by hold
	out    []byte            // acknowledgements that go along with the next completion
	fresh  []string          // holds added since the last look at what waits
	waits  []string          // holds added before it; what is in neither is synced, or acknowledged
	look   *time.Timer       // the next one; runs while there are any of them
	failed bool
	closed bool
	sync   func(*os.File) error
}

// syncAfter is how long a hub gets to acknowledge a completion, and at most twice that: one that is there needs some milliseconds.
const syncAfter = 100 * time.Millisecond

// Bounds of a spool's file: it is begun anew when it is larger and all in it is acknowledged, or even larger.
const (
	spoolSpare = 64 << 10
	spoolMost  = 4 << 20
)

// Spool opens that of an agent, and returns the completions that earlier lives have left in it. note says, for the log, what in it could not be
// read and was set aside.
func (h *Home) Spool(agent string, most int) (s *Spool, left []agentd.Report, note, err error) {
	s = &Spool{path: filepath.Join(h.dir, agent+".spool"), agent: agent, open: map[string][]byte{}, sync: (*os.File).Sync}
	if err := os.Remove(s.path + ".new"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, nil, nil, err
	}
	data, err := readAtMost(s.path, 2*spoolMost)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return nil, nil, nil, err
	default:
		var whole int
		if left, whole, err = agentd.ReadSpool(data, agent, most); err != nil {
			aside := s.path + ".damaged"
			if err := os.WriteFile(aside, data, 0o600); err != nil {
				return nil, nil, nil, err
			}
			note = fmt.Errorf("%s: %w: %d of its %d bytes are good, a copy is in %s", s.path, err, whole, len(data), aside)
		}
	}
	for i := range left {
		if s.open[left[i].Completion.Hold], err = agentd.AppendReport(nil, &left[i]); err != nil {
			return nil, nil, nil, err
		}
	}
	if err := s.renew(); err != nil {
		return nil, nil, nil, err
	}
	return s, left, note, nil
}

func readAtMost(path string, most int64) ([]byte, error) {
	if info, err := os.Stat(path); err != nil {
		return nil, err
	} else if info.Size() > most {
		return nil, fmt.Errorf("%s has %d bytes, a spool at most %d: move it away if it is none", path, info.Size(), most)
	}
	return os.ReadFile(path)
}

// renew writes the file anew with what is open. The lock is held.
func (s *Spool) renew() error {
	text := []byte(agentd.SpoolHead(s.agent))
	for _, hold := range slices.Sorted(maps.Keys(s.open)) {
		text = append(text, s.open[hold]...)
	}
	file, err := os.OpenFile(s.path+".new", os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if _, err = file.Write(text); err == nil && len(s.open) > 0 {
		err = s.sync(file) // some of it was
	}
	if err == nil {
		err = os.Rename(s.path+".new", s.path)
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	if s.file != nil {
		s.file.Close()
	}
	s.file, s.size, s.out = file, int64(len(text)), s.out[:0]
	return nil
}

// syncFile makes a file and its name durable.
func (s *Spool) syncFile(file *os.File) error {
	if err := s.sync(file); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(s.path))
	if err != nil {
		return err
	}
	defer dir.Close()
	return s.sync(dir)
}

// Add writes a completion down, with one write. One that could not be written whole is taken back.
func (s *Spool) Add(r agentd.Report) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.size > spoolMost || s.size > spoolSpare && len(s.open) == 0 {
		if err := s.renew(); err != nil {
			return err
		}
	}
	from := len(s.out)
	out, err := agentd.AppendReport(s.out, &r)
	if err != nil {
		return err
	}
	n, err := s.file.Write(out)
	if err != nil {
		s.out = out[:from]
		if n > 0 && s.file.Truncate(s.size) != nil {
			s.size = spoolMost + 1 // what follows a torn entry would not be read
		}
		return err
	}
	s.open[r.Completion.Hold] = slices.Clone(out[from:])
	s.size += int64(len(out))
	s.out = out[:0]
	if len(s.fresh)+len(s.waits) == 0 {
		s.lookLater()
	}
	s.fresh = append(s.fresh, r.Completion.Hold)
	return nil
}

// lookLater needs the lock.
func (s *Spool) lookLater() {
	if s.look == nil {
		s.look = time.AfterFunc(syncAfter, s.settle)
		return
	}
	s.look.Reset(syncAfter)
}

// settle syncs if something has waited for its acknowledgement for syncAfter.
func (s *Spool) settle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	done := func(hold string) bool { return s.open[hold] == nil }
	s.fresh, s.waits = slices.DeleteFunc(s.fresh, done), slices.DeleteFunc(s.waits, done)
	switch {
	case s.closed:
		return
	case len(s.waits) == 0:
		s.fresh, s.waits = s.waits, s.fresh
	default:
		file, n := s.file, len(s.fresh)
		var err error
		if s.failed { // what a disk did not take once is not written by syncing it again
			err = s.renew()
		} else {
			s.mu.Unlock()
			err = s.syncFile(file)
			s.mu.Lock()
		}
		switch {
		case s.closed:
			return
		case err == nil || s.file != file: // another, with all that was open then, has been synced
			s.fresh, s.waits, s.failed = slices.Delete(s.fresh, 0, n), s.waits[:0], false
		case !s.failed:
			s.failed = true
			if s.Failed != nil {
				s.Failed(err)
			}
		}
	}
	if len(s.fresh)+len(s.waits) > 0 {
		s.lookLater()
	}
}

// Done says that a completion need not be repeated.
func (s *Spool) Done(hold string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.open[hold]; ok {
		delete(s.open, hold)
		s.out = agentd.AppendDone(s.out, hold)
	}
}

// Has reports whether a completion is written down and not acknowledged.
func (s *Spool) Has(hold string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[hold] != nil
}

// Close leaves in the file what is open.
func (s *Spool) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.look != nil {
		s.look.Stop()
	}
	return errors.Join(s.renew(), s.file.Close())
}
