package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cespare/xxhash/v2"

	"souk/ledger"
)

// tally is a replica that is the same only for the same frames.
type tally struct {
	frames, sum uint64
	loads, read int // snapshots taken in, and frames
	broken      error
	refuses     bool // what follows a snapshot
}

func (s *tally) Load(state []byte) error {
	s.frames, s.sum = 0, 0
	if state == nil {
		return nil
	}
	if s.broken != nil {
		return s.broken
	}
	s.loads++
	s.frames, s.sum = binary.BigEndian.Uint64(state), binary.BigEndian.Uint64(state[8:])
	return nil
}

var errRefused = errors.New("refused")

func (s *tally) Apply(seq uint64, epoch int64, data []byte) error {
	if s.refuses && s.loads > 0 && s.read == 0 {
		s.refuses = false
		return errRefused
	}
	if s.frames++; s.frames != seq {
		return errors.New("a gap")
	}
	s.read++
	s.sum = xxhash.Sum64(binary.BigEndian.AppendUint64(slices.Clone(data), s.sum))
	return nil
}

func (s *tally) Snapshot() ([]byte, error) {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, s.frames), s.sum), nil
}

// wholeTally tallies all frames, read from the first.
func wholeTally(t *testing.T, dir string) *tally {
	t.Helper()
	j := &Journal{dir: dir}
	s := new(tally)
	if _, _, err := j.feed(s, nil, 1<<62, nil); err != nil {
		t.Fatal(err)
	}
	return s
}

func mustSnapshot(t *testing.T, j *Journal) {
	t.Helper()
	if err := j.Snapshot(nil, new(tally)); err != nil {
		t.Fatal(err)
	}
}

// restored opens the journal, restores s, and returns the warnings that were logged.
func restored(t *testing.T, dir string, s *tally) (j *Journal, logged []string) {
	t.Helper()
	var b bytes.Buffer
	j, err := Open(dir, Config{Log: slog.New(slog.NewTextHandler(&b, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	if err := j.Restore(s); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		if strings.Contains(line, "level=WARN") {
			logged = append(logged, line)
		}
	}
	return j, logged
}

// long is a journal of 40 frames, a few to each segment if they are large, with snapshots behind frames 20
// and 30.
func long(t *testing.T, size int) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "hub")
	j := mustOpen(t, dir)
	for seq := uint64(1); seq <= 40; seq += 5 {
		list := frames(seq, 5, size)
		for i := range list { // as long, of records that are few and long
			few := list[i].Records[:len(list[i].Records)/20+1]
			for k := range few {
				few[k].Transfer.Note = strings.Repeat("n", 4000)
			}
			list[i].Records = few
		}
		mustAppend(t, j, list...)
		if seq+4 == 20 || seq+4 == 30 {
			mustSnapshot(t, j)
		}
	}
	j.Close()
	return dir
}

// copyOf is a copy of a journal, to be spoiled.
func copyOf(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "hub")
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}

// A start reads the snapshot and the segments from its frame on. What is wrong in those before is for whoever
// checks the journal.
func TestAStartFromASnapshot(t *testing.T) {
	alone(t)
	dir := long(t, 450_000)
	segs, err := segments(walDir(dir))
	if err != nil || len(segs) < 4 || segs[2].first > 30 {
		t.Fatal(len(segs), err)
	}
	want := wholeTally(t, dir)
	b, err := os.ReadFile(segs[0].path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	rewrite(t, segs[0].path, b, len(b))
	got := new(tally)
	j, logged := restored(t, dir, got)
	if got.loads != 1 || got.read != 10 || got.frames != want.frames || got.sum != want.sum ||
		len(logged) > 0 {
		t.Errorf("%+v, %q; want one snapshot, ten frames and no word", got, logged)
	}
	if seq, epoch, at := j.Last(); seq != 40 || epoch != 7 || at != 40_000 {
		t.Errorf("last = %d, %d, %d", seq, epoch, at)
	}
	mustAppend(t, j, frame(41, 10))
	if err := j.Restore(new(tally)); err == nil {
		t.Error("restored after an append")
	}
	if _, err := readAll(dir); !errors.Is(err, ErrDamaged) {
		t.Errorf("whoever reads all of it finds %v", err)
	}
	j.Close()
	again := new(tally)
	if _, logged := restored(t, dir, again); again.frames != 41 || len(logged) > 0 {
		t.Errorf("a frame later: %+v, %q", again, logged)
	}
}

// A snapshot that does not fit is named once and ignored: the one before it serves, or the whole journal.
func TestSnapshotsThatDoNotFit(t *testing.T) {
	alone(t)
	other := filepath.Join(t.TempDir(), "other")
	j := mustOpen(t, other)
	mustAppend(t, j, frames(1, 29, 10)...)
	mustAppend(t, j, frame(30, 11))
	mustSnapshot(t, j)
	mustAppend(t, j, frames(31, 30, 10)...)
	mustSnapshot(t, j)
	j.Close()
	theirs := snapshotFiles(other) // 60, 30
	sound := long(t, 10)
	want := wholeTally(t, sound)
	edit := func(t *testing.T, path string, change func([]byte) []byte) {
		t.Helper()
		b, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, change(b), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	copied := func(from, to string) {
		b, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(to, b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		spoil   func(t *testing.T, path string, dir string)
		replica tally
		read    int
	}{
		"another version": {read: 20, spoil: func(t *testing.T, path, _ string) {
			edit(t, path, func(b []byte) []byte { b[14]++; return b })
		}},
		"a flipped bit": {read: 20, spoil: func(t *testing.T, path, _ string) {
			edit(t, path, func(b []byte) []byte { b[snapshotHead+3] ^= 4; return b })
		}},
		"cut short": {read: 20,
			spoil: func(t *testing.T, path,
				_ string) {
				edit(t, path, func(b []byte) []byte { return b[:len(b)-1] })
			}},
		"empty": {read: 20,
			spoil: func(t *testing.T, path,
				_ string) {
				edit(t, path, func(b []byte) []byte { return nil })
			}},
		"too large": {read: 20,
			spoil: func(t *testing.T, path, _ string) { os.Truncate(path, maxSnapshot+1) }},
		"of another journal": {read: 20,
			spoil: func(t *testing.T, path, _ string) { copied(theirs[1], path) }},
		"beyond the end": {read: 10, spoil: func(t *testing.T, path, dir string) {
			copied(theirs[0], filepath.Join(dir, filepath.Base(theirs[0])))
		}},
		"made by another release": {read: 40, replica: tally{broken: errors.New("of version 9")},
			spoil: func(*testing.T, string, string) {}},
		"and what follows does not": {read: 40, replica: tally{refuses: true},
			spoil: func(*testing.T, string, string) {}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := copyOf(t, sound)
			c.spoil(t, snapshotFiles(dir)[0], snapshotDir(dir))
			got := &c.replica
			j, logged := restored(t, dir, got)
			if got.frames != 40 || got.sum != want.sum || got.read != c.read || j.from != uint64(40-c.read) ||
				len(logged) != 1 || !strings.Contains(logged[0], snapshotSuffix) {
				t.Errorf("%+v, %q; want %d frames read, and one line that names the file", got, logged,
					c.read)
			}
			// The next one that is made takes its place.
			mustAppend(t, j, frame(41, 10))
			mustSnapshot(t, j)
			files := snapshotFiles(dir)
			if len(files) != 2 || filepath.Base(files[0]) != "0000000000000029"+snapshotSuffix {
				t.Errorf("left are %q", files)
			}
			j.Close()
			again := new(tally)
			if _, logged := restored(t, dir, again); again.read != 0 || again.frames != 41 ||
				len(logged) > 0 {
				t.Errorf("after that: %+v, %q", again, logged)
			}
		})
	}
}

// Damage behind a snapshot is refused, and a journal that lost segments, whatever snapshots there are.
func TestASnapshotHidesNoLoss(t *testing.T) {
	alone(t)
	sound := long(t, 450_000)
	for name, spoil := range map[string]func(segs []segment) error{
		"damage in the last segment": func(segs []segment) error {
			last := segs[len(segs)-1]
			if last.first > 40 {
				last = segs[len(segs)-2]
			}
			path := last.path
			b, err := os.ReadFile(path)
			if err == nil {
				b[1000] ^= 1
				err = os.WriteFile(path, b, 0o600)
			}
			return err
		},
		"the first segment gone": func(segs []segment) error { return os.Remove(segs[0].path) },
		"a segment gone":         func(segs []segment) error { return os.Remove(segs[2].path) },
		"all segments gone": func(segs []segment) error {
			return os.RemoveAll(filepath.Dir(segs[0].path))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := copyOf(t, sound)
			segs, err := segments(walDir(dir))
			if err == nil {
				err = spoil(segs)
			}
			if err != nil {
				t.Fatal(err)
			}
			if j, err := Open(dir, Config{}); !errors.Is(err, ErrDamaged) {
				t.Errorf("opened: %v", err)
				j.Close()
			}
		})
	}
}

// What a writer that was killed left half done is no snapshot, and goes with the next.
func TestAHalfWrittenSnapshot(t *testing.T) {
	dir := long(t, 10)
	half := snapshotFiles(dir)[0] + ".new"
	if err := os.WriteFile(half, []byte(snapshotMagic+"and"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := new(tally)
	j, logged := restored(t, dir, got)
	if got.read != 10 || got.frames != 40 || len(logged) > 0 {
		t.Errorf("%+v, %q", got, logged)
	}
	mustSnapshot(t, j)
	if _, err := os.Stat(half); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
}

// The last bytes of a disk are the journal's.
func TestNoSnapshotOnANearlyFullDisk(t *testing.T) {
	dir := t.TempDir()
	j := mustOpen(t, dir)
	mustAppend(t, j, frame(1, 10))
	j.cfg.Free = func(string) (int64, error) { return defaultMinFree, nil }
	if err := j.Snapshot(nil, new(tally)); err == nil || len(snapshotFiles(dir)) > 0 {
		t.Errorf("%v, %q", err, snapshotFiles(dir))
	}
}

// Snapshots come when enough frames have, not more often than once a minute; a start that had to read so many
// leaves one itself.
func TestFollow(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "hub")
	j, err := Open(dir, Config{SnapshotEvery: 10})
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, j, frames(1, 15, 10)...)
	j.Close()
	if j, err = Open(dir, Config{SnapshotEvery: 10}); err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if err := j.Restore(new(tally)); err != nil {
		t.Fatal(err)
	}
	newest := func() string {
		files := snapshotFiles(dir)
		if len(files) == 0 {
			return "none"
		}
		return strings.TrimLeft(strings.TrimSuffix(filepath.Base(files[0]), snapshotSuffix), "0")
	}
	synctest.Test(t, func(t *testing.T) {
		end := j.Follow(func() ledger.Replica { return new(tally) })
		for _, step := range []struct {
			frames uint64
			after  time.Duration
			want   string
		}{{0, time.Second, "f"}, {9, time.Hour, "f"}, {1, 10 * time.Second, "19"},
			{30, 40 * time.Second, "19"}, {0, time.Minute, "37"}} {
			if step.frames > 0 {
				seq, _, _ := j.Last()
				mustAppend(t, j, frames(seq+1, step.frames, 10)...)
			}
			time.Sleep(step.after)
			synctest.Wait()
			if got := newest(); got != step.want {
				t.Errorf("%d frames more and %v later the newest is %s, want %s", step.frames, step.after,
					got, step.want)
			}
		}
		end()
	})
}

func FuzzParseSnapshot(f *testing.F) {
	s := &snapshot{seq: 3, epoch: 2, chain: 1, state: []byte("state")}
	b := append(s.head(), s.state...)
	f.Add(binary.LittleEndian.AppendUint64(b, xxhash.Sum64(b)))
	f.Add([]byte(snapshotMagic))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := parseSnapshot(bytes.NewReader(data), int64(len(data)), true)
		if err == nil && !bytes.Equal(slices.Concat(s.head(), s.state), data[:len(data)-8]) {
			t.Error("read and written again it differs")
		}
	})
}
