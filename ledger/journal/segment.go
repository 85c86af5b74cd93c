package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"souk/bus/regular"
	"souk/ledger"
)

// ErrDamaged marks a journal whose bytes are not what was written. Errors that wrap it name the place.
var ErrDamaged = errors.New("damaged")

// Damage is the place at which a journal stops making sense.
type Damage struct {
	Segment string // file
	Offset  int64  // byte in it
	After   uint64 // the last frame that is sound
	Found   string
}

func (d *Damage) Error() string {
	return fmt.Sprintf("%s at byte %d, behind frame %d: %s: restore this journal from a copy", d.Segment,
		d.Offset, d.After, d.Found)
}

func (d *Damage) Unwrap() error { return ErrDamaged }

// Entry is a stored frame. Data is the frame's bytes and belongs to the reader: copy what is kept.
type Entry struct {
	Seq      uint64
	Epoch    int64
	Data     []byte
	Position int // frames of the same sync before it
	Segment  string
	Offset   int64
}

// segment is one file of the log.
type segment struct {
	path  string
	seq   uint64 // of the file
	first uint64 // index of its first entry; 0 in the first file
}

// segments lists a log's files in order.
func segments(walDir string) ([]segment, error) {
	entries, err := os.ReadDir(walDir)
	if err != nil {
		if there, lost := os.Lstat(walDir); lost == nil && !there.IsDir() {
			return nil, &Damage{Segment: walDir, Found: fmt.Sprintf("a %s, where the directory of the journal's "+
				"segments should be", regular.Kind(there.Mode()))}
		}
	}
	if errors.Is(err, fs.ErrNotExist) && hasLived(filepath.Dir(walDir)) {
		return nil, lost(walDir)
	}
	if err != nil {
		return nil, err
	}
	var all []segment
	for _, e := range entries {
		s := segment{path: filepath.Join(walDir, e.Name())}
		name, ok := strings.CutSuffix(e.Name(), ".wal")
		if !ok {
			continue
		}
		if n, err := fmt.Sscanf(name, "%016x-%016x", &s.seq, &s.first); n != 2 || err != nil ||
			name != fmt.Sprintf("%016x-%016x", s.seq, s.first) {
			continue // see Reader.Tail
		}
		// where a link leads is seen by load
		if mode := e.Type(); !mode.IsRegular() && mode&fs.ModeSymlink == 0 {
			return nil, &Damage{Segment: s.path,
				Found: fmt.Sprintf("a %s, where a segment should be", regular.Kind(mode))}
		}
		all = append(all, s)
	}
	if len(all) == 0 && hasLived(filepath.Dir(walDir)) {
		return nil, lost(walDir)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: no journal here: %w", walDir, fs.ErrNotExist)
	}
	slices.SortFunc(all, func(a, b segment) int { return strings.Compare(a.path, b.path) })
	for i, s := range all {
		if s.seq != uint64(i) {
			return nil, &Damage{Segment: s.path, Found: fmt.Sprintf("segment %d is missing before it", i)}
		}
	}
	if all[0].first != 0 {
		return nil, &Damage{Segment: all[0].path, Found: "the first segment under the name of a later one"}
	}
	return all, nil
}

// lost is the damage of a journal that was written once and has no segment left. To begin it anew would take
// every allotment in again, whatever was spent of it.
func lost(walDir string) error {
	return &Damage{Segment: walDir,
		Found: "all segments are missing, and the journal has been written before"}
}

// Types of the log's records; see etcd's storage/wal.
const (
	typeMetadata = 1
	typeEntry    = 2
	typeCRC      = 4
	typeSnapshot = 5
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// record is one record of the log: an 8-byte header with its length and padding, then a protobuf message
// of type, crc and data.
type record struct {
	kind uint64
	crc  uint32
	data []byte
	size int64 // of all of it, header and padding included
}

// fault says why no record could be read. A short one may be a write that was cut off.
type fault struct {
	why string
	// torn: the bytes look like a write that never finished.
	torn bool
}

// readRecord reads the record at the start of b, which reaches to the end of the file. at is its offset
// there. crc is the chain's value before it.
func readRecord(b []byte, at int64, crc uint32) (record, *fault) {
	if len(b) < 8 {
		return record{}, &fault{"the end of the file in a record's header", true}
	}
	header := binary.LittleEndian.Uint64(b)
	n, flags := header&(1<<56-1), header>>56
	pad := -n & 7
	wrong := pad != 0 && flags != 0x80|pad || pad == 0 && flags != 0
	if header != 0 && !wrong && n <= uint64(len(b)-8) {
		r, ok := parseRecord(b[8:8+n], false)
		if ok && r.holds(crc) {
			if n+pad > uint64(len(b)-8) {
				return record{}, &fault{"a record that goes beyond the end of the file", true}
			}
			if binary.LittleEndian.Uint64(b[n+pad:])>>(64-8*pad) != 0 {
				return record{},
					&fault{"bytes that are not zero behind a record, where nothing is written", false}
			}
			r.size = int64(8 + n + pad)
			return r, nil
		}
	}
	// Either a byte of the header is wrong: then the message is sound without it. Or the write was cut off.
	if r, ok := parseRecord(b[8:], true); ok && r.holds(crc) && (len(r.data) > 0 || header != 0) {
		return record{}, &fault{"a record with a wrong length before it", false}
	}
	switch {
	case header == 0:
		return record{}, &fault{"zeros", true}
	case wrong:
		return record{}, &fault{"bytes that are no record", allZero(b[8:])}
	case n+pad > uint64(len(b)-8):
		return record{}, &fault{"a record that goes beyond the end of the file", true}
	}
	body := b[8 : 8+n]
	f := &fault{why: "a record whose checksum is wrong"}
	if _, ok := parseRecord(body, false); !ok {
		f.why = "bytes that are no record"
	}
	f.torn = len(body) > 0 && body[len(body)-1] == 0 || hasZeroSector(body, at+8)
	return record{}, f
}

// holds reports whether the record's checksum follows on crc.
func (r record) holds(crc uint32) bool {
	if r.kind == typeCRC {
		return r.crc == crc // a segment begins with the chain's value so far
	}
	return r.crc == crc32.Update(crc, castagnoli, r.data)
}

// parseRecord takes a message apart. With open, b may go on behind the message's end.
func parseRecord(b []byte, open bool) (record, bool) {
	var r record
	seen := 0
	for len(b) > 0 && seen < 3 {
		tag := b[0]
		v, n := binary.Uvarint(b[1:])
		if n <= 0 {
			return r, false
		}
		b = b[1+n:]
		switch {
		case tag == 0x08 && seen == 0:
			r.kind, seen = v, 1
		case tag == 0x10 && seen == 1 && v <= 1<<32-1:
			r.crc, seen = uint32(v), 2
		case tag == 0x1a && seen == 2:
			if v > uint64(len(b)) {
				return r, false
			}
			r.data, b, seen = b[:v], b[v:], 3
		default:
			// A record without data (the CRC at a segment's head) ends before the next record's header.
			return r, open && seen == 2
		}
	}
	return r, seen >= 2 && (open || len(b) == 0)
}

// parseEntry takes an entry's message apart and unwraps the frame in it.
func parseEntry(b []byte) (Entry, bool) {
	var e Entry
	var data []byte
	for len(b) > 0 {
		tag := b[0]
		v, n := binary.Uvarint(b[1:])
		if n <= 0 {
			return e, false
		}
		b = b[1+n:]
		switch tag {
		case 0x08: // type: normal
			if v != 0 {
				return e, false
			}
		case 0x10:
			e.Epoch = int64(v)
		case 0x18:
			e.Seq = v
		case 0x22:
			if v > uint64(len(b)) {
				return e, false
			}
			data, b = b[:v], b[v:]
		default:
			return e, false
		}
	}
	pos, n := binary.Uvarint(data)
	if n <= 0 || pos > maxBatch || len(data) < n+2 || data[len(data)-1] != endMark {
		return e, false
	}
	e.Position = int(pos)
	e.Data = data[n : len(data)-1]
	return e, true
}

const sector = 512 // bytes a disk writes whole

// hasZeroSector reports whether the part of b in any one sector is all zero: it never reached the disk.
func hasZeroSector(b []byte, at int64) bool {
	for len(b) > 0 {
		n := min(int(sector-at%sector), len(b))
		if allZero(b[:n]) {
			return true
		}
		b, at = b[n:], at+int64(n)
	}
	return false
}

// allZero counts: bytes.Equal has the race detector look at every byte, twice.
func allZero(b []byte) bool {
	for len(b) > 0 {
		n := min(len(b), sector)
		if bytes.Count(b[:n], []byte{0}) != n {
			return false
		}
		b = b[n:]
	}
	return true
}

// judgeTail decides what the bytes behind frame last are: nil if they are allocated space or a torn write
// that nobody was told of, else the damage. b starts at offset at of the last segment and reaches to its end.
func judgeTail(b []byte, at int64, last uint64, gap *fault) *Damage {
	if !gap.torn {
		return &Damage{Offset: at, After: last, Found: gap.why}
	}
	if allZero(b) {
		return nil
	}
	// Records start at multiples of 8. A frame found behind the gap says where its Append began: if that
	// is behind the gap too, then what is missing had been synced before. What looks like frames may overlap
	// by chance, a little; where all of it does, somebody has it looked at for days.
	looked := 0
	for i := 8; i+8 <= len(b); i += 8 {
		if b[i+8-1]&0x78 != 0 || binary.LittleEndian.Uint64(b[i:]) == 0 || len(b) < i+10 || b[i+8] != 0x08 ||
			b[i+9] != typeEntry {
			continue
		}
		r, ok := parseRecord(b[i+8:], true)
		if !ok {
			continue
		}
		e, ok := parseEntry(r.data)
		if !ok || e.Seq <= last+1 || e.Seq-uint64(e.Position) <= last+1 {
			continue
		}
		if looked += len(e.Data); looked > 4*len(b) {
			return &Damage{Offset: at, After: last,
				Found: gap.why + ", and behind it frames within one another, as no write leaves them"}
		}
		if f, err := ledger.DecodeFrame(e.Data); err == nil && f.Seq == e.Seq {
			return &Damage{Offset: at, After: last,
				Found: fmt.Sprintf("%s, but frame %d at byte %d behind it is sound", gap.why, e.Seq,
					at+int64(i))}
		}
	}
	return nil
}
