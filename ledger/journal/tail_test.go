package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

// examine reads a journal as an audit does. It returns how many frames it has, and what is wrong.
func examine(t *testing.T, dir string) (frames int, note string, err error) {
	synctest.Test(t, func(*testing.T) { frames, note, err = examined(dir) }) // it looks again, a little later
	return frames, note, err
}

func examined(dir string) (frames int, note string, err error) {
	r, err := NewReader(dir)
	if err != nil {
		return 0, "", err
	}
	r.Witness()
	for {
		e, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return frames, "", err
		}
		if _, err := e.Frame(); err != nil {
			return frames, "", err
		}
		frames++
	}
	note, err = r.Tail()
	return frames, note, err
}

// wellKept is a journal whose bytes are all as they were written, in frames of which the last two were
// synced together.
func wellKept(t *testing.T, size int, n uint64) (dir string) {
	dir = filepath.Join(t.TempDir(), "hub-maths")
	j := mustOpen(t, dir)
	for seq := uint64(1); seq < n; seq++ {
		if seq == n-1 {
			mustAppend(t, j, frame(seq, size), frame(seq+1, size))
		} else {
			mustAppend(t, j, frame(seq, size))
		}
	}
	j.Close()
	if got, note, err := examine(t, dir); err != nil || note != "" || got != int(n) {
		t.Fatalf("%d frames, %q, %v", got, note, err)
	}
	return dir
}

// Every byte of a small journal is changed, one at a time and in several ways: behind the last frame, too.
// Each change is found, with the file and a place at or before it.
func TestEveryChangedByteIsFound(t *testing.T) {
	alone(t)
	for _, n := range []uint64{2, 5} {
		dir := wellKept(t, 10, n)
		path, b, end := used(t, dir)
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		var places []int
		for i := range end + 600 {
			places = append(places, i)
		}
		for i := end + 600; i < len(b); i += 409_601 {
			places = append(places, i)
		}
		places = append(places, len(b)-1)
		for _, i := range places {
			changes := []byte{b[i] ^ 0xff, b[i] ^ 1<<(i%8), 0}
			if i >= 48 && i < 80 || i < 16 {
				for bit := range 8 {
					changes = append(changes, b[i]^1<<bit)
				}
			}
			for _, c := range changes {
				if c == b[i] {
					continue
				}
				r := &Reader{wal: walDir(dir), segs: []segment{{path: path}},
					buf: slices.Clone(b[:min(len(b), max(end,
						i)+1024)])}
				r.buf[i] = c
				_, err := drain(r)
				// else nothing of it is left to be found
				if rest := r.buf[r.off:]; err == io.EOF && !allZero(rest) {
					_, err = r.behind(rest)
				}
				var d *Damage
				if !errors.As(err, &d) || d.Segment != path && d.Segment != "" || d.Offset > int64(i) {
					t.Fatalf("%d frames: byte %d of %d used, %02x for %02x: %v", n, i, end, c, b[i], err)
				}
			}
			if i%97 != 0 && i != 60 && i != end+5 {
				continue
			}
			// The same on disk, where a reader looks again before it believes.
			if _, err := f.WriteAt([]byte{b[i] ^ 0xff}, int64(i)); err != nil {
				t.Fatal(err)
			}
			_, _, err := examine(t, dir)
			if d := (*Damage)(nil); !errors.As(err, &d) || d.Segment != path || d.Offset > int64(i) {
				t.Errorf("byte %d on disk: %v", i, err)
			}
			if _, err := f.WriteAt(b[i:i+1], int64(i)); err != nil {
				t.Fatal(err)
			}
		}
		if _, note, err := examine(t, dir); err != nil || note != "" {
			t.Fatalf("as it was: %q, %v", note, err)
		}
	}
}

// A segment that is cut off at any byte is found: it is shorter than it was allocated.
func TestEveryTruncationIsFound(t *testing.T) {
	dir := wellKept(t, 10, 3)
	path, b, end := used(t, dir)
	for cut := 0; cut < len(b); cut++ {
		if cut > end+20 && cut < len(b)-1 {
			cut += 300_007
			cut = min(cut, len(b)-1)
		}
		rewrite(t, path, b[:min(cut, end)], cut)
		_, note, err := examine(t, dir)
		if d := (*Damage)(nil); !errors.As(err, &d) || d.Segment != path || d.Offset > int64(cut) {
			t.Errorf("cut at byte %d of %d used: %q, %v", cut, end, note, err)
		}
	}
}

// A journal of several segments: a segment that is missing, named otherwise, cut off, or changed where none
// is written any more.
func TestSegmentsAreWhatTheyWere(t *testing.T) {
	alone(t)
	dir := wellKept(t, 900_000, 11)
	segs, err := segments(walDir(dir))
	if err != nil || len(segs) != 3 {
		t.Fatalf("%d segments, %v", len(segs), err)
	}
	name := func(s segment) string { return filepath.Base(s.path) }
	for what, harm := range map[string]func(t *testing.T, wal string){
		"the first is missing": func(t *testing.T,
			wal string) {
			os.Remove(filepath.Join(wal, name(segs[0])))
		},
		"the second is missing": func(t *testing.T,
			wal string) {
			os.Remove(filepath.Join(wal, name(segs[1])))
		},
		"the last has another name": func(t *testing.T, wal string) {
			os.Rename(filepath.Join(wal, name(segs[2])),
				filepath.Join(wal, strings.Replace(name(segs[2]), ".wal",
					".wax", 1)))
		},
		"the last begins later by its name": func(t *testing.T, wal string) {
			os.Rename(filepath.Join(wal, name(segs[2])), filepath.Join(wal, fmt.Sprintf("%016x-%016x.wal", 2,
				segs[2].first+1)))
		},
		"the first begins later by its name": func(t *testing.T, wal string) {
			os.Rename(filepath.Join(wal, name(segs[0])),
				filepath.Join(wal, fmt.Sprintf("%016x-%016x.wal", 0, 1)))
		},
		"a name in capitals": func(t *testing.T, wal string) {
			os.Rename(filepath.Join(wal, name(segs[2])), filepath.Join(wal,
				strings.ToUpper(name(segs[2])[:33])+".WAL"))
		},
		"a file too many": func(t *testing.T,
			wal string) {
			os.WriteFile(filepath.Join(wal, "note"), nil, 0o600)
		},
		"the first is cut off by a byte": func(t *testing.T, wal string) {
			info, _ := os.Stat(filepath.Join(wal, name(segs[0])))
			os.Truncate(filepath.Join(wal, name(segs[0])), info.Size()-1)
		},
		"the second ends with more": func(t *testing.T, wal string) {
			f, _ := os.OpenFile(filepath.Join(wal, name(segs[1])), os.O_APPEND|os.O_WRONLY, 0)
			f.Write([]byte{0, 0, 0, 0, 0, 0, 0, 0, 1})
			f.Close()
		},
	} {
		t.Run(what, func(t *testing.T) {
			copied := filepath.Join(t.TempDir(), "hub-maths")
			if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			harm(t, walDir(copied))
			if _, _, err := examine(t, copied); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(),
				walDir(copied)) {
				t.Error(err)
			}
		})
	}
	t.Run("the heads of later segments", func(t *testing.T) {
		b, err := os.ReadFile(segs[2].path)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 48 {
			mutant := slices.Clone(b)
			mutant[i] ^= 0x41
			if err := os.WriteFile(segs[2].path, mutant, 0o600); err != nil {
				t.Fatal(err)
			}
			r, err := ReaderAt(dir, segs[1].first) // and on into the last
			for err == nil {
				_, err = r.Next()
			}
			if d := (*Damage)(nil); !errors.As(err, &d) || d.Segment != segs[2].path || d.Offset > int64(i) {
				t.Errorf("byte %d: %v", i, err)
			}
		}
		if err := os.WriteFile(segs[2].path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	})
	// The last one gone looks like a crash before it was begun, to whoever has nothing else to go by.
	if err := os.Remove(segs[2].path); err != nil {
		t.Fatal(err)
	}
	if _, note, err := examine(t, dir); err != nil ||
		!strings.Contains(note, "the next segment is not here") {
		t.Errorf("%q, %v", note, err)
	}
}

// What changes in these files changes nothing that is read of the journal: its lock, the names of its
// openings, and segments that were allocated and not used. Those are made anew by a start, whatever is in
// them.
func TestFilesThatSayNothingOfFrames(t *testing.T) {
	alone(t)
	dir := wellKept(t, 10, 4)
	for _, name := range []string{"LOCK", "LIVES", "wal/0.tmp", "wal/1.tmp"} {
		path := filepath.Join(dir, name)
		b, _ := os.ReadFile(path)
		if err := os.WriteFile(path, append(bytes.Repeat([]byte{0xd5}, 3000), b...), 0o600); err != nil {
			t.Fatal(err)
		}
		if n, note, err := examine(t, dir); n != 4 || note != "" || err != nil {
			t.Errorf("%s: %d frames, %q, %v", name, n, note, err)
		}
	}
	j := mustOpen(t, dir)
	for seq := uint64(5); seq < 20; seq++ { // into the next two segments
		mustAppend(t, j, frame(seq, 900_000))
	}
	j.Close()
	if n, note, err := examine(t, dir); n != 19 || note != "" || err != nil {
		t.Errorf("%d frames, %q, %v", n, note, err)
	}
}

// A snapshot is a witness: a flipped byte of it is found, and so is a journal that ends before it or has
// another frame there.
func TestSnapshotsBearWitness(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "hub-maths")
	j := mustOpen(t, dir)
	mustAppend(t, j, frames(1, 6, 10)...)
	if err := j.write(nil, &snapshot{seq: 6, epoch: 7, chain: chainAt(t, dir, 6),
		state: []byte("state")}); err != nil {
		t.Fatal(err)
	}
	j.Close()
	if _, note, err := examine(t, dir); note != "" || err != nil {
		t.Fatalf("%q, %v", note, err)
	}
	path := snapshotFiles(dir)[0]
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range b {
		mutant := slices.Clone(b)
		mutant[i] ^= 0x10
		if err := os.WriteFile(path, mutant, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := examine(t, dir); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), path) {
			t.Errorf("byte %d: %v", i, err)
		}
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	// An end that was cut off cleanly, back to frame 5.
	seg, data, _ := used(t, dir)
	at := 0
	r, _ := NewReader(dir)
	for e, err := r.Next(); err == nil; e, err = r.Next() {
		at = int(e.Offset)
	}
	rewrite(t, seg, data[:at], len(data))
	if n, _, err := examine(t, dir); n != 5 || !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(),
		"up to frame 6") {
		t.Errorf("%d frames, %v", n, err)
	}
	// Another journal's.
	other := wellKept(t, 20, 6)
	if err := os.CopyFS(snapshotDir(other), os.DirFS(snapshotDir(dir))); err != nil {
		t.Fatal(err)
	}
	if _, _, err := examine(t, other); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(),
		"another frame 6") {
		t.Error(err)
	}
}

func chainAt(t *testing.T, dir string, seq uint64) uint32 {
	r, err := NewReader(dir)
	for err == nil && r.Frames < seq {
		_, err = r.Next()
	}
	if err != nil {
		t.Fatal(err)
	}
	return r.Sum
}

// A reader that cannot open the next segment goes on there once it can.
func TestAReaderGoesOnAfterASegmentThatDoesNotOpen(t *testing.T) {
	alone(t)
	dir := filepath.Join(t.TempDir(), "j")
	j := mustOpen(t, dir)
	for seq := range uint64(3) {
		mustAppend(t, j, frame(seq+1, segmentBytes))
	}
	segs, err := segments(walDir(dir))
	try(t, err)
	if len(segs) < 3 {
		t.Fatalf("%d segments", len(segs))
	}
	r, err := NewReader(dir)
	try(t, err)
	aside, path := filepath.Join(t.TempDir(), "aside"), segs[1].path
	try(t, os.Rename(path, aside), os.Symlink("nowhere", path))
	read := uint64(0)
	for err == nil {
		if _, err = r.Next(); err == nil {
			read++
		}
	}
	if !errors.Is(err, ErrDamaged) || read != segs[1].first-1 {
		t.Fatalf("after %d frames: %v", read, err)
	}
	try(t, os.Remove(path), os.Rename(aside, path))
	if e, err := r.Next(); err != nil || e.Seq != read+1 {
		t.Errorf("frame %d after frame %d: %v", e.Seq, read, err)
	}
}
