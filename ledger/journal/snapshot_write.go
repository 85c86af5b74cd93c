package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"souk/bus/regular"
	"souk/ledger"
)

// Follow implements [ledger.Journal].
func (j *Journal) Follow(fresh func() ledger.Replica) (end func()) {
	stop := make(chan struct{})
	var following sync.WaitGroup
	following.Go(func() { j.follow(stop, fresh) })
	return func() {
		close(stop)
		following.Wait()
	}
}

func (j *Journal) follow(stop <-chan struct{}, fresh func() ledger.Replica) {
	made := j.from
	if s := j.due; s != nil {
		j.due = nil
		made = s.seq
		j.say(j.write(stop, s))
	}
	at := time.Now()
	look := time.Tick(lookEvery)
	for {
		select {
		case <-stop:
			return
		case <-look:
		}
		if seq, _, _ := j.Last(); seq >= made+j.cfg.SnapshotEvery && time.Since(at) >= snapshotLeast {
			made = seq
			j.say(j.Snapshot(stop, fresh()))
			at = time.Now()
		}
	}
}

// say logs that a snapshot could not be made; the next is tried in its own time.
func (j *Journal) say(err error) {
	if err != nil && err != errStopped {
		j.cfg.Log.Warn("no snapshot was made: the next start takes longer", "journal", j.dir, "err", err)
	}
}

var errStopped = errors.New("stopped")

// Snapshot makes a snapshot of what is durable now, by a replica that is new, unless stop is closed before.
// See Follow.
func (j *Journal) Snapshot(stop <-chan struct{}, r ledger.Replica) error {
	until, _, _ := j.Last()
	pace := pacer(stop)
	for _, path := range append(snapshotFiles(j.dir), "") {
		var s *snapshot
		if path != "" {
			var err error
			if s, err = readSnapshot(path, true); err != nil || s.seq > until {
				continue // it was said when the journal was opened
			}
		}
		now, frames, err := j.feed(r, s, until, pace)
		var misfit *misfit
		if errors.As(err, &misfit) && s != nil {
			continue
		}
		if err != nil || frames == 0 {
			return err
		}
		if now.state, err = r.Snapshot(); err != nil {
			return err
		}
		return j.write(stop, now)
	}
	return nil
}

// pacer returns a function that rests now and then.
func pacer(stop <-chan struct{}) func() error {
	began := time.Now()
	return func() error {
		if time.Since(began) < workFor {
			return nil
		}
		select {
		case <-stop:
			return errStopped
		case <-time.After(restFor):
		}
		began = time.Now()
		return nil
	}
}

// write makes a snapshot durable and removes what it takes the place of.
func (j *Journal) write(stop <-chan struct{}, s *snapshot) error {
	if err := j.Held(); err != nil {
		return err // the directory there is another's
	}
	dir, size := snapshotDir(j.dir), int64(snapshotHead+len(s.state)+8)
	if size > maxSnapshot {
		return fmt.Errorf("it would have %d bytes, want at most %d", size, maxSnapshot)
	}
	if free, err := j.cfg.Free(j.dir); j.cfg.MinFree >= 0 && err == nil && free < j.cfg.MinFree+2*size {
		return fmt.Errorf("it has %d MB, and %d MB are free: the journal needs those itself", size>>20,
			free>>20)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	s.path = filepath.Join(dir, fmt.Sprintf("%016x", s.seq)+snapshotSuffix)
	if err := writeFile(s.path+".new", s, pacer(stop)); err != nil {
		return err
	}
	if err := os.Rename(s.path+".new", s.path); err != nil {
		return err
	}
	if err := syncDir(dir); err != nil {
		return err
	}
	return prune(dir, filepath.Base(s.path))
}

func writeFile(path string, s *snapshot, pace func() error) error {
	f, err := regular.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	sum := xxhash.New()
	for _, part := range [][]byte{s.head(), s.state, nil} {
		if part == nil {
			part = binary.LittleEndian.AppendUint64(nil, sum.Sum64())
		}
		for piece := range slices.Chunk(part, pieceBytes) {
			sum.Write(piece)
			if _, err := f.Write(piece); err != nil {
				return err
			}
			if err := f.Sync(); err != nil {
				return err
			}
			if err := pace(); err != nil {
				return err
			}
		}
	}
	return f.Close()
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// prune keeps the snapshot that was just written and the last one before it. Later ones follow frames that
// the journal did not have any more.
func prune(dir, newest string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	kept := 0
	for _, e := range slices.Backward(entries) {
		if name := e.Name(); strings.HasSuffix(name, snapshotSuffix) && name <= newest &&
			kept < keepSnapshots {
			kept++
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
