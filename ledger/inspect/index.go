package inspect

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"souk/bus/regular"
	"souk/bus/tip"
	"souk/ledger"
	"souk/ledger/journal"
)

// What sums need of a segment that is full lies beside the log, as a [ledger.Brief], once somebody has read
// the segment for it: the file index/SEGMENT of the journal's directory. It is
//
//	version      1 byte
//	before       4 bytes, little-endian: the checksum with which the segment begins
//	through      4 bytes: the one with which the next segment does
//	brief
//	checksum     16 bytes, of all before it
//
// A file that is cut, damaged, or of another journal is none, and is made anew. One that says something else,
// and has all that, [Check] finds.
const indexVersion = 1

// indexFile is the place of a segment's file.
func indexFile(x *journal.Segment) string {
	return filepath.Join(filepath.Dir(filepath.Dir(x.Path)), "index",
		strings.TrimSuffix(filepath.Base(x.Path), ".wal"))
}

func indexHead(x *journal.Segment) []byte {
	return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32([]byte{indexVersion}, x.Before),
		x.Through)
}

// readIndex returns what a segment's file has; nil where there is none that is good, as of the last segment.
func readIndex(x *journal.Segment) []byte {
	if x.Next == 0 {
		return nil
	}
	data, err := regular.Read(indexFile(x), x.Bytes) // a longer one would save nothing
	head, sum := indexHead(x), len(data)-len(tip.Sum{})
	if err != nil || sum < len(head) || !bytes.HasPrefix(data, head) {
		return nil
	}
	if is := tip.SumOf(data[:sum]); !bytes.Equal(is[:], data[sum:]) {
		return nil
	}
	return data[len(head):sum]
}

// writeIndex makes a segment's file, where the journal is one's own: root leaves nothing in it that its owner
// cannot read. A file that cannot be written only saves nothing.
func writeIndex(x *journal.Segment, brief []byte) {
	path := indexFile(x)
	info, err := os.Stat(filepath.Dir(filepath.Dir(path)))
	if err != nil {
		return
	}
	if s, ok := info.Sys().(*syscall.Stat_t); !ok || int(s.Uid) != os.Geteuid() {
		return
	}
	data := append(indexHead(x), brief...)
	sum := tip.SumOf(data)
	if os.Mkdir(filepath.Dir(path), 0o700); int64(len(data)+len(sum)) <= x.Bytes {
		_ = regular.Write(path, append(data, sum[:]...))
	}
}

// run is a reading of one segment after the other.
type run struct {
	reading *ledger.Reading
	reader  *journal.Reader
}

// segment reads the next segment, calls f with its facts, and returns their brief; nil where there is none.
func (s *Source) segment(ctx context.Context, x *journal.Segment, r *run,
	f func(*ledger.Fact) error) ([]byte, error) {
	if r.reader == nil {
		var err error
		if r.reader, err = journal.ReaderAt(s.Dir, x.First); err != nil {
			return nil, err
		}
		r.reading = s.reading(ctx, x.First)
	}
	var brief ledger.Brief
	err := s.each(ctx, r.reader, x.Next, func(e journal.Entry) error {
		return r.reading.Frame(e.Data, func(fact *ledger.Fact) error {
			if x.Next > 0 {
				brief.Add(fact)
			}
			return f(fact)
		})
	})
	if err != nil || x.Next == 0 || r.reader.Sum != x.Through {
		return nil, err
	}
	return brief.Bytes(), nil
}

// Briefly is [Source.Facts] for who sums up, from the first frame of a time on, or a little before that:
// facts have what [ledger.ReadBrief] says. It reads the segments of the time, and before them those that have
// holds which end there. Of a segment that was read so before its file alone is read.
func (s *Source) Briefly(ctx context.Context, from, to int64, f func(*ledger.Fact) error) error {
	first, err := journal.Since(s.Dir, from)
	if err != nil {
		return err
	}
	segments, err := journal.Segments(s.Dir, first)
	f = before(to, f)
	for i, r := 0, new(run); err == nil && i < len(segments); i++ {
		x := &segments[i]
		if brief := readIndex(x); brief != nil {
			if s.Progress != nil {
				s.Progress(int(x.Bytes))
			}
			*r = run{}
			if err = ledger.ReadBrief(brief, f); err == nil {
				err = ctx.Err()
			} else if errors.Is(err, ledger.ErrEncoding) {
				err = fmt.Errorf("%s: %w: delete it: it is made anew", indexFile(x), err)
			}
			continue
		}
		var brief []byte
		if brief, err = s.segment(ctx, x, r, f); brief != nil {
			writeIndex(x, brief)
		}
	}
	return s.walked(err)
}

// falsified lists segments whose files say something else than they do.
func (s *Source) falsified(ctx context.Context) (wrong []journal.Segment, err error) {
	segments, err := journal.Segments(s.Dir, 0)
	for i, r := 0, new(run); err == nil && i < len(segments); i++ {
		x := &segments[i]
		has := readIndex(x)
		if has == nil {
			*r = run{}
			continue
		}
		is, failed := s.segment(ctx, x, r, func(*ledger.Fact) error { return nil })
		if err = failed; err == nil && !bytes.Equal(is, has) {
			wrong = append(wrong, *x)
		}
	}
	return wrong, err
}
