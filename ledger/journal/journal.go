package journal

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"

	"souk/bus/etcdlog"
	"souk/bus/life"
	"souk/bus/metrics"
	"souk/bus/regular"
	"souk/bus/tip"
	"souk/ledger"
)

// ErrLocked: another process writes the journal.
var ErrLocked = errors.New("journal is being written")

// Config of a journal. The zero value is good.
type Config struct {
	// MinFree bytes must be free on the disk before new money is held: ledger.ErrDiskFull otherwise. What
	// ends holds is still taken, down to the last byte. 0: 64 MB, two segments and room for all captures of
	// the holds that can be open. Below 0: no check.
	MinFree int64
	// Free says how many bytes of the disk under a directory may still be filled; nil: the system is asked.
	Free func(dir string) (int64, error)
	// Log takes warnings of the log underneath (a slow disk), and of snapshots; nil: none.
	Log *slog.Logger
	// SnapshotEvery so many frames Follow makes a snapshot. 0: 131072, which a start reads in half a second.
	SnapshotEvery uint64
	// Meter takes what a collector sees of the journal; nil: there is none.
	Meter metrics.Meter

	now func() time.Time // nil: time.Now
}

const (
	defaultMinFree       = 64 << 20
	defaultSnapshotEvery = 1 << 17
	// maxBatch frames in one Append: a hub makes a handful durable together.
	maxBatch = 1 << 16
)

// store is the part of etcd's log that a Journal uses.
type store interface {
	Save(*raftpb.HardState, []*raftpb.Entry) error
	ReleaseLockTo(index uint64) error
	Close() error
}

// Journal is a journal open for writing: the ledger.Journal of a process.
type Journal struct {
	ledger.Opening // as its directory, home, has it

	dir  string
	cfg  Config
	home *life.Dir
	snap *snapshot // that the opening trusted, for Restore
	from uint64    // the frame that it follows
	due  *snapshot // made by Restore, to be written by Follow

	mu       sync.Mutex
	store    store
	broken   error // once set, nothing more is taken
	appended bool
	last     ledger.Frame // header of the last frame
	end      tip.Sum      // its checksum
	said     string       // what LIVES said of the journal; "": nothing
	was      string       // what that would be of the same frame, as it is stored
	noted    uint64       // the last frame that LIVES says of
	looked   time.Time    // when it was told
	tail     tail         // the segment that is written, when it was looked at last
	buf      []byte
	entries  []*raftpb.Entry
	pool     []raftpb.Entry
	state    raftpb.HardState
	index    []uint64
	term     []uint64
	ends     []int
	starts   []int // of the frames' own bytes
	sums     sums
	wrote    int64             // bytes of frames since it was opened
	saves    *metrics.Recorder // seconds of each sync
}

var _ ledger.Journal = (*Journal)(nil)

// Open opens the journal in dir for writing, making it if there is none. It reads and checks everything that
// is stored, or all segments from that of its newest snapshot on; a write that a crash tore is trimmed, and
// what was there is kept in dir as *.torn. Errors: ErrLocked if another writer has it, ErrDamaged if
// stored bytes are not what was written.
func Open(dir string, cfg Config) (*Journal, error) {
	j, err := open(dir, cfg)
	if err != nil {
		return nil, fmt.Errorf("journal %s: %w", dir, err)
	}
	return j, nil
}

func open(dir string, cfg Config) (*Journal, error) {
	cfg.MinFree = cmp.Or(cfg.MinFree, defaultMinFree)
	cfg.SnapshotEvery = cmp.Or(cfg.SnapshotEvery, defaultSnapshotEvery)
	if cfg.now == nil {
		cfg.now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Free == nil {
		cfg.Free = freeBytes
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	home, err := life.Take(dir) // keeps other writers out while a torn tail is trimmed, too
	if errors.Is(err, life.ErrTaken) {
		return nil, fmt.Errorf("%w: %w: one journal has one writer; stop that one, or use another directory",
			ErrLocked, err)
	}
	if err != nil {
		return nil, err
	}
	j := &Journal{dir: dir, cfg: cfg, home: home, Opening: home, sums: newSums()}
	if words := home.Words(); len(words) > 0 {
		j.said, j.was = words[len(words)-1], word(0, tip.Sum{})
	}
	if err := j.start(); err != nil {
		home.Close()
		return nil, err
	}
	home.Begin(j.word(), j.said == j.was) // else an older copy was put behind LOCK and LIVES
	j.noted, j.looked = j.last.Seq, cfg.now()
	if err := j.held(); err != nil {
		return nil, errors.Join(err, j.store.Close(), home.Close())
	}
	j.observe()
	return j, nil
}

func (j *Journal) start() error {
	dir := walDir(j.dir)
	lg := etcdlog.New(j.cfg.Log, "journal: ")
	segs, err := segments(dir)
	if errors.Is(err, fs.ErrNotExist) {
		w, err := wal.Create(lg, dir, []byte(metadata))
		if err != nil {
			return err
		}
		j.store = w
		return nil
	}
	if err == nil {
		err = j.clear(segs)
	}
	if err != nil {
		return err
	}
	// Only the last segment is read again: reading starts at a snapshot, and any index in it will do.
	w, err := wal.Open(lg, dir, &walpb.Snapshot{Index: &segs[len(segs)-1].first, Term: new(uint64)})
	if errors.Is(err, fileutil.ErrLocked) {
		return ErrLocked
	}
	if err != nil {
		return err
	}
	if _, _, _, err := w.ReadAll(); err != nil && !errors.Is(err, wal.ErrSnapshotNotFound) {
		w.Close()
		return err
	}
	j.store = w
	return nil
}

// clear checks what is stored, and clears what a crash left, while no other writer has the segments. One
// that came by another path has not our LOCK. Each has its last segment, or, at the moment when that gets
// its name, the one before.
func (j *Journal) clear(segs []segment) error {
	var unlocked error
	for _, s := range segs[max(0, len(segs)-2):] {
		lock, err := fileutil.TryLockFile(s.path, os.O_RDWR, 0)
		if errors.Is(err, fileutil.ErrLocked) {
			return fmt.Errorf("%w by a process that came by another path, or whose LOCK was removed: stop "+
				"it: it has %s", ErrLocked, s.path)
		}
		if err == nil {
			defer lock.Close()
		}
		unlocked = cmp.Or(unlocked, err)
	}
	r, last, err := j.check()
	if err = cmp.Or(err, unlocked); err != nil { // what check finds in the place of a segment says more
		return err
	}
	if r.Frames > 0 {
		f, err := last.Frame()
		if err != nil {
			return err
		}
		f.Records = nil
		j.last, j.end = f, tip.SumOf(last.Data)
	}
	if err := j.trim(r); err != nil {
		return err
	}
	// A writer that was killed may have left spare segments. They would be used with whatever is in them.
	for _, spare := range spares {
		if err := os.Remove(filepath.Join(r.wal, spare)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// trim clears what a crash left behind the last whole record, and keeps a copy of it.
func (j *Journal) trim(r *Reader) error {
	rest := r.rest()
	if allZero(rest) && len(rest)%8 == 0 {
		return nil
	}
	path := r.segs[r.cur].path
	end := len(rest)
	for end > 0 && rest[end-1] == 0 {
		end--
	}
	if err := regular.Write(filepath.Join(j.dir, filepath.Base(path)+".torn"), rest[:end]); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if len(rest)%8 != 0 { // a copy that was cut off: records stand at multiples of 8
		if err := f.Truncate(r.off); err != nil {
			return err
		}
		if err := f.Truncate(max(r.off, segmentBytes)); err != nil { // zeros, as a segment is made
			return err
		}
		return fileutil.Fsync(f)
	}
	if _, err := f.Seek(r.off, io.SeekStart); err != nil {
		return err
	}
	if err := fileutil.ZeroToEnd(f); err != nil {
		return err
	}
	return fileutil.Fsync(f)
}

// Last returns sequence, epoch and time of the last frame; zeros before the first.
func (j *Journal) Last() (seq uint64, epoch, time int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.last.Seq, j.last.Epoch, j.last.Time
}

// Append makes all frames durable, in order, with one sync, or where they are more than maxSync bytes with
// several; see ledger.Journal. Two kinds of error:
// ledger.ErrDiskFull says that nothing was written and that frames which hold no new money are still taken.
// After any other the journal takes nothing more, ever: whether the frames are on disk is not known, a sync
// that failed once may lie when repeated, and only a start can tell.
func (j *Journal) Append(frames ...ledger.Frame) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.broken != nil {
		return j.broken
	}
	if len(frames) == 0 {
		return nil
	}
	if holdsMoney(frames) && !j.HasRoom() {
		free, needed := j.Room()
		return fmt.Errorf("journal %s: %w: %d MB are free, and %d MB are needed: free some space; open holds "+
			"still end", j.dir, ledger.ErrDiskFull, free>>20, needed>>20)
	}
	now := j.cfg.now()
	due := now.Sub(j.looked) >= noteEvery // no frame's time: that stands still after a clock was ahead
	if due {
		if err := j.look(); err != nil {
			return err
		}
	}
	j.appended = true
	for len(frames) > 0 {
		n, err := j.encode(frames)
		if err == nil {
			begun := time.Now()
			err = j.store.Save(&j.state, j.entries)
			j.saves.Record(time.Since(begun).Seconds())
		}
		if err != nil {
			j.broken = fmt.Errorf("journal %s: append failed, nothing more is taken until a restart has read "+
				"what is on disk: %w", j.dir, err)
			return j.broken
		}
		j.keepSums(frames[:n])
		j.wrote += int64(len(j.buf))
		j.last = frames[n-1]
		j.last.Records = nil
		frames = frames[n:]
	}
	if due {
		j.note()
		j.looked = now
		// the log holds each segment open that it has begun; LOCK keeps other writers out
		if err := j.store.ReleaseLockTo(j.last.Seq); err != nil {
			j.cfg.Log.Warn("the journal's earlier segments stay open", "journal", j.dir, "err", err)
		}
	}
	const keep = 1 << 20 // one rare large frame must not pin its memory
	if cap(j.buf) > keep {
		j.buf = nil
	}
	return nil
}

// noteEvery is how often LIVES records how far the journal is: if the writer is killed, a copy that lacks
// fewer frames is not found out.
const noteEvery = time.Second

// note has LIVES say how far the journal is.
func (j *Journal) note() {
	j.home.Wrote(j.word())
	j.noted = j.last.Seq
}

// holdsMoney reports whether any record sets new money aside or moves it; ends of holds do not.
func holdsMoney(frames []ledger.Frame) bool {
	for i := range frames {
		for k := range frames[i].Records {
			switch frames[i].Records[k].Kind {
			case ledger.KindCapture, ledger.KindVoid, ledger.KindReturn, ledger.KindReclaim,
				ledger.KindDistribute, ledger.KindClose, ledger.KindMark, ledger.KindWriteOff:
			default:
				return true
			}
		}
	}
	return false
}

// encode checks that the frames follow on the last one, and makes entries of the first n, which one sync may
// write, in reused memory.
func (j *Journal) encode(frames []ledger.Frame) (n int, err error) {
	if len(frames) > maxBatch {
		return 0, fmt.Errorf("%d frames at once, want at most %d", len(frames), maxBatch)
	}
	j.buf, j.ends, j.starts = j.buf[:0], j.ends[:0], j.starts[:0]
	last := j.last
	for i := range frames {
		f := &frames[i]
		switch {
		case f.Seq != last.Seq+1:
			return 0, fmt.Errorf("frame %d does not follow on frame %d", f.Seq, last.Seq)
		case f.Epoch < last.Epoch || f.Epoch < 0:
			return 0, fmt.Errorf("frame %d has epoch %d, lower than %d: a newer writer was here", f.Seq, f.Epoch,
				last.Epoch)
		case f.Time < last.Time || f.Time < 0:
			return 0, fmt.Errorf("frame %d has time %d, before %d", f.Seq, f.Time, last.Time)
		case f.Version != ledger.FrameVersion:
			return 0, fmt.Errorf("frame %d has version %d, want %d", f.Seq, f.Version, ledger.FrameVersion)
		}
		start := len(j.buf)
		j.buf = binary.AppendUvarint(j.buf, uint64(i))
		j.starts = append(j.starts, len(j.buf))
		j.buf = ledger.AppendFrame(j.buf, f)
		if size := len(j.buf) - start; size > ledger.MaxFrame {
			return 0, fmt.Errorf("frame %d has %d bytes, want at most %d", f.Seq, size, ledger.MaxFrame)
		}
		if i > 0 && len(j.buf) > maxSync {
			frames, j.buf, j.starts = frames[:i], j.buf[:start], j.starts[:i]
			break
		}
		j.buf = append(j.buf, endMark)
		j.ends = append(j.ends, len(j.buf))
		last = *f
	}
	j.fill(frames)
	return len(frames), nil
}

func (j *Journal) fill(frames []ledger.Frame) {
	n := len(frames)
	if cap(j.pool) < n {
		j.pool = make([]raftpb.Entry, n)
		j.index, j.term = make([]uint64, n), make([]uint64, n)
	}
	j.pool, j.index, j.term = j.pool[:n], j.index[:n], j.term[:n]
	j.entries = j.entries[:0]
	start := 0
	for i := range frames {
		j.index[i], j.term[i] = frames[i].Seq, uint64(frames[i].Epoch)
		e := &j.pool[i]
		e.Index, e.Term, e.Data = &j.index[i], &j.term[i], j.buf[start:j.ends[i]]
		j.entries = append(j.entries, e)
		start = j.ends[i]
	}
}

// Close ends writing and lets another writer in.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.store == nil {
		return nil
	}
	if j.broken == nil {
		j.broken = fmt.Errorf("journal %s: closed", j.dir)
	}
	err := j.store.Close()
	j.store = nil
	if j.noted != j.last.Seq {
		j.note()
	}
	return cmp.Or(err, j.home.Close())
}
