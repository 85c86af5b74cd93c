package journal

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"

	"souk/bus/etcdlog"
	"souk/bus/tip"
	"souk/ledger"
	"souk/market"
)

// frame number seq, with a transfer of its own and size bytes of notes.
func frame(seq uint64, size int) ledger.Frame {
	f := ledger.Frame{Version: ledger.FrameVersion, Epoch: 7, Seq: seq, Time: int64(seq) * 1000}
	for i := 0; i == 0 || i*200 < size; i++ {
		id := fmt.Sprintf("d-%d-%d", seq, i)
		note := strings.Repeat("n", min(size, 150))
		f.Records = append(f.Records,
			ledger.NewDeposit(id, "ann", market.Credits(seq), &tip.Order{Note: note},
				[16]byte{1, byte(seq), 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}))
	}
	return f
}

func frames(first, n uint64, size int) (list []ledger.Frame) {
	for seq := first; seq < first+n; seq++ {
		list = append(list, frame(seq, size))
	}
	return list
}

// alone leaves out a test that is long and starts no goroutine where tests are to be short. They are under
// the race detector, which has nothing to find in it; without that `make test` runs it, too.
func alone(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("long, and on one goroutine")
	}
}

func mustOpen(t testing.TB, dir string) *Journal {
	t.Helper()
	j, err := Open(dir, Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

func mustAppend(t testing.TB, j *Journal, list ...ledger.Frame) {
	t.Helper()
	if err := j.Append(list...); err != nil {
		t.Fatal(err)
	}
}

func readAll(dir string) (list []ledger.Frame, err error) {
	err = Read(dir, func(f ledger.Frame) error { list = append(list, f); return nil })
	return list, err
}

func TestWhatIsAppendedIsRead(t *testing.T) {
	alone(t)
	dir := filepath.Join(t.TempDir(), "hub-maths")
	want := frames(1, 40, 300_000) // 12 MB: four segments
	j := mustOpen(t, dir)
	for i := 0; i < len(want); i += 4 {
		mustAppend(t, j, want[i:i+4]...)
	}
	if seq, epoch, time := j.Last(); seq != 40 || epoch != 7 || time != 40_000 {
		t.Errorf("last = %d, %d, %d", seq, epoch, time)
	}
	for range 2 { // beside the writer, and after it
		got, err := readAll(dir)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("read %d frames, %v; want the %d that were written", len(got), err, len(want))
		}
		j.Close()
	}
	segs, err := segments(walDir(dir))
	if err != nil || len(segs) < 3 {
		t.Fatalf("%d segments, %v; want several", len(segs), err)
	}

	j = mustOpen(t, dir)
	var s tally
	if err := j.Restore(&s); err != nil || s.frames != 40 {
		t.Fatalf("restored from %d frames, %v", s.frames, err)
	}
	mustAppend(t, j, frame(41, 10))
	j.Close()
	if got, err := readAll(dir); err != nil || len(got) != 41 {
		t.Fatalf("read %d frames, %v; want 41", len(got), err)
	}
}

func TestEtcdReadsTheSame(t *testing.T) {
	dir := t.TempDir()
	j := mustOpen(t, dir)
	mustAppend(t, j, frames(1, 3, 10)...)
	mustAppend(t, j, frame(4, 5000))
	j.Close()
	w, err := wal.OpenForRead(etcdlog.New(nil, ""), walDir(dir), &walpb.Snapshot{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	_, _, entries, err := w.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewReader(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i, entry := range entries {
		e, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		data := entry.GetData()
		if e.Seq != entry.GetIndex() || e.Epoch != int64(entry.GetTerm()) ||
			string(e.Data) != string(data[1:len(data)-1]) {
			t.Errorf("entry %d: ours has index %d, etcd's %d", i, e.Seq, entry.GetIndex())
		}
		if want := []int{0, 1, 2, 0}[i]; e.Position != want {
			t.Errorf("frame %d stands at position %d of its sync, want %d", e.Seq, e.Position, want)
		}
	}
	if _, err := r.Next(); err != io.EOF {
		t.Errorf("after %d entries: %v, want io.EOF", len(entries), err)
	}
}

func TestOneWriter(t *testing.T) {
	dir := t.TempDir()
	j := mustOpen(t, dir)
	_, err := Open(dir, Config{})
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), strconv.Itoa(os.Getpid())) {
		t.Errorf("second writer: %v, want ErrLocked with the first one's process id", err)
	}
	j.Close()
	mustOpen(t, dir)
}

func TestFramesMustFollow(t *testing.T) {
	for name, change := range map[string]func(*ledger.Frame){
		"gap":         func(f *ledger.Frame) { f.Seq = 5 },
		"again":       func(f *ledger.Frame) { f.Seq = 2 },
		"lower epoch": func(f *ledger.Frame) { f.Epoch = 6 },
		"earlier":     func(f *ledger.Frame) { f.Time = 1 },
		"version":     func(f *ledger.Frame) { f.Version = 9 },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			j := mustOpen(t, dir)
			mustAppend(t, j, frames(1, 2, 10)...)
			bad := frame(3, 10)
			change(&bad)
			if err := j.Append(bad); err == nil {
				t.Fatal("taken")
			}
			if err := j.Append(frame(3, 10)); err == nil {
				t.Error("a good frame was taken after a failed append")
			}
			if got, err := readAll(dir); err != nil || len(got) != 2 {
				t.Errorf("%d frames stored, %v; want 2", len(got), err)
			}
		})
	}
}

// A lock that cannot be made, as the disk may only be read, is named as what it is.
func TestALockThatCannotBeMade(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "LOCK"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := Open(dir, Config{MinFree: -1})
	want := "journal " + dir + ": " + filepath.Join(dir, "LOCK") + " is a directory, not a file: move it away"
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

// failing is a disk whose sync fails, after the bytes were or were not written.
type failing struct {
	store
	write bool
	calls int
}

var errSync = errors.New("input/output error")

func (f *failing) Save(s *raftpb.HardState, e []*raftpb.Entry) error {
	f.calls++
	if f.write {
		f.store.Save(s, e)
	}
	return errSync
}

func TestAFailedSyncIsFinal(t *testing.T) {
	for _, written := range []bool{false, true} {
		t.Run(fmt.Sprintf("written=%v", written), func(t *testing.T) {
			dir := t.TempDir()
			j := mustOpen(t, dir)
			mustAppend(t, j, frame(1, 10))
			bad := &failing{store: j.store, write: written}
			j.store = bad
			for range 3 {
				if err := j.Append(frame(2, 10)); !errors.Is(err, errSync) {
					t.Fatalf("append: %v, want the disk's error", err)
				}
			}
			if bad.calls != 1 {
				t.Errorf("the disk was asked %d times, want once: a failed sync is never retried", bad.calls)
			}
			j.Close()
			want := 1
			if written {
				want = 2
			}
			if seq, _, _ := mustOpen(t, dir).Last(); seq != uint64(want) {
				t.Errorf("a restart finds frame %d, want %d", seq, want)
			}
		})
	}
}

func TestANearlyFullDiskTakesOnlyEnds(t *testing.T) {
	dir := t.TempDir()
	j := mustOpen(t, dir)
	mustAppend(t, j, frame(1, 10))
	j.cfg.Free = func(string) (int64, error) { return 1 << 20, nil }
	if j.HasRoom() {
		t.Error("HasRoom on a full disk")
	}
	if err := j.Append(frame(2, 10)); !errors.Is(err, ledger.ErrDiskFull) {
		t.Errorf("deposit: %v, want ErrDiskFull", err)
	}
	end := frame(2, 10)
	end.Records = []ledger.Record{ledger.NewVoid("j", ledger.Hold{Client: "ann", Round: 1}, "timeout",
		[16]byte{9})}
	mustAppend(t, j, end)
	j.cfg.Free = func(string) (int64, error) { return 1 << 30, nil }
	mustAppend(t, j, frame(3, 10))
}

// used returns the path of a journal's only segment and its bytes up to the last record.
func used(t *testing.T, dir string) (path string, b []byte, end int) {
	t.Helper()
	segs, err := segments(walDir(dir))
	if err != nil || len(segs) != 1 {
		t.Fatalf("%d segments, %v; want 1", len(segs), err)
	}
	b, err = os.ReadFile(segs[0].path)
	if err != nil {
		t.Fatal(err)
	}
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
	return segs[0].path, b, int(r.off)
}

// rewrite replaces a segment by these bytes, followed by zeros up to size.
func rewrite(t *testing.T, path string, b []byte, size int) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, int64(size)); err != nil {
		t.Fatal(err)
	}
}

func TestATornTailIsTrimmedAtEveryByte(t *testing.T) {
	alone(t)
	dir := t.TempDir()
	j := mustOpen(t, dir)
	want := frames(1, 2, 10)
	mustAppend(t, j, want...)
	j.Close()
	_, _, safe := used(t, dir)
	j = mustOpen(t, dir)
	mustAppend(t, j, frames(3, 3, 10)...)
	j.Close()
	path, b, end := used(t, dir)

	for cut := safe; cut < end; cut++ {
		// a copy that ends there; allocated space behind it
		for _, size := range []int{cut, end&^4095 + 8192} {
			rewrite(t, path, b[:cut], size)
			got, err := readAll(dir)
			if err != nil || len(got) < 2 || len(got) >= 5 && cut < end-7 /* all but padding */ ||
				!reflect.DeepEqual(got[:2], want) {
				t.Fatalf("cut at byte %d of %d, size %d: read %d frames, %v", cut-safe, end-safe, size,
					len(got), err)
			}
			if (cut-safe)%13 != 0 {
				continue
			}
			j, err := Open(dir, Config{})
			if err != nil {
				t.Fatalf("cut at byte %d of %d, size %d: %v", cut-safe, end-safe, size, err)
			}
			next := uint64(len(got)) + 1
			mustAppend(t, j, frames(next, 2, 100)...)
			j.Close()
			if again, err := readAll(dir); err != nil || uint64(len(again)) != next+1 {
				t.Fatalf("after trimming at byte %d: %d frames, %v; want %d", cut-safe, len(again), err,
					next+1)
			}
		}
	}
}

// A flipped bit either changes nothing that matters (padding) or is found. It never makes a frame vanish.
func TestAFlippedBitIsFoundEverywhere(t *testing.T) {
	dir := t.TempDir()
	j := mustOpen(t, dir)
	mustAppend(t, j, frames(1, 2, 10)...)
	mustAppend(t, j, frame(3, 700))
	mustAppend(t, j, frame(4, 10))
	j.Close()
	want, err := readAll(dir)
	if err != nil || len(want) != 4 {
		t.Fatal(len(want), err)
	}
	path, b, end := used(t, dir)
	found, tried := 0, 0
	for bit := range end * 8 {
		if bit%3 == 1 && testing.Short() {
			continue
		}
		tried++
		mutant := slices.Clone(b[:end+4096])
		mutant[bit/8] ^= 1 << (bit % 8)
		r := &Reader{wal: walDir(dir), segs: []segment{{path: path}}, buf: mutant}
		n, err := drain(r)
		if d := (*Damage)(nil); errors.As(err, &d) {
			found++
			if d.Offset > int64(bit/8) || d.After > 4 {
				t.Fatalf("bit %d (byte %d): damage named at byte %d", bit, bit/8, d.Offset)
			}
			continue
		}
		if err != io.EOF || n != 4 {
			t.Fatalf("bit %d of %d (byte %d): read %d of 4 frames, %v", bit, end*8, bit/8, n, err)
		}
	}
	if found < tried*9/10 {
		t.Errorf("only %d of %d flips found", found, tried)
	}
	// The same on disk: a writer refuses, and says where.
	b[end-20] ^= 4
	rewrite(t, path, b, len(b))
	if _, err := Open(dir, Config{}); !errors.Is(err, ErrDamaged) ||
		!strings.Contains(err.Error(), "at byte") {
		t.Errorf("open: %v, want ErrDamaged and the place", err)
	}
}

// drain reads what is in the reader's buffer, without looking at the disk.
func drain(r *Reader) (n int, err error) {
	for {
		rec, gap := readRecord(r.buf[r.off:], r.off, r.Sum)
		if gap != nil {
			if d := r.judge(r.buf[r.off:], gap); d != nil {
				return n, d
			}
			return n, io.EOF
		}
		e, ok, err := r.take(rec)
		if err != nil {
			return n, err
		}
		if ok {
			if _, err := e.Frame(); err != nil {
				return n, err
			}
			n++
		}
	}
}

func TestMissingSectors(t *testing.T) {
	alone(t)
	dir := t.TempDir()
	j := mustOpen(t, dir)
	mustAppend(t, j, frames(1, 1, 10)...)
	mustAppend(t, j, frame(2, 3000))
	mustAppend(t, j, frame(3, 10))
	mustAppend(t, j, frame(4, 3000), frame(5, 3000))
	j.Close()
	path, b, _ := used(t, dir)
	at := map[uint64]int64{}
	r, _ := NewReader(dir)
	for e, err := r.Next(); err == nil; e, err = r.Next() {
		at[e.Seq] = e.Offset
	}
	zero := func(from int64) []byte {
		m := slices.Clone(b)
		from = (from + sector) / sector * sector
		clear(m[from : from+sector])
		return m
	}
	t.Run("of the last write: torn", func(t *testing.T) {
		rewrite(t, path, zero(at[4]), len(b))
		got, err := readAll(dir)
		if err != nil || len(got) != 3 {
			t.Errorf("read %d frames, %v; want 3: frame 5 is of the same, unacknowledged, write as 4",
				len(got), err)
		}
	})
	t.Run("of an earlier write: damage", func(t *testing.T) {
		rewrite(t, path, zero(at[2]), len(b))
		got, err := readAll(dir)
		if len(got) != 1 || !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "behind frame 1") {
			t.Errorf("read %d frames, %v; want 1 and ErrDamaged", len(got), err)
		}
		if _, err := Open(dir, Config{}); !errors.Is(err, ErrDamaged) {
			t.Errorf("open: %v, want ErrDamaged", err)
		}
	})
	t.Run("a whole frame of an earlier write: damage", func(t *testing.T) {
		m := slices.Clone(b)
		clear(m[at[2]:at[3]])
		rewrite(t, path, m, len(b))
		if got, err := readAll(dir); len(got) != 1 || !errors.Is(err, ErrDamaged) {
			t.Errorf("read %d frames, %v; want 1 and ErrDamaged", len(got), err)
		}
	})
}

func TestDamageInAnOldSegment(t *testing.T) {
	alone(t)
	dir := t.TempDir()
	j := mustOpen(t, dir)
	for seq := uint64(1); seq <= 30; seq++ {
		mustAppend(t, j, frame(seq, 300_000))
	}
	j.Close()
	segs, err := segments(walDir(dir))
	if err != nil || len(segs) < 3 {
		t.Fatal(len(segs), err)
	}
	original, err := os.ReadFile(segs[0].path)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func([]byte) []byte{
		"flipped":   func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
		"cut short": func(b []byte) []byte { return b[:len(b)-8] },
		"zeroed":    func(b []byte) []byte { clear(b[len(b)-4096:]); return b },
		"scribbled": func(b []byte) []byte { return append(b, 1, 2, 3, 4, 5, 6, 7, 8) },
		"emptied":   func(b []byte) []byte { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			b := change(slices.Clone(original))
			rewrite(t, segs[0].path, b, len(b))
			_, err := readAll(dir)
			if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), filepath.Base(segs[0].path)) {
				t.Errorf("%v, want ErrDamaged in the first segment", err)
			}
		})
	}
	t.Run("as long as it was allocated", func(t *testing.T) {
		rewrite(t, segs[0].path, original, len(original)+4096)
		if got, err := readAll(dir); err != nil || len(got) != 30 {
			t.Errorf("%d frames, %v; want all 30", len(got), err)
		}
	})
	rewrite(t, segs[0].path, original, len(original))
	t.Run("a segment missing", func(t *testing.T) {
		if err := os.Rename(segs[1].path, segs[1].path+".away"); err != nil {
			t.Fatal(err)
		}
		if _, err := readAll(dir); !errors.Is(err, ErrDamaged) {
			t.Errorf("%v, want ErrDamaged", err)
		}
	})
}

func TestAReaderFollowsALiveWriter(t *testing.T) {
	dir := t.TempDir()
	j := mustOpen(t, dir)
	const n = 300
	done := make(chan error, 1)
	go func() {
		for seq := uint64(1); seq <= n; seq += 3 {
			if err := j.Append(frames(seq, 3, 20_000)...); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	r, err := NewReader(dir)
	if err != nil {
		t.Fatal(err)
	}
	written := false
	for r.Frames < n {
		e, err := r.Next()
		switch {
		case err == io.EOF && written:
			t.Fatalf("%d frames at the end, want %d", r.Frames, n)
		case err == io.EOF:
			select {
			case err := <-done:
				if err != nil {
					t.Fatal(err)
				}
				written = true
			default:
			}
		case err != nil:
			t.Fatal(err)
		default:
			if f, err := e.Frame(); err != nil || !reflect.DeepEqual(f, frame(e.Seq, 20_000)) {
				t.Fatalf("frame %d: %v", e.Seq, err)
			}
		}
	}
}

// TestKill runs a writer as a process of its own, which makes snapshots all the time, kills it at once and
// without warning, and looks for every frame that it had acknowledged. A start from what it left of its
// snapshots is the same as one from the first frame.
func TestKill(t *testing.T) {
	if dir := os.Getenv("SOUK_JOURNAL_WRITER"); dir != "" {
		j, err := Open(dir, Config{})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		go func() {
			for {
				if err := j.Snapshot(nil, new(tally)); err != nil {
					fmt.Println(err)
					os.Exit(1)
				}
			}
		}()
		for {
			seq, _, _ := j.Last()
			if err := j.Append(frames(seq+1, 1+seq%4, int(seq%7)*3000)...); err != nil {
				os.Exit(1)
			}
			seq, _, _ = j.Last()
			fmt.Println(seq)
		}
	}
	dir := t.TempDir()
	taken := 0
	rounds := 5
	if testing.Short() {
		rounds = 2
	}
	for round := range rounds {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKill$")
		cmd.Env = append(os.Environ(), "SOUK_JOURNAL_WRITER="+dir)
		var said bytes.Buffer
		cmd.Stderr = &said
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		acknowledged := uint64(0)
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ {
			seq, err := strconv.ParseUint(lines.Text(), 10, 64)
			if err != nil {
				t.Fatal(lines.Text())
			}
			acknowledged = seq
			if n == 40+round*17 {
				cmd.Process.Signal(syscall.SIGKILL)
			}
		}
		cmd.Wait()
		if said.Len() > 0 { // as by the race detector
			t.Fatalf("round %d: the writer says %s", round, &said)
		}
		list, err := readAll(dir)
		if err != nil || uint64(len(list)) < acknowledged || acknowledged == 0 {
			t.Fatalf("round %d: %d frames, %v; %d were acknowledged", round, len(list), err, acknowledged)
		}
		got, want := new(tally), wholeTally(t, dir)
		j, logged := restored(t, dir, got)
		if got.frames != want.frames || got.sum != want.sum || len(logged) > 0 {
			t.Fatalf("round %d: %+v from a snapshot, %+v from the first frame; %q", round, got, want, logged)
		}
		j.Close()
		taken += got.loads
	}
	if taken == 0 {
		t.Error("no start had a snapshot")
	}
}

func TestFind(t *testing.T) {
	data := t.TempDir()
	for _, name := range []string{"treasury", "hub-b", "hub-a"} {
		mustOpen(t, filepath.Join(data, "journal", name)).Close()
	}
	all := []string{filepath.Join(data, "journal", "hub-a"), filepath.Join(data, "journal", "hub-b"),
		filepath.Join(data, "journal", "treasury")}
	for path, want := range map[string][]string{
		data:                           all,
		filepath.Join(data, "journal"): all,
		all[1]:                         all[1:2],
		filepath.Join(all[1], "wal"):   all[1:2],
	} {
		if got, err := Find(path); err != nil || !slices.Equal(got, want) {
			t.Errorf("Find(%s) = %v, %v; want %v", path, got, err, want)
		}
	}
	if _, err := Find(t.TempDir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Find in an empty directory: %v", err)
	}
}

// A journal that was written and has no segment left is not begun anew: a hub would take in every grant once
// more.
func TestAJournalWithoutItsSegments(t *testing.T) {
	for name, remove := range map[string]string{"its segments": "wal/*.wal", "their directory": "wal"} {
		t.Run(name, func(t *testing.T) {
			data := t.TempDir()
			dir := filepath.Join(data, "journal", "hub-a")
			j := mustOpen(t, dir)
			mustAppend(t, j, frames(1, 3, 10)...)
			j.Close()
			gone, err := filepath.Glob(filepath.Join(dir, remove))
			if err != nil || len(gone) == 0 {
				t.Fatal(gone, err)
			}
			for _, path := range gone {
				os.RemoveAll(path)
			}
			if _, err := Open(dir, Config{}); !errors.Is(err, ErrDamaged) {
				t.Errorf("opened for writing: %v", err)
			}
			if found, err := Find(data); err != nil || !slices.Equal(found, []string{dir}) {
				t.Errorf("found %v, %v", found, err)
			}
			if _, err := readAll(dir); !errors.Is(err, ErrDamaged) {
				t.Errorf("read: %v", err)
			}
		})
	}
}

// What another release wrote is not damage, and no copy would help.
func TestAnotherRelease(t *testing.T) {
	dir := t.TempDir()
	j := mustOpen(t, dir)
	mustAppend(t, j, frame(1, 10))
	later := frame(2, 10)
	later.Version = ledger.FrameVersion + 1
	if _, err := j.encode([]ledger.Frame{frame(2, 10)}); err != nil {
		t.Fatal(err)
	}
	j.entries[0].Data[1] = later.Version // behind the position
	if err := j.store.Save(&j.state, j.entries); err != nil {
		t.Fatal(err)
	}
	j.Close()
	for what, read := range map[string]func() error{
		"read":   func() error { _, err := readAll(dir); return err },
		"opened": func() error { _, err := Open(dir, Config{}); return err },
	} {
		if err := read(); err == nil || errors.Is(err, ErrDamaged) ||
			!strings.Contains(err.Error(), "take the one that wrote it") ||
			strings.Contains(err.Error(), "copy") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestWarningsReachSlog(t *testing.T) {
	var b strings.Builder
	lg := etcdlog.New(slog.New(slog.NewTextHandler(&b, nil)), "journal: ")
	lg.Info("quiet")
	lg.Named("wal").Warn("slow fdatasync")
	if s := b.String(); strings.Contains(s, "quiet") || !strings.Contains(s, "journal: slow fdatasync") {
		t.Errorf("logged %q", s)
	}
}

func FuzzReadRecord(f *testing.F) {
	dir := f.TempDir()
	j := mustOpen(f, dir)
	mustAppend(f, j, frame(1, 10))
	j.Close()
	segs, _ := segments(walDir(dir))
	b, _ := os.ReadFile(segs[0].path)
	f.Add(b[:400], uint32(0))
	f.Add(b[16:200], uint32(7))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}, uint32(0))
	f.Fuzz(func(t *testing.T, b []byte, crc uint32) {
		r := &Reader{segs: []segment{{}}, buf: b, Sum: crc}
		drain(r)
	})
}

func BenchmarkAppend8KB(b *testing.B) {
	for _, batch := range []int{1, 8} {
		b.Run(fmt.Sprintf("frames=%d", batch), func(b *testing.B) {
			j := mustOpen(b, b.TempDir())
			took := make([]float64, 0, b.N)
			list := frames(1, uint64(batch), 8000/batch)
			b.ReportAllocs()
			for b.Loop() {
				start := now()
				mustAppend(b, j, list...)
				took = append(took, now()-start)
				for i := range list {
					list[i].Seq += uint64(batch)
					list[i].Time += 1000 * int64(batch)
				}
			}
			slices.Sort(took)
			b.ReportMetric(took[len(took)/2], "p50-us")
			b.ReportMetric(took[len(took)*99/100], "p99-us")
		})
	}
}

func BenchmarkRead(b *testing.B) {
	dir := b.TempDir()
	j := mustOpen(b, dir)
	for seq := uint64(1); seq < 4000; seq += 100 {
		mustAppend(b, j, frames(seq, 100, 1000)...)
	}
	j.Close()
	b.ReportAllocs()
	for b.Loop() {
		r, err := NewReader(dir)
		if err != nil {
			b.Fatal(err)
		}
		for err == nil {
			_, err = r.Next()
		}
		b.SetBytes(int64(len(r.segs)) * segmentBytes)
	}
}
