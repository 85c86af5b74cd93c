package vllm

import (
	"bytes"
	"fmt"
	"io"
)

// stream cuts a body of server-sent events into what each read yielded. vLLM writes one `data:` line an
// event; other fields and comments carry nothing for us.
type stream struct {
	body  io.Reader
	buf   []byte // unread bytes are buf[from:to]
	from  int
	to    int
	max   int // longest line, bytes
	batch batch
	done  bool   // [DONE] was read
	pause func() // before a read, unless the answer has finished; nil: none
	each  bool   // hand over one event at a time, not all that one read held
}

const readSize = 16 << 10 // holds 60 events, far more than one decode step of one stream

// mostEvent bounds one line in bytes: the first event lists the prompt's ids, 7 bytes each, as many as a
// prompt of 512 KB can have.
const mostEvent = 4 << 20

// next reads once and takes in every whole line. It returns how many events those were; the batch holds them,
// also when there is an error: io.EOF at the body's end, an *agentd.EngineError when an event is one or
// cannot be read, or the error of the body's Read.
func (s *stream) next() (events int, err error) {
	if s.each {
		if n, err := s.lines(s.from); n > 0 || err != nil {
			return n, err
		}
	}
	if s.from > 0 {
		s.to = copy(s.buf, s.buf[s.from:s.to])
		s.from = 0
		// the first event is as long as the prompt, the others are short
		if s.to == 0 && len(s.buf) > 4*readSize {
			s.buf = make([]byte, readSize)
		}
	}
	if s.to == len(s.buf) {
		if s.to >= s.max {
			return 0, failed(fmt.Sprintf("the engine sent an event of more than %d bytes", s.max), nil)
		}
		s.buf = append(s.buf, make([]byte, max(readSize, min(s.to, s.max-s.to)))...)
	}
	if s.pause != nil && s.batch.finish == "" {
		s.pause()
	}
	n, readErr := s.body.Read(s.buf[s.to:])
	scan := s.to // bytes before were searched for a line's end already
	s.to += n
	events, err = s.lines(scan)
	if err == nil && (events == 0 || !s.each) {
		err = readErr // else the next call reads it again
	}
	return events, err
}

// lines takes in the whole lines in the buffer, searched for their ends from scan on.
func (s *stream) lines(scan int) (events int, err error) {
	before := s.batch.events
	for !s.done && (!s.each || s.batch.events == before) {
		nl := bytes.IndexByte(s.buf[scan:s.to], '\n')
		if nl < 0 {
			break
		}
		line := s.buf[s.from : scan+nl]
		scan += nl + 1
		s.from = scan
		if err := s.line(line); err != nil {
			return s.batch.events - before, err
		}
	}
	return s.batch.events - before, nil
}

func (s *stream) line(line []byte) error {
	rest, ok := bytes.CutPrefix(line, []byte("data:"))
	if !ok {
		return nil // an empty line, a ": keep-alive" comment, another field
	}
	rest = bytes.TrimSuffix(rest, []byte("\r"))
	rest = bytes.TrimPrefix(rest, []byte(" "))
	if string(rest) == "[DONE]" {
		s.done = true
		return nil
	}
	if len(rest) == 0 {
		return nil
	}
	return s.batch.add(rest)
}
