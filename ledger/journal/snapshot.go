package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"souk/bus/regular"
	"souk/bus/tip"
	"souk/ledger"
)

// A snapshot's file, SEQUENCE.snapshot:
//
//	magic     16 bytes, with the version
//	sequence  8 bytes, of the frame that it follows
//	epoch     8 bytes, of that frame
//	chain     4 bytes: the log's checksum of everything up to that frame
//	state     as the replica wrote it
//	sum       8 bytes: xxHash of all before
//
// Integers are little-endian. It is written beside its place, synced, and renamed, so that it is there whole
// or not at all.
const (
	snapshotMagic  = "souk snapshot 1\n"
	snapshotHead   = len(snapshotMagic) + 8 + 8 + 4
	snapshotSuffix = ".snapshot"
	// maxSnapshot bounds a file that is read into memory: ten times what a hub with a million clients leaves.
	maxSnapshot = 1 << 30
	// keepSnapshots are kept: the last may follow frames that were lost by a disk which lied about its syncs.
	keepSnapshots = 2
)

// Follow makes snapshots in the background of a journal that is written: it looks every lookEvery whether one
// is due, never makes two within snapshotLeast, works for workFor and rests for restFor, so that it takes a
// fifth of a core at most, and syncs what it writes in pieces, so that the journal's own sync never waits for
// more.
const (
	lookEvery     = 5 * time.Second
	snapshotLeast = time.Minute
	workFor       = 500 * time.Microsecond
	restFor       = 2 * time.Millisecond
	pieceBytes    = 256 << 10
)

// snapshot is the state behind a frame.
type snapshot struct {
	path  string
	seq   uint64
	epoch int64
	chain uint32
	state []byte
}

func snapshotDir(dir string) string { return filepath.Join(dir, "snapshots") }

// snapshotFiles lists a journal's snapshots, the newest first.
func snapshotFiles(dir string) (paths []string) {
	entries, _ := os.ReadDir(snapshotDir(dir)) // without it there are none
	for _, e := range slices.Backward(entries) {
		name, ok := strings.CutSuffix(e.Name(), snapshotSuffix)
		if ok && len(name) == 16 {
			paths = append(paths, filepath.Join(snapshotDir(dir), e.Name()))
		}
	}
	return paths
}

// readSnapshot reads a snapshot, its state only where that is wanted.
func readSnapshot(path string, state bool) (*snapshot, error) {
	f, err := regular.Open(path, maxSnapshot)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	s, err := parseSnapshot(f, info.Size(), state)
	if err != nil {
		return nil, err
	}
	s.path = path
	return s, nil
}

// parseSnapshot checks the sum first, a piece at a time: nothing takes memory because it is long.
func parseSnapshot(f io.ReaderAt, size int64, state bool) (*snapshot, error) {
	head, said, length := make([]byte, snapshotHead), make([]byte, 8), size-int64(snapshotHead+8)
	_, err := f.ReadAt(head, 0)
	if length < 0 || err != nil || !bytes.HasPrefix(head, []byte(snapshotMagic)) {
		return nil, fmt.Errorf("it does not begin with %q: it is of another version, or cut short",
			snapshotMagic)
	}
	sum := xxhash.New()
	_, err = io.Copy(sum, io.NewSectionReader(f, 0, size-8))
	if err == nil {
		_, err = f.ReadAt(said, size-8)
	}
	if err != nil {
		return nil, err
	}
	if sum.Sum64() != binary.LittleEndian.Uint64(said) {
		return nil, errors.New("its checksum is wrong")
	}
	n := head[len(snapshotMagic):]
	s := &snapshot{seq: binary.LittleEndian.Uint64(n), epoch: int64(binary.LittleEndian.Uint64(n[8:])),
		chain: binary.LittleEndian.Uint32(n[16:])}
	if state {
		s.state = make([]byte, length)
		_, err = f.ReadAt(s.state, int64(snapshotHead))
	}
	return s, err
}

// head is a snapshot's bytes before its state.
func (s *snapshot) head() []byte {
	b := binary.LittleEndian.AppendUint64([]byte(snapshotMagic), s.seq)
	b = binary.LittleEndian.AppendUint64(b, uint64(s.epoch))
	return binary.LittleEndian.AppendUint32(b, s.chain)
}

// ignored says once that a snapshot is not used. A start without it is only slower.
func (j *Journal) ignored(path string, err error) {
	j.cfg.Log.Warn("a snapshot does not fit and is ignored: what it would have spared is read from the "+
		"journal", "path", path, "err", err)
}

// check reads and checks what is stored from the segment of the newest snapshot that fits on; without one,
// everything.
func (j *Journal) check() (r *Reader, last Entry, err error) {
	was := frameOf(j.said)
	for _, path := range append(snapshotFiles(j.dir), "") {
		s := &snapshot{}
		if path != "" {
			if s, err = readSnapshot(path, true); err != nil {
				j.ignored(path, err)
				continue
			}
		}
		if r, err = ReaderAt(j.dir, s.seq); err != nil {
			return nil, last, err
		}
		fits := path == ""
		for {
			e, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				return nil, last, err
			}
			fits = fits || s.follows(e, r)
			if e.Seq == was || j.said == "" { // frames that nothing is said of are of who knows where
				j.was = word(e.Seq, tip.SumOf(e.Data))
			}
			e.Data = append(last.Data[:0], e.Data...)
			last = e
		}
		if !fits {
			j.ignored(path, fmt.Errorf("it follows a frame %d that this journal, with %d frames, does "+
				"not have", s.seq, r.Frames))
			continue
		}
		if path != "" {
			j.snap, j.from = s, s.seq
		}
		break
	}
	return r, last, nil
}

// follows reports whether the snapshot follows the entry that the reader has just read.
func (s *snapshot) follows(e Entry, r *Reader) bool {
	return e.Seq == s.seq && e.Epoch == s.epoch && r.Sum == s.chain
}

// Restore implements [ledger.Journal]. It ends before the first Append.
func (j *Journal) Restore(r ledger.Replica) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.appended {
		return errors.New("journal: restore after an append")
	}
	s := j.snap
	j.snap = nil
	begin := time.Now()
	now, frames, err := j.feed(r, s, math.MaxUint64, j.progress())
	if _, ok := errors.AsType[*misfit](err); ok {
		j.ignored(s.path, err)
		j.from = 0
		now, frames, err = j.feed(r, nil, math.MaxUint64, j.progress())
	}
	if err == nil && frames >= j.cfg.SnapshotEvery {
		now.state, err = r.Snapshot()
		j.due = now
	}
	if err != nil {
		return fmt.Errorf("journal %s: %w", j.dir, err)
	}
	if frames > 0 || j.from > 0 {
		j.cfg.Log.Info("journal read", "journal", j.dir, "snapshot", j.from, "frames", frames, "took",
			time.Since(begin).Round(time.Millisecond))
	}
	return nil
}

// sayEvery is how often a long replay logs its progress.
const sayEvery = 5 * time.Second

// progress returns a function that logs it, to be called for every frame.
func (j *Journal) progress() func() error {
	begin, frames := time.Now(), 0
	said := begin
	return func() error {
		if frames++; frames%4096 == 0 && time.Since(said) >= sayEvery {
			said = time.Now()
			j.cfg.Log.Info("reading the journal", "journal", j.dir, "frames", frames, "took",
				said.Sub(begin).Round(time.Second))
		}
		return nil
	}
}

// misfit says that a snapshot and the frames behind it do not go together.
type misfit struct{ err error }

func (m *misfit) Error() string { return m.err.Error() }
func (m *misfit) Unwrap() error { return m.err }

// feed makes a replica of a snapshot, nil for none, and the frames behind it up to until. pace is called
// behind every frame; its error ends it. It returns the place of the last frame.
func (j *Journal) feed(r ledger.Replica, s *snapshot, until uint64, pace func() error) (now *snapshot,
	frames uint64, err error) {
	var state []byte
	from := uint64(0)
	if s != nil {
		state, from = s.state, s.seq
	}
	if err := r.Load(state); err != nil {
		return nil, 0, &misfit{err}
	}
	in, err := ReaderAt(j.dir, from)
	if err != nil {
		return nil, 0, err
	}
	now = &snapshot{}
	for now.seq < until {
		e, err := in.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, 0, err
		}
		now.seq, now.epoch, now.chain = e.Seq, e.Epoch, in.Sum
		if e.Seq <= from {
			if e.Seq == from && !s.follows(e, in) {
				return nil, 0, &misfit{fmt.Errorf("it follows another frame %d", from)}
			}
			continue
		}
		frames++
		if err := r.Apply(e.Seq, e.Epoch, e.Data); errors.Is(err, ledger.ErrEncoding) {
			return nil, 0, e.undecodable(err)
		} else if err != nil && s != nil {
			return nil, 0, &misfit{err}
		} else if err != nil {
			return nil, 0, err
		}
		if pace != nil {
			if err := pace(); err != nil {
				return nil, 0, err
			}
		}
	}
	if now.seq < from {
		return nil, 0, &misfit{fmt.Errorf("it follows frame %d, and the journal has %d", from, now.seq)}
	}
	return now, frames, nil
}
