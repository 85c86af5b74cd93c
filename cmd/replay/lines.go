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
	from   *bufio.Reader
	last   []byte // that line
	again  bool   // Next returns it once more
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
	return &Lines{from: bufio.NewReaderSize(&capped{b, MaxUnpacked}, 64<<10)}, nil
}

// Back has Next return the line read last once more.
func (l *Lines) Back() { l.again = l.Number > 0 }

// Next returns the next line without its end and the white space around it, or io.EOF. Any other error names
// the line. The bytes are the caller's until the next call.
func (l *Lines) Next() ([]byte, error) {
	if l.again {
		l.again = false
		return l.last, nil
	}
	line, err := l.next()
	if err == nil {
		l.Number, l.last = l.Number+1, line
		return line, nil
	}
	if err == io.EOF {
		return nil, err
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("the packed file ends too early, fetch it again: %w", err)
	}
	return nil, fmt.Errorf("line %d: %w", l.Number+1, err)
}

func (l *Lines) next() ([]byte, error) {
	var long []byte
	for {
		part, err := l.from.ReadSlice('\n')
		switch {
		case len(long)+len(part) > MaxLine:
			return nil, fmt.Errorf("longer than %d MB: one row stands on one line", MaxLine>>20)
		case errors.Is(err, bufio.ErrBufferFull):
			long = append(long, part...)
			continue
		case err == io.EOF && len(long)+len(part) == 0:
			return nil, io.EOF
		case err != nil && err != io.EOF:
			return nil, err
		}
		return bytes.TrimSpace(append(long, part...)), nil
	}
}

// capped ends with an error, not silently, where a source is longer than it may be.
type capped struct {
	r    io.Reader
	left int64
}

func (c *capped) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, fmt.Errorf("more than %d MB unpacked", MaxUnpacked>>20)
	}
	if int64(len(p)) > c.left {
		p = p[:c.left]
	}
	n, err := c.r.Read(p)
	c.left -= int64(n)
	return n, err
}
