package journal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"souk/ledger"
)

// laid makes what a file is not, in its place.
var laid = map[string]func(path string) error{
	"a named pipe": func(path string) error { return syscall.Mkfifo(path, 0o600) },
	"a directory":  func(path string) error { return os.MkdirAll(filepath.Join(path, "in it"), 0o700) },
	"a socket":     func(path string) error { return syscall.Mknod(path, syscall.S_IFSOCK|0o600, 0) },
	"a device":     func(path string) error { return os.Symlink("/dev/zero", path) },
	"a link to a pipe": func(path string) error {
		return errors.Join(syscall.Mkfifo(filepath.Join(filepath.Dir(path), "..", "pipe"), 0o600),
			os.Symlink("../pipe", path))
	},
	"a loop of links":       func(path string) error { return os.Symlink(filepath.Base(path), path) },
	"a link to nothing":     func(path string) error { return os.Symlink("nothing", path) },
	"a terabyte of nothing": func(path string) error { return sparse(path, 1<<40) },
	"sixty megabytes of it": func(path string) error { return sparse(path, 60<<20) },
}

func sparse(path string, size int64) error {
	return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, size))
}

// withinBounds runs what must come back within seconds and take no memory to speak of.
func withinBounds(t *testing.T, what string, f func() error) error {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 256<<20 {
			t.Errorf("%s took %d MB", what, n>>20)
		}
		return err
	case <-time.After(time.Minute):
		t.Fatalf("%s hangs", what)
		return nil
	}
}

// Whatever stands in the place of a journal's file, who reads the journal or starts on it comes back at once,
// and names it where it is in the way.
func TestWhatStandsInAFilesPlace(t *testing.T) {
	alone(t)
	whole := long(t, 300<<10)
	segs, err := segments(walDir(whole))
	if err != nil || len(segs) < 3 {
		t.Fatalf("%d segments, %v", len(segs), err)
	}
	segment := func(i int) string { return filepath.Join("wal", filepath.Base(segs[i].path)) }
	last := segment(len(segs) - 1)
	torn := filepath.Base(last) + ".torn"
	snapshot := filepath.Join("snapshots", filepath.Base(snapshotFiles(whole)[0]))
	for _, c := range []struct {
		place  string
		damage bool // it is found by who reads, and no start goes beyond it
		starts bool // a start goes on without it
		anew   bool // a start writes it anew, unless it is a directory that is not empty
	}{
		{place: segment(0), damage: true},
		{place: segment(1), damage: true},
		{place: last, damage: true},
		{place: "wal", damage: true},
		{place: snapshot, starts: true},
		{place: snapshot + ".new", anew: true},
		{place: "LOCK"},
		{place: "LIVES", starts: true},
		{place: "LIVES.new", starts: true},
		{place: filepath.Join("wal", "0.tmp"), anew: true},
		{place: torn, anew: true},
	} {
		for name, lay := range laid {
			t.Run(c.place+" "+name, func(t *testing.T) {
				dir := copyOf(t, whole)
				if c.place == torn { // a start copies what it trims
					tear(t, filepath.Join(dir, last))
				}
				path := filepath.Join(dir, c.place)
				if err := errors.Join(os.RemoveAll(path), lay(path)); err != nil {
					t.Fatal(err)
				}
				named := func(what string, err error) {
					if err != nil && !strings.Contains(err.Error(), filepath.Base(c.place)) {
						t.Errorf("%s: it is not named: %v", what, err)
					}
				}
				err := withinBounds(t, "reading", func() error { _, _, err := examined(dir); return err })
				named("read", err)
				if c.damage && !errors.Is(err, ErrDamaged) {
					t.Errorf("read: %v, want damage", err)
				}
				err = withinBounds(t, "a start", func() error { return startOn(dir) })
				named("started", err)
				// of a segment before the snapshot a start sees what it is alone, not how long
				unread := c.place == segment(0) || c.place == segment(1) && len(segs) > 3
				switch {
				case (c.starts || c.anew && name != "a directory") && err != nil:
					t.Errorf("started: %v", err)
				case c.damage && !unread && !errors.Is(err, ErrDamaged):
					t.Errorf("started: %v, want damage", err)
				}
			})
		}
	}
}

// startOn is the start of a writer and its first frame.
func startOn(dir string) error {
	j, err := Open(dir, Config{MinFree: -1})
	if err != nil {
		return err
	}
	defer j.Close()
	s := new(tally)
	if err := j.Restore(s); err != nil {
		return err
	}
	if err := j.Snapshot(nil, new(tally)); err != nil {
		return err
	}
	seq, _, _ := j.Last()
	if seq != 40 {
		return fmt.Errorf("the last frame is %d, want 40", seq)
	}
	return j.Append(frame(41, 10))
}

// tear has a write begin behind the last frame of a segment that a crash cut off.
func tear(t *testing.T, path string) {
	t.Helper()
	dir := filepath.Dir(filepath.Dir(path))
	r, err := NewReader(dir)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = r.Next()
	}
	if err != io.EOF {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	torn := make([]byte, 2*sector)
	copy(torn, "\x00\x03\x00\x00\x00\x00\x00\x00\x08\x02\x10")
	if _, err := f.WriteAt(torn, r.off); err != nil {
		t.Fatal(err)
	}
}

// More frames than one sync may write are written by several: no segment is longer than a reader takes.
func TestFramesOfManySyncs(t *testing.T) {
	alone(t)
	dir := t.TempDir()
	j := mustOpen(t, dir)
	const size = 9 << 20
	list := frames(1, 5, size)
	mustAppend(t, j, list...)
	mustAppend(t, j, frame(6, 10))
	j.Close()
	segs, err := segments(walDir(dir))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range segs {
		if info, err := os.Stat(s.path); err != nil || info.Size() > maxSegment {
			t.Errorf("%s: %d bytes, at most %d, %v", s.path, info.Size(), int64(maxSegment), err)
		}
	}
	n := uint64(0)
	if err := Read(dir, func(f ledger.Frame) error { n++; return nil }); err != nil || n != 6 {
		t.Errorf("%d frames, %v", n, err)
	}
	j = mustOpen(t, dir)
	if seq, _, _ := j.Last(); seq != 6 {
		t.Errorf("a start finds %d frames", seq)
	}
	j.Close()
}

// A segment of any bytes is read to an error or to its end.
func FuzzSegment(f *testing.F) {
	dir := f.TempDir()
	j := mustOpen(f, dir)
	mustAppend(f, j, frames(1, 3, 10)...)
	j.Close()
	segs, err := segments(walDir(dir))
	if err != nil {
		f.Fatal(err)
	}
	b, err := os.ReadFile(segs[0].path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b[:2048], uint32(segmentBytes))
	f.Add(b[:200], uint32(200))
	f.Add([]byte{}, uint32(0))
	f.Add([]byte{}, uint32(maxSegment+1))
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\x00"), uint32(4096))
	name := filepath.Base(segs[0].path)
	f.Fuzz(func(t *testing.T, b []byte, size uint32) {
		dir := t.TempDir()
		path := filepath.Join(walDir(dir), name)
		if err := errors.Join(os.Mkdir(walDir(dir), 0o700), os.WriteFile(path, b, 0o600),
			os.Truncate(path, int64(size))); err != nil {
			t.Fatal(err)
		}
		frames, _, err := examined(dir)
		if int64(size) > maxSegment && !errors.Is(err, ErrDamaged) {
			t.Errorf("%d bytes: %d frames, %v", size, frames, err)
		}
	})
}
