package journal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"souk/bus/regular"
	"souk/ledger"
)

// Reader reads a journal from its first frame, also while it is being written.
type Reader struct {
	wal  string
	segs []segment
	cur  int

	buf []byte // a piece of the current segment, as last read
	at  int64  // where it begins
	// it goes to the segment's end, read once another followed: nothing more is written to that
	complete bool
	off      int64  // of the next record in the segment
	head     int    // records of the segment's head that were read
	Sum      uint32 // of everything before
	Frames   uint64 // frame read last
	epoch    int64

	witnesses []witness
}

// NewReader opens the journal in dir for reading. It takes no lock and changes nothing.
func NewReader(dir string) (*Reader, error) { return ReaderAt(dir, 0) }

// ReaderAt is a reader that begins with the segment of a frame, 0 for the first. Of those before it nothing
// is read: the checksum of what they hold is taken from the segment's head.
func ReaderAt(dir string, seq uint64) (*Reader, error) {
	r := &Reader{wal: walDir(dir)}
	var err error
	if r.segs, err = segments(r.wal); err != nil {
		return nil, err
	}
	for r.cur+1 < len(r.segs) && r.segs[r.cur+1].first <= seq {
		r.cur++
	}
	return r, r.begin(piece)
}

// begin begins with the current segment, of which it reads at most so many bytes.
func (r *Reader) begin(most int64) error {
	if err := r.load(most); err != nil {
		return err
	}
	if r.cur > 0 {
		r.Frames = r.segs[r.cur].first - 1
		if head, ok := parseRecord(r.buf[min(8, len(r.buf)):], true); ok && head.kind == typeCRC {
			r.Sum = head.crc
		}
	}
	return nil
}

// piece bounds the bytes of a segment that are read at once, so that they stay in the processor's cache.
const piece = 256 << 10

// rest returns the bytes behind the last record, as far as they were read.
func (r *Reader) rest() []byte { return r.buf[r.off-r.at:] }

// load reads the current segment from behind the last record on, at most so many bytes.
func (r *Reader) load(most int64) error {
	r.buf, r.at, r.complete = r.buf[:0], r.off, false
	f, err := regular.Open(r.segs[r.cur].path, maxSegment)
	switch {
	case errors.Is(err, regular.ErrNot), errors.Is(err, regular.ErrLong):
		return r.damage(err.Error())
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ELOOP): // it was there a moment ago
		return r.damage("a link that leads nowhere, where a segment should be")
	case err != nil:
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	left := max(0, info.Size()-r.off)
	r.buf = slices.Grow(r.buf, int(min(left, most)))[:min(left, most)]
	n, err := f.ReadAt(r.buf, r.off)
	r.buf = r.buf[:n]
	r.complete = err == nil && left <= most && len(r.segs) > r.cur+1
	if errors.Is(err, io.EOF) { // cut at this moment
		err = nil
	}
	return err
}

// Next returns the next frame, or io.EOF at the end of what is written by now; ask again to get what is
// written later. Errors wrap ErrDamaged. The Entry's Data is good until the next call.
func (r *Reader) Next() (Entry, error) {
	// Where the buffer ends, or is older than the file, a piece more is read, and if that is not enough all
	// that there is.
	sizes := [...]int64{piece, maxSegment}
	for more := sizes[:]; ; {
		rec, gap := readRecord(r.rest(), r.off, r.Sum)
		if gap == nil {
			e, ok, err := r.take(rec)
			if err != nil || ok {
				return e, err
			}
			continue
		}
		if len(more) > 0 && !r.complete {
			if err := r.load(more[0]); err != nil {
				return Entry{}, err
			}
			more = more[1:]
			continue
		}
		on, err := r.end(gap)
		if err != nil {
			return Entry{}, err
		}
		if !on {
			return Entry{}, io.EOF
		}
		more = sizes[:]
	}
}

// heads are the types of the records that begin the current segment. They are safe before the segment has its
// name: whatever tears, it is not one of them.
func (r *Reader) heads() []uint64 {
	if r.cur == 0 {
		return heads[:]
	}
	return heads[:2]
}

var heads = [...]uint64{typeCRC, typeMetadata, typeSnapshot}

// judge decides what the bytes behind the last record of the last segment are.
func (r *Reader) judge(rest []byte, gap *fault) *Damage {
	if r.head < len(r.heads()) {
		return &Damage{Offset: r.off, After: r.Frames, Found: gap.why}
	}
	return judgeTail(rest, r.off, r.Frames, gap)
}

// take uses up a record; ok if it was a frame.
func (r *Reader) take(rec record) (e Entry, ok bool, err error) {
	at := r.off
	if head := r.heads(); r.head < len(head) {
		if rec.kind != head[r.head] {
			return e, false, r.damage(fmt.Sprintf("a record of type %d, where one of type %d begins a "+
				"segment", rec.kind, head[r.head]))
		}
		r.head++
	} else if rec.kind != typeEntry {
		return e, false, r.damage(fmt.Sprintf("a record of type %d in the middle of a segment, where a "+
			"journal has frames alone", rec.kind))
	}
	switch rec.kind {
	case typeEntry:
		e, ok = parseEntry(rec.data)
		e.Segment, e.Offset = r.segs[r.cur].path, at
		switch {
		case !ok:
			return e, false, r.damage("an entry that holds no frame")
		case e.Seq != r.Frames+1:
			return e, false, r.damage(fmt.Sprintf("frame %d, where frame %d follows", e.Seq, r.Frames+1))
		case e.Epoch < r.epoch:
			return e, false, r.damage(fmt.Sprintf("frame %d of epoch %d after epoch %d", e.Seq, e.Epoch,
				r.epoch))
		}
		r.Frames, r.epoch = e.Seq, e.Epoch
	case typeCRC:
		if len(rec.data) > 0 {
			return e, false, r.damage("a checksum with data")
		}
	case typeMetadata:
		if strings.HasPrefix(string(rec.data), metadataOf) && string(rec.data) != metadata {
			return e, false, fmt.Errorf("%s is a %.40q, and this release of souk reads %q alone: take the one "+
				"that wrote it",
				r.segs[r.cur].path, rec.data, metadata)
		}
		if string(rec.data) != metadata {
			return e, false, r.damage(fmt.Sprintf("metadata %.40q, want %q: this is not a journal", rec.data,
				metadata))
		}
	case typeSnapshot:
		// The log begins with an empty one. The checksum does not cover types: an entry must not pass for
		// one.
		if string(rec.data) != "\x08\x00\x10\x00" {
			return e, false, r.damage("a snapshot")
		}
	}
	r.off += rec.size
	r.Sum = rec.crc
	if ok && len(r.witnesses) > 0 {
		r.witnessed(e)
	}
	return e, ok, nil
}

// end decides what the end of the current segment is. more: go on, in the next segment or here.
func (r *Reader) end(gap *fault) (more bool, err error) {
	segs := r.segs
	if len(segs) <= r.cur+1 { // of those before the last it is known that they are complete
		if segs, err = segments(r.wal); err != nil {
			return false, err
		}
	}
	if len(segs) > r.cur+1 {
		// The writer went on to another file. This one is complete now: whole records, then nothing (a crash
		// may have left it as long as it was allocated).
		if r.segs = segs; !r.complete {
			if err := r.load(maxSegment); err != nil {
				return false, err
			}
		}
		if !allZero(r.rest()) {
			if _, gap = readRecord(r.rest(), r.off, r.Sum); gap == nil {
				return true, nil
			}
			return false, r.damage(gap.why)
		}
		if next := segs[r.cur+1]; next.first != r.Frames+1 {
			return false, r.damage(fmt.Sprintf("the next segment begins with frame %d, where frame %d "+
				"follows", next.first, r.Frames+1))
		}
		r.cur++
		r.off, r.head = 0, 0
		return true, r.load(piece)
	}
	// A writer at work may be in the middle of a record: look again before calling it damage.
	for try := 0; ; try++ {
		d := r.judge(r.rest(), gap)
		if d == nil {
			return false, nil
		}
		if try == 5 {
			d.Segment = r.segs[r.cur].path
			return false, d
		}
		time.Sleep(20 * time.Millisecond)
		if err := r.load(maxSegment); err != nil {
			return false, err
		}
		if _, gap = readRecord(r.rest(), r.off, r.Sum); gap == nil {
			return true, nil
		}
	}
}

func (r *Reader) damage(found string) error {
	return &Damage{Segment: r.segs[r.cur].path, Offset: r.off, After: r.Frames, Found: found}
}

// entries yields what the journal in dir has from a frame on, to the end of what is written by now; an error
// is the last.
func entries(dir string, seq uint64) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		r, err := ReaderAt(dir, seq)
		for err == nil {
			var e Entry
			if e, err = r.Next(); err == nil && e.Seq >= seq && !yield(e, nil) {
				return
			}
		}
		if err != io.EOF {
			yield(Entry{}, err)
		}
	}
}

// Read calls f with every frame that the journal in dir holds by now.
func Read(dir string, f func(ledger.Frame) error) error {
	for e, err := range entries(dir, 0) {
		var frame ledger.Frame
		if err == nil {
			frame, err = e.Frame()
		}
		if err == nil {
			err = f(frame)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Frame decodes the entry. Bytes that pass the checksum and are no frame were written wrongly: ErrDamaged.
func (e Entry) Frame() (ledger.Frame, error) {
	f, err := ledger.DecodeFrame(e.Data)
	if err == nil && (f.Seq != e.Seq || f.Epoch != e.Epoch) {
		err = fmt.Errorf("frame %d of epoch %d under index %d and term %d", f.Seq, f.Epoch, e.Seq, e.Epoch)
	}
	if err != nil {
		return ledger.Frame{}, e.undecodable(err)
	}
	return f, nil
}

// undecodable makes the error for an entry that is no frame.
func (e Entry) undecodable(err error) error {
	if len(e.Data) > 0 && e.Data[0] != ledger.FrameVersion {
		return fmt.Errorf("%s at byte %d: frame %d: %w", e.Segment, e.Offset, e.Seq, err)
	}
	return &Damage{Segment: e.Segment, Offset: e.Offset, After: e.Seq - 1, Found: err.Error()}
}

func walDir(dir string) string { return filepath.Join(dir, "wal") }

// Find returns the directories of the journals at path, sorted by name: path may be a data directory (with
// journal/NAME in it), the directory of several journals, or that of one.
func Find(path string) ([]string, error) {
	if isJournal(path) {
		return []string{path}, nil
	}
	if filepath.Base(path) == "wal" && isJournal(filepath.Dir(path)) {
		return []string{filepath.Dir(path)}, nil
	}
	for _, root := range []string{filepath.Join(path, "journal"), path} {
		entries, err := os.ReadDir(root)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		var found []string
		for _, e := range entries { // sorted by name
			if dir := filepath.Join(root, e.Name()); isJournal(dir) {
				found = append(found, dir)
			}
		}
		if len(found) > 0 {
			return found, nil
		}
	}
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("%s: no journal here: want a data directory, its journal directory, or one of "+
		"the journals in that: %w", path, os.ErrNotExist)
}

func isJournal(dir string) bool {
	_, err := segments(walDir(dir))
	return err == nil || errors.Is(err, ErrDamaged)
}
