package journal

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"souk/ledger"
)

// An older copy is put back behind LOCK and LIVES, which stay the very files: a backup seldom has a lock, and
// rsync leaves alone what has not changed since. It is taken for no newest journal all the same, whether the
// writer was stopped or killed.
func TestAnOlderCopyBehindTheLock(t *testing.T) {
	alone(t)
	if runtime.GOOS != "linux" {
		t.Skip("nothing is proven here")
	}
	for name, restore := range map[string]func(t *testing.T, from, to string){
		"the segments alone": func(t *testing.T, from, to string) {
			to = filepath.Join(to, "wal")
			try(t, os.RemoveAll(to))
			overwrite(t, filepath.Join(from, "wal"), to, true)
		},
		"segments in place": func(t *testing.T, from, to string) {
			overwrite(t, filepath.Join(from, "wal"), filepath.Join(to, "wal"), false)
		},
		"what rsync copies": func(t *testing.T, from, to string) { overwrite(t, from, to, true) },
	} {
		for i := range 4 {
			killed, late := i&1 > 0, i&2 > 0 // whether the copy was made in the last life
			dir, backup := t.TempDir(), filepath.Join(t.TempDir(), "backup")
			open := func() *Journal { return openTicking(t, dir) }
			j := open()
			mustAppend(t, j, still(1))
			endLife(t, j, killed)
			j = open()
			mustAppend(t, j, still(2))
			overwrite(t, dir, backup, true)
			for seq := range uint64(20) { // longer than a tick of the clock by which files change
				mustAppend(t, j, still(3+seq))
			}
			endLife(t, j, killed)
			if j = open(); j.Moved() {
				t.Fatalf("%s, killed %v: nothing was done yet", name, killed)
			}
			if late {
				try(t, os.RemoveAll(backup))
				overwrite(t, dir, backup, true)
			}
			for seq := range uint64(20) {
				mustAppend(t, j, still(23+seq))
			}
			endLife(t, j, killed)
			restore(t, backup, dir)
			j = open()
			if seq, _, _ := j.Last(); (seq != 2) != late || seq > 22 || !j.Moved() {
				t.Errorf("%s, killed %v, late %v: a journal of %d frames, of which 42 were written, may be an older "+
					"copy: %v", name, killed, late, seq, j.Moved())
			}
			endLife(t, j, killed)
			if j = open(); !j.Moved() {
				t.Errorf("%s, killed %v, late %v: the next start forgets it", name, killed, late)
			}
		}
	}
}

// openTicking opens a journal by a clock of the test's own, until the test ends.
func openTicking(t *testing.T, dir string) *Journal {
	t.Helper()
	j, err := Open(dir, Config{MinFree: -1, now: ticking()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

// endLife ends a journal's life as a kill does, or in order.
func endLife(t *testing.T, j *Journal, killed bool) {
	t.Helper()
	if killed {
		try(t, j.store.Close(), j.home.Close())
	} else {
		try(t, j.Close())
	}
}

// Likewise of a copy that went on elsewhere, to as many frames or more: it is another history.
func TestACopyThatWentOnBehindTheLock(t *testing.T) {
	alone(t)
	if runtime.GOOS != "linux" {
		t.Skip("nothing is proven here")
	}
	for _, killed := range []bool{false, true} {
		for _, more := range []uint64{0, 1, 20} {
			parent := t.TempDir()
			dir, twin := filepath.Join(parent, "j"), filepath.Join(parent, "twin")
			j := openTicking(t, dir)
			mustAppend(t, j, still(1), still(2))
			overwrite(t, dir, twin, true)
			mustAppend(t, j, still(3), still(4))
			mustAppend(t, j, still(5))
			endLife(t, j, killed)
			if j = openTicking(t, dir); j.Moved() {
				t.Fatalf("killed %v: nothing was done yet", killed)
			}
			endLife(t, j, killed)
			j = openTicking(t, twin)
			for seq := range 3 + more {
				f := still(3 + seq)
				f.Records[0].Salt[0]++ // records of another life have other salts
				mustAppend(t, j, f)
			}
			try(t, j.Close(), os.RemoveAll(filepath.Join(dir, "wal")))
			overwrite(t, filepath.Join(twin, "wal"), filepath.Join(dir, "wal"), true)
			if j = openTicking(t, dir); !j.Moved() {
				t.Errorf("killed %v: a copy that went on to %d frames is taken for the newest", killed, 5+more)
			}
			endLife(t, j, killed)
			if j = openTicking(t, dir); !j.Moved() {
				t.Errorf("killed %v: the next start forgets it", killed)
			}
		}
	}
}

// ticking is a clock that goes on by a second whenever it is read.
func ticking() func() time.Time {
	now := time.Unix(1e9, 0)
	return func() time.Time { now = now.Add(time.Second); return now }
}

// still is a frame of a writer whose clock was ahead once, so that the times of frames stand still.
func still(seq uint64) ledger.Frame {
	f := frame(seq, 10)
	f.Time = 1e18
	return f
}

func try(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// overwrite makes the files of one directory those of another: in place, or, where they differ in size or
// time, by others, as rsync does.
func overwrite(t *testing.T, from, to string, anew bool) {
	t.Helper()
	try(t, filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) == ".tmp" { // a spare segment comes and goes
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		data, err := os.ReadFile(path)
		if err = errors.Join(err, os.MkdirAll(filepath.Dir(target), 0o700)); err != nil {
			return err
		}
		if !anew {
			return os.WriteFile(target, data, 0o600)
		}
		was, err := os.Stat(path)
		if err != nil {
			return err
		}
		is, err := os.Stat(target)
		if err == nil && is.ModTime().Equal(was.ModTime()) {
			// What is written within a tick of the clock has one time, too.
			if there, err := os.ReadFile(target); err == nil && bytes.Equal(there, data) {
				return nil
			}
		}
		return errors.Join(os.WriteFile(target+".rsync", data, 0o600),
			os.Chtimes(target+".rsync", was.ModTime(), was.ModTime()), os.Rename(target+".rsync", target))
	}))
}
