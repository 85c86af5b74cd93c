package journal

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// spares are the names of segments that are allocated before they are needed.
var spares = []string{"0.tmp", "1.tmp"}

// Tail judges what lies beside and behind the frames, once Next has said io.EOF: what a start would trim, or
// never look at. Errors wrap ErrDamaged. A note, if there is one, says what cannot be decided: a write that a
// crash tore, which the next start trims, looks like a write that was lost.
//
// Behind the last frame a segment is zero, to the end that it was allocated to. After a crash some
// sectors of the last write may be there, each of them whole.
func (r *Reader) Tail() (note string, err error) {
	if err := r.strays(); err != nil {
		return "", err
	}
	for _, w := range r.witnesses {
		if w.err != nil {
			return "", w.err
		}
		if w.seq > r.Frames {
			return "", &Damage{Segment: w.path, After: r.Frames,
				Found: fmt.Sprintf("a snapshot of the journal up to frame %d, and the journal ends with "+
					"frame %d",
					w.seq, r.Frames)}
		}
	}
	for try := 0; ; try++ { // a writer at work may be in the middle of a record
		segs, err := segments(r.wal)
		if err != nil {
			return "", err
		}
		if err := r.load(maxSegment); err != nil {
			return "", err
		}
		rest := r.rest()
		_, gap := readRecord(rest, r.off, r.Sum)
		if gap == nil || len(segs) > r.cur+1 {
			return "", nil // there are more frames by now
		}
		note, err := r.behind(rest)
		if err == nil {
			err = r.whole(r.off + int64(len(rest)))
		}
		if note == "" && err == nil || try == 5 {
			return note, err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// behind judges what is behind the last record.
func (r *Reader) behind(rest []byte) (note string, err error) {
	path := r.segs[r.cur].path
	at := -1
	if !allZero(rest) { // as the rest of a segment nearly always is
		at = slices.IndexFunc(rest, func(b byte) bool { return b != 0 })
	}
	damage := func(offset int64, format string, args ...any) error {
		return &Damage{Segment: path, Offset: offset, After: r.Frames, Found: fmt.Sprintf(format, args...)}
	}
	if at >= 0 {
		where := r.off + int64(at)
		n := 0
		for _, b := range rest {
			if b != 0 {
				n++
			}
		}
		size := int64(len(rest))
		switch {
		case n == 1 && !r.alone(where, rest[at]):
			return "", damage(where, "a byte that is not zero, where nothing was written yet")
		case at >= 8 && where/sector == r.off/sector:
			return "", damage(where,
				"bytes that are not zero behind a record that is not there, in one sector with it")
		case lacksEnd(rest, r.off, r.Sum):
			return "", damage(r.off, "a frame whose end mark is wrong")
		}
		return fmt.Sprintf("level 0: %s: behind frame %d, from byte %d on, are %d bytes of no whole frame: "+
			"a write that a crash tore, which the next start trims, or the last write is damaged",
			path, r.Frames, r.off, size), nil
	}
	if len(rest) == 0 && r.off >= segmentBytes {
		return fmt.Sprintf("level 0: %s is full, and the next segment is not here: it is missing, or was "+
			"never begun",
			path), nil
	}
	return "", nil
}

// whole judges the size of the last segment.
func (r *Reader) whole(size int64) error {
	path := r.segs[r.cur].path
	if size >= segmentBytes {
		return nil
	}
	return &Damage{Segment: path, Offset: size, After: r.Frames,
		Found: fmt.Sprintf("the end of the file, where %d bytes were allocated: what was behind is not here",
			segmentBytes)}
}

// endless reports whether only a frame's end mark is missing from the end of a record.
func endless(body []byte, crc uint32) bool {
	whole := append(slices.Clone(body[:len(body)-1]), endMark)
	r, ok := parseRecord(whole, false)
	return ok && r.kind == typeEntry && r.holds(crc)
}

// alone reports whether a byte may be all that a torn write left in its sector: the end mark of a frame, if
// that begins a sector, or the length of a record whose first eight bytes end one.
func (r *Reader) alone(where int64, b byte) bool {
	return where%sector == 0 && b == endMark || where < r.off+8 && r.off%sector == sector-8
}

// lacksEnd reports whether the record at the beginning of b, at off in the file, lacks its end mark alone,
// and the mark was not alone in its sector. If it was, a torn write may have lost it.
func lacksEnd(b []byte, off int64, crc uint32) bool {
	if len(b) < 8 {
		return false
	}
	n := int64(b[0]) | int64(b[1])<<8 | int64(b[2])<<16 | int64(b[3])<<24
	return n > 1 && n <= int64(len(b)-8) && (off+7+n)%sector != 0 && b[7+n] == 0 && endless(b[8:8+n], crc)
}

// strays are files among the segments that no log of ours has: a segment under another name, for one.
func (r *Reader) strays() error {
	entries, err := os.ReadDir(r.wal)
	if err != nil {
		return err
	}
	segs, err := segments(r.wal)
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for _, name := range spares {
		known[name] = true
	}
	for _, s := range segs {
		known[filepath.Base(s.path)] = true
	}
	for _, e := range entries {
		if known[e.Name()] {
			continue
		}
		// else it was a spare, or became a segment
		if _, err := os.Lstat(filepath.Join(r.wal, e.Name())); err == nil {
			return &Damage{Segment: filepath.Join(r.wal, e.Name()), After: r.Frames,
				Found: "a file that is no part of a journal: " +
					"a segment under another name, or one that does not belong here"}
		}
	}
	return nil
}

// witness is a snapshot's record of the log, to compare it with.
type witness struct {
	snapshot
	err error
}

// Witness lets the reader compare the journal's snapshots with what it reads. A snapshot proves nothing of
// the journal, but it says that there were frames up to its own.
func (r *Reader) Witness() {
	dir := filepath.Dir(r.wal)
	for _, path := range slices.Backward(snapshotFiles(dir)) { // the oldest first
		s, err := readSnapshot(path, false)
		w := witness{err: err}
		if err == nil {
			w.snapshot = *s
		} else if _, gone := os.Lstat(path); gone != nil {
			continue // a newer one took its place
		} else {
			w.err = misplaced(path, err)
		}
		r.witnesses = append(r.witnesses, w)
	}
}

func misplaced(path string, err error) error {
	return fmt.Errorf("%w snapshot %s: %w: delete it: a start reads the journal without it", ErrDamaged, path,
		err)
}

// witnessed compares the frame that was just read.
func (r *Reader) witnessed(e Entry) {
	for i := range r.witnesses {
		if w := &r.witnesses[i]; w.err == nil && w.seq == e.Seq && !w.follows(e, r) {
			w.err = misplaced(w.path, fmt.Errorf("it follows another frame %d", w.seq))
		}
	}
}
