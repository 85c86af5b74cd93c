package replay

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
)

// Limits of a file of rows, so that a wrong one is an error and not a full memory.
const (
	MaxLine     = 8 << 20 // bytes of one line; the longest of the public sets is 200 KB
	MaxUnpacked = 1 << 30 // bytes of one file, unpacked
)

// Lines yields the lines of a file one after another, plain or packed by gzip.
type Lines struct {
	Number int // of the line read last, from 1
	from   *bufio.Scanner
	size   int  // bytes so far
	again  bool // Next returns the last line once more
}

// NewLines looks at the beginning of r, for whether it is packed.
func NewLines(r io.Reader) (*Lines, error) {
	b := bufio.NewReaderSize(r, 64<<10)
	if magic, _ := b.Peek(2); len(magic) == 2 && magic[0] == 0x1f && magic[1] == 0x8b {
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, fmt.Errorf("gzip: %w", err)
		}
		b = bufio.NewReaderSize(z, 64<<10)
	}
	if mark, _ := b.Peek(3); string(mark) == "\xef\xbb\xbf" { // editors on Windows begin files with it
		_, _ = b.Discard(3)
	}
	l := &Lines{from: bufio.NewScanner(b)}
	l.from.Buffer(nil, MaxLine)
	return l, nil
}

// Back has Next return the line read last once more.
func (l *Lines) Back() { l.again = l.Number > 0 }

// Next returns the next line without its end and the white space around it, or io.EOF. Any other error names
// the line. The bytes are the caller's until the next call.
func (l *Lines) Next() ([]byte, error) {
	if l.again {
		l.again = false
		return bytes.TrimSpace(l.from.Bytes()), nil
	}
	more, err := l.from.Scan(), l.from.Err() // beside an error what stands there may be half a line
	switch {
	case !more && err == nil:
		return nil, io.EOF
	case errors.Is(err, bufio.ErrTooLong):
		err = fmt.Errorf("longer than %d MB: one row stands on one line", MaxLine>>20)
	case errors.Is(err, io.ErrUnexpectedEOF):
		err = fmt.Errorf("the packed file ends too early, fetch it again: %w", err)
	}
	if l.size += len(l.from.Bytes()) + 1; err == nil && l.size > MaxUnpacked {
		err = fmt.Errorf("more than %d MB unpacked", MaxUnpacked>>20)
	}
	if err != nil {
		return nil, fmt.Errorf("line %d: %w", l.Number+1, err)
	}
	l.Number++
	return bytes.TrimSpace(l.from.Bytes()), nil
}
