package serve

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"souk/agentd"
	"souk/bus/regular"
)

// Spool is the file of an [agentd.Spool]: it keeps the completions of one agent until they are
// acknowledged. What was added survives a kill. What is still pending after syncAfter is synced, so that it
// survives a power cut as well. Nobody waits for that, and nothing is synced as long as hubs acknowledge in
// time: a hub does so once the completion is in its own synced journal.
type Spool struct {
	// is called when the disk fails to sync, once until it works again; may be nil
	Failed func(error)

	path string
	home *Home

	mu     sync.Mutex
	state  *agentd.Spool
	file   *os.File
	look   *time.Timer // the next one; runs while anything waits
	looks  bool        // it runs
	failed bool
	closed bool
	sync   func(*os.File) error
}

// syncAfter is the time, and at most twice that, in which a hub may acknowledge a completion before it is
// synced to disk: a live hub needs some milliseconds.
const syncAfter = 100 * time.Millisecond

// Spool opens the spool of an agent, and returns the completions that earlier lives have left in it. note
// says, for the log, what could not be read and was set aside.
func (h *Home) Spool(agent string, most int) (s *Spool, left []agentd.Report, note, err error) {
	s = &Spool{path: filepath.Join(h.dir, agent+".spool"), home: h, sync: (*os.File).Sync}
	data, err := regular.Read(s.path, 2*agentd.SpoolMost)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return nil, nil, nil, err
	default:
		var whole int
		if left, whole, err = agentd.ReadSpool(data, agent, most); err != nil {
			aside := s.path + ".damaged"
			if err := regular.Write(aside, data); err != nil {
				return nil, nil, nil, err
			}
			note = fmt.Errorf("%s: %w: %d of its %d bytes are good, a copy is in %s",
				s.path, err, whole, len(data), aside)
		}
	}
	if s.state, err = agentd.NewSpool(agent, left); err != nil {
		return nil, nil, nil, err
	}
	if err := s.renew(); err != nil {
		return nil, nil, nil, err
	}
	return s, left, note, nil
}

// renew writes the file anew with what is pending. The lock is held.
func (s *Spool) renew() error {
	if err := s.home.Held(); err != nil {
		return err // the spool there is another's
	}
	text, none := s.state.Text()
	file, err := regular.Create(s.path + ".new")
	if err != nil {
		return err
	}
	if _, err = file.Write(text); err == nil && !none {
		err = s.sync(file) // some of it was synced before
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
	s.file = file
	s.state.Renewed(text)
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

// there reports whether the path leads to the file that is written. Where a copy was put in its place, that
// is begun anew, with all that is pending; not so where the whole directory is another.
func (s *Spool) there() bool {
	if s.home.Held() != nil {
		return true
	}
	own, err := s.file.Stat()
	now, lost := os.Stat(s.path)
	if err != nil || lost != nil {
		return !errors.Is(lost, os.ErrNotExist)
	}
	return os.SameFile(own, now)
}

// Add writes a completion down, with one write. One that could not be written whole is taken back.
func (s *Spool) Add(r agentd.Report) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.Full() || !s.there() {
		if err := s.renew(); err != nil {
			return err
		}
	}
	text, err := s.state.Add(&r)
	if err != nil {
		return err
	}
	if n, err := s.file.Write(text); err != nil {
		s.state.Torn(n > 0 && s.file.Truncate(s.state.Size) != nil)
		return err
	}
	if s.state.Added(); !s.looks {
		s.looks, s.look = true, time.AfterFunc(syncAfter, s.settle)
	}
	return nil
}

// settle syncs if a completion has been pending for syncAfter.
func (s *Spool) settle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	sync, waiting := s.state.Look()
	if sync {
		file := s.file
		var err error
		if s.failed { // a failed sync may have dropped the data, so it is written again
			err = s.renew()
		} else {
			s.mu.Unlock()
			err = s.syncFile(file)
			s.mu.Lock()
		}
		switch {
		case s.closed:
			return
		case err == nil || s.file != file: // or a new file with all that was pending has been synced
			s.state.Synced()
			s.failed = false
		case !s.failed:
			s.failed = true
			if s.Failed != nil {
				s.Failed(err)
			}
		}
	}
	if s.looks = waiting; waiting {
		s.look.Reset(syncAfter)
	}
}

// Done says that a completion need not be repeated.
func (s *Spool) Done(hold string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.Done(hold)
}

// Has reports whether a completion is written down and not acknowledged.
func (s *Spool) Has(hold string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.Has(hold)
}

// Close leaves in the file what is pending.
func (s *Spool) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.look != nil {
		s.look.Stop()
	}
	return errors.Join(s.renew(), s.file.Close())
}
