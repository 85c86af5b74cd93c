package journal

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"

	"souk/bus/life"
	"souk/ledger"
)

// While a journal is written, a copy is put in its place, or it is moved away. The writer goes on in files
// that no name leads to: so it takes nothing more, a second later at most, and writes nothing beside a copy.
func TestACopyPutInThePlaceOfALivingJournal(t *testing.T) {
	alone(t)
	for name, put := range map[string]func(t *testing.T, backup, dir string){
		"all files, one by one": func(t *testing.T, backup, dir string) { overwrite(t, backup, dir, true) },
		"segments, one by one": func(t *testing.T, backup, dir string) {
			overwrite(t, filepath.Join(backup, "wal"), filepath.Join(dir, "wal"), true)
		},
		"segments of a copy that went on": func(t *testing.T, backup, dir string) {
			k := mustOpen(t, backup)
			full := frame(2, segmentBytes)
			full.Time = still(2).Time
			mustAppend(t, k, full)
			mustAppend(t, k, still(3))
			try(t, k.Close())
			overwrite(t, filepath.Join(backup, "wal"), filepath.Join(dir, "wal"), true)
		},
		"segments, and their directory": func(t *testing.T, backup, dir string) {
			try(t, os.RemoveAll(filepath.Join(dir, "wal")))
			overwrite(t, filepath.Join(backup, "wal"), filepath.Join(dir, "wal"), true)
		},
		"the directory": func(t *testing.T, backup, dir string) {
			try(t, os.Rename(dir, dir+".away"))
			overwrite(t, backup, dir, true)
		},
		"nothing": func(t *testing.T, _, dir string) { try(t, os.Rename(dir, dir+".away")) },
	} {
		t.Run(name, func(t *testing.T) {
			dir, backup := filepath.Join(t.TempDir(), "j"), filepath.Join(t.TempDir(), "backup")
			j, err := Open(dir, Config{MinFree: -1, now: ticking()})
			if err != nil {
				t.Fatal(err)
			}
			mustAppend(t, j, still(1))
			overwrite(t, dir, backup, true)
			mustAppend(t, j, still(2))
			put(t, backup, dir)
			was, _ := os.ReadFile(filepath.Join(dir, "LIVES"))
			err = j.Append(still(3))
			const want = "where the newest journal is"
			if !errors.Is(err, life.ErrReplaced) || !strings.Contains(err.Error(), want) {
				t.Errorf("a frame is taken: %v", err)
			}
			if again := j.Append(still(3)); again == nil {
				t.Error("another is taken")
			}
			try(t, j.Close())
			if now, _ := os.ReadFile(filepath.Join(dir, "LIVES")); !strings.HasPrefix(name, "segments") &&
				string(now) != string(was) {
				t.Errorf("beside the copy is written %q, where there was %q", now, was)
			}
		})
	}
}

// A frame between the copy and the next look goes into a file without a name. The look finds that out still.
func TestACopyPutInPlaceBetweenTwoLooks(t *testing.T) {
	dir, backup := filepath.Join(t.TempDir(), "j"), filepath.Join(t.TempDir(), "backup")
	now := time.Unix(1, 0)
	j, err := Open(dir, Config{MinFree: -1, now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	mustAppend(t, j, still(1))
	overwrite(t, dir, backup, true)
	mustAppend(t, j, still(2))
	overwrite(t, filepath.Join(backup, "wal"), filepath.Join(dir, "wal"), true)
	mustAppend(t, j, still(3))
	now = now.Add(noteEvery)
	if err := j.Append(still(4)); !errors.Is(err, life.ErrReplaced) {
		t.Errorf("a frame is taken: %v", err)
	}
}

// A directory that is moved away and back is what it was.
func TestAJournalThatIsMovedAwayAndBack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "j")
	j, err := Open(dir, Config{MinFree: -1, now: ticking()})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	mustAppend(t, j, frame(1, 10))
	try(t, os.Rename(dir, dir+".away"), os.Rename(dir+".away", dir))
	f := frame(2, 10)
	f.Time += 10 * int64(time.Second)
	mustAppend(t, j, f)
}

// A start that no LOCK keeps out finds the living writer by its segments before it changes anything: what
// that one is writing looks like what a crash tore.
func TestASecondStartChangesNothing(t *testing.T) {
	alone(t)
	for name, second := range map[string]func(t *testing.T, dir string, living *Journal) (at string){
		"by another path": func(t *testing.T, dir string, _ *Journal) string {
			twin := t.TempDir()
			try(t, os.Symlink(walDir(dir), walDir(twin)))
			return twin
		},
		"where LOCK was removed": func(t *testing.T, dir string, _ *Journal) string {
			try(t, os.Remove(filepath.Join(dir, "LOCK")))
			return dir
		},
		"before the newest segment is locked": func(t *testing.T, dir string, living *Journal) string {
			try(t, living.Close())
			segs, err := segments(walDir(dir))
			try(t, err)
			lock, err := fileutil.TryLockFile(segs[len(segs)-2].path, os.O_RDWR, 0)
			try(t, err)
			t.Cleanup(func() { lock.Close() })
			return dir
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			j := mustOpen(t, dir)
			defer j.Close()
			mustAppend(t, j, frame(1, segmentBytes))
			mustAppend(t, j, frame(2, 10))
			at := second(t, dir, j)
			segs, err := segments(walDir(dir))
			if err != nil || len(segs) != 2 {
				t.Fatalf("%d segments, %v; want 2", len(segs), err)
			}
			tear(t, segs[1].path)
			was, err := os.ReadFile(segs[1].path)
			spare := filepath.Join(walDir(dir), spares[0]) // the writer has the other by now
			try(t, err, os.WriteFile(spare, nil, 0o600))
			if k, err := Open(at, Config{}); !errors.Is(err, ErrLocked) {
				t.Errorf("it is let in: %v", err)
				if k != nil {
					defer k.Close()
				}
			}
			if now, err := os.ReadFile(segs[1].path); err != nil || !bytes.Equal(now, was) {
				t.Errorf("the segment is changed: %v", err)
			}
			if _, err := os.Stat(spare); err != nil {
				t.Errorf("the spare segment is gone: %v", err)
			}
		})
	}
}

// So it does where the copy is written into the very files, however many frames come between it and the look.
// A journal's own frames are no copy's.
func TestACopyWrittenIntoTheFilesBetweenTwoLooks(t *testing.T) {
	for _, late := range []uint64{0, 1, 3} {
		dir, backup := filepath.Join(t.TempDir(), "j"), filepath.Join(t.TempDir(), "backup")
		now := time.Unix(1, 0)
		j, err := Open(dir, Config{MinFree: -1, now: func() time.Time { return now }})
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		seq := uint64(0)
		put := func(n uint64) {
			for range n {
				seq++
				mustAppend(t, j, still(seq))
			}
		}
		put(2)
		overwrite(t, dir, backup, true)
		for range 3 { // each second, with and without frames in it
			put(3)
			now = now.Add(noteEvery)
			if err := j.Held(); err != nil {
				t.Fatalf("frames of its own: %v", err)
			}
		}
		put(1) // that looks, and none does for a second
		overwrite(t, filepath.Join(backup, "wal"), filepath.Join(dir, "wal"), false)
		put(late)
		now = now.Add(noteEvery)
		if err := j.Append(still(seq + 1)); !errors.Is(err, life.ErrReplaced) {
			t.Errorf("after %d frames one more is taken: %v", late, err)
		}
	}
}

// The look goes through all segments since the one before, and to their end.
func TestACopyIsFoundBehindTheNextSegment(t *testing.T) {
	alone(t)
	for name, also := range map[string]func(put func(size int), k *Journal){
		"which the writer went on to": func(put func(int), _ *Journal) { put(segmentBytes); put(10) },
		"which is the copy's": func(_ func(int), k *Journal) {
			full := frame(5, segmentBytes)
			full.Time = still(5).Time
			if k.Append(full) == nil {
				k.Append(still(6))
			}
		},
		"which is not begun": func(_ func(int), k *Journal) { k.Append(still(5)) },
	} {
		for _, anew := range []bool{true, false} {
			dir, backup := filepath.Join(t.TempDir(), "j"), filepath.Join(t.TempDir(), "backup")
			now := time.Unix(1, 0)
			j, err := Open(dir, Config{MinFree: -1, now: func() time.Time { return now }})
			try(t, err)
			defer j.Close()
			put := func(size int) {
				f := frame(j.last.Seq+1, size)
				f.Time = still(0).Time
				mustAppend(t, j, f)
			}
			put(10)
			put(10)
			if strings.HasSuffix(name, "went on to") {
				overwrite(t, dir, backup, true)
			}
			put(10)
			now = now.Add(noteEvery)
			put(10) // that looks
			if !strings.HasSuffix(name, "went on to") {
				overwrite(t, dir, backup, true)
			}
			k := mustOpen(t, backup)
			also(func(int) {}, k)
			try(t, k.Close())
			overwrite(t, filepath.Join(backup, "wal"), filepath.Join(dir, "wal"), anew)
			also(put, k)
			now = now.Add(noteEvery)
			if err := j.Held(); !errors.Is(err, life.ErrReplaced) {
				t.Errorf("before a segment %s, anew %v: it is not found: %v", name, anew, err)
			}
		}
	}
}

// A writer's own frames, of all sizes and in as many segments as they fill between two looks, are no copy's.
func TestNoLookTakesAJournalForACopy(t *testing.T) {
	alone(t)
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	dir, now := filepath.Join(t.TempDir(), "j"), time.Unix(1, 0)
	cfg := Config{MinFree: -1, now: func() time.Time { return now }}
	j, err := Open(dir, cfg)
	for step := range 100 {
		sizes := []int{10, 10, 10, r.IntN(20_000), segmentBytes / (1 + r.IntN(40))}
		var list []ledger.Frame
		for n := range uint64(r.IntN(4)) {
			f := frame(j.last.Seq+1+n, sizes[r.IntN(len(sizes))])
			f.Time = still(0).Time
			list = append(list, f)
		}
		err = errors.Join(err, j.Append(list...))
		switch r.IntN(8) {
		case 0, 1, 2:
			now = now.Add(noteEvery)
			err = errors.Join(err, j.Held())
		case 3:
			try(t, j.Close())
			j, err = Open(dir, cfg)
		}
		if err != nil {
			t.Fatalf("seed %d, step %d: %v", seed, step, err)
		}
	}
	try(t, j.Close())
}

// However long a journal is, its writer holds no more files open.
func TestAWriterHoldsFewFilesOpen(t *testing.T) {
	alone(t)
	open := func(dir string) (n int) {
		fds, err := filepath.Glob("/proc/self/fd/*")
		if err != nil || len(fds) == 0 {
			t.Skip("nothing says which files are open")
		}
		for _, fd := range fds {
			if to, err := os.Readlink(fd); err == nil && strings.HasPrefix(to, filepath.Join(dir, "wal")) &&
				strings.HasSuffix(to, ".wal") {
				n++
			}
		}
		return n
	}
	dir := filepath.Join(t.TempDir(), "j")
	j, err := Open(dir, Config{MinFree: -1, now: ticking()})
	if err != nil {
		t.Fatal(err)
	}
	for seq := range uint64(20) {
		f := frame(seq+1, segmentBytes/3)
		f.Time = still(seq + 1).Time
		mustAppend(t, j, f)
	}
	segs, err := segments(walDir(dir))
	if err != nil || len(segs) < 5 {
		t.Fatalf("%d segments: %v", len(segs), err)
	}
	if n := open(dir); n < 1 || n > 3 {
		t.Errorf("of %d segments %d are open, want 1 to 3", len(segs), n)
	}
	try(t, j.Close())
	try(t, mustOpen(t, dir).Close())
}
