package journal

import (
	"os"
	"path/filepath"
	"sort"

	"souk/ledger"
)

// Each segment begins with the checksum of everything before it, and neither times nor the numbers of rounds
// ever fall. So whoever wants a part of a log finds the segment in which that begins by the first frames of a
// few, and what somebody made of a segment belongs to it, and to no other journal, by two checksums.

// Segment names one file of a log.
type Segment struct {
	Path        string
	Bytes       int64
	First, Next uint64 // its first frame, and that of the segment behind it; 0: it is the last
	Before      uint32 // the checksum of all before it
	Through     uint32 // and of all to its end; of the last 0
}

// Segments lists those from a frame on, and of these the one in which it is.
func Segments(dir string, from uint64) (all []Segment, err error) {
	segs, err := segments(walDir(dir))
	for k := range segs {
		if k+1 < len(segs) && segs[k+1].first <= from {
			continue
		}
		r := &Reader{wal: walDir(dir), segs: segs, cur: k}
		const head = 64
		if err := r.begin(head); err != nil {
			return nil, err
		}
		info, err := os.Stat(segs[k].path)
		if err != nil {
			return nil, err
		}
		if n := len(all); n > 0 {
			all[n-1].Next, all[n-1].Through = segs[k].first, r.Sum
		}
		all = append(all, Segment{Path: segs[k].path, Bytes: info.Size(), First: max(1, segs[k].first),
			Before: r.Sum})
	}
	return all, err
}

// Since returns the first frame of the last segment that begins before a moment, in Unix nanoseconds: no
// frame of that moment or later is before it. It is 1 where that is the first segment.
func Since(dir string, at int64) (first uint64, err error) {
	segs, err := segments(walDir(dir))
	if err != nil {
		return 0, err
	}
	k := lastThat(segs, func(e Entry) (is, said bool) {
		written, _ := ledger.Written(e.Data)
		return written < at, true
	})
	return max(1, segs[k].first), nil
}

// Around returns the first frame of the segment that has a round, and that of the next one, or else 0.
func Around(dir string, round uint64) (first, next uint64, err error) {
	segs, err := segments(walDir(dir))
	if err != nil {
		return 0, 0, err
	}
	k := segmentOf(segs, round)
	if k+1 < len(segs) {
		next = segs[k+1].first
	}
	return max(1, segs[k].first), next, nil
}

// segmentOf finds the last segment that is known to begin with no later round; 0 is the first.
func segmentOf(segs []segment, round uint64) int {
	return lastThat(segs, func(e Entry) (is, said bool) {
		f, _ := e.Frame()
		for i := range f.Records {
			if x := f.Records[i].Round; x != nil {
				return x.Round.Number <= round, true
			}
		}
		return false, false
	})
}

// lastThat finds the last segment of which its first frames say that it is, where none is behind one that is
// not; one that says nothing is not. 0, the first segment, is not asked.
func lastThat(segs []segment, is func(Entry) (is, said bool)) int {
	return sort.Search(len(segs)-1, func(k int) bool {
		const near = 64 << 10
		yes, said := begins(segs, k+1, near, is)
		if !said { // its first frame alone may be longer
			yes, _ = begins(segs, k+1, maxSegment, is)
		}
		return !yes
	})
}

// begins asks the frames in the first bytes of a segment, until one says it.
func begins(segs []segment, k int, most int64, is func(Entry) (is, said bool)) (yes, said bool) {
	r := &Reader{wal: filepath.Dir(segs[k].path), segs: segs, cur: k}
	for err := r.begin(most); err == nil && !said; {
		rec, gap := readRecord(r.rest(), r.off, r.Sum)
		if gap != nil {
			break
		}
		var e Entry
		var frame bool
		if e, frame, err = r.take(rec); frame {
			yes, said = is(e)
		}
	}
	return yes, said
}
