package vllmsim

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"
)

// scanner walks a JSON text once. A request's body is read a field at a time, without building a tree: an
// engine that takes no time must not spend the measured machine's time on decoding either. It takes what
// encoding/json takes.
type scanner struct {
	b   []byte
	at  int
	err string // the first error, as Python's json module says it; "" if there was none
}

// maxDepth bounds nesting, as Python's recursion limit does.
const maxDepth = 500

func (s *scanner) fail(msg string) {
	if s.err == "" {
		s.err = msg
	}
	s.b = s.b[:s.at]
}

func (s *scanner) space() {
	for s.at < len(s.b) {
		switch s.b[s.at] {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return
		}
	}
}

// peek is the next byte that is not white space, 0 at the end.
func (s *scanner) peek() byte {
	s.space()
	if s.at < len(s.b) {
		return s.b[s.at]
	}
	return 0
}

// object calls field for each key, with the scanner at its value; field must consume it.
func (s *scanner) object(field func(key string)) {
	if s.peek() != '{' {
		s.fail("Expecting value")
		return
	}
	s.at++
	if s.peek() == '}' {
		s.at++
		return
	}
	for {
		if s.peek() != '"' {
			s.fail("Expecting property name enclosed in double quotes")
			return
		}
		key := s.str()
		if s.peek() != ':' {
			s.fail("Expecting ':' delimiter")
			return
		}
		s.at++
		field(key)
		switch s.peek() {
		case ',':
			s.at++
		case '}':
			s.at++
			return
		default:
			s.fail("Expecting ',' delimiter")
			return
		}
	}
}

// array calls item for each element.
func (s *scanner) array(item func(i int)) {
	if s.peek() != '[' {
		s.fail("Expecting value")
		return
	}
	s.at++
	if s.peek() == ']' {
		s.at++
		return
	}
	for i := 0; ; i++ {
		item(i)
		switch s.peek() {
		case ',':
			s.at++
		case ']':
			s.at++
			return
		default:
			if s.at == len(s.b) && s.err == "" {
				s.fail("Expecting value")
			}
			s.fail("Expecting ',' delimiter")
			return
		}
	}
}

// value skips one value and returns its text.
func (s *scanner) value() []byte { return s.nested(0) }

func (s *scanner) nested(depth int) []byte {
	c := s.peek()
	from := s.at
	switch {
	case depth > maxDepth:
		s.fail("maximum nesting depth exceeded")
	case c == '{':
		s.object(func(string) { s.nested(depth + 1) })
	case c == '[':
		s.array(func(int) { s.nested(depth + 1) })
	case c == '"':
		s.skipString()
	default:
		for s.at < len(s.b) && strings.IndexByte("-+.0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", s.b[s.at]) >= 0 {
			s.at++
		}
		if !scalar(s.b[from:s.at]) {
			s.at = from
			s.fail("Expecting value")
		}
	}
	return s.b[min(from, s.at):s.at]
}

func scalar(b []byte) bool {
	switch string(b) {
	case "true", "false", "null":
		return true
	}
	return len(b) > 0 && (b[0] == '-' || b[0] >= '0' && b[0] <= '9') && json.Valid(b)
}

// skipString moves behind a string and reports whether it has escapes or bytes that are no ASCII.
func (s *scanner) skipString() (easy bool) {
	start := s.at
	s.at++
	easy = true
	for s.at < len(s.b) {
		switch c := s.b[s.at]; {
		case plain[c]:
			s.at++
		case c == '"':
			s.at++
			return easy
		case c == '\\':
			easy = false
			if !s.escape() {
				return false
			}
		case c < 0x20:
			s.fail("Invalid control character at")
			return false
		default:
			easy = false
			s.at++
		}
	}
	s.at = start
	s.fail("Unterminated string starting at")
	return false
}

func (s *scanner) escape() bool {
	if s.at+1 < len(s.b) {
		switch s.b[s.at+1] {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			s.at += 2
			return true
		case 'u':
			if s.at+6 <= len(s.b) {
				if _, err := strconv.ParseUint(string(s.b[s.at+2:s.at+6]), 16, 32); err == nil {
					s.at += 6
					return true
				}
			}
		}
	}
	s.fail("Invalid \\escape")
	return false
}

// str reads a string.
func (s *scanner) str() string {
	from := s.at
	easy := s.skipString()
	if s.err != "" {
		return ""
	}
	raw := s.b[from:s.at]
	inner := raw[1 : len(raw)-1]
	if easy || bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return string(inner)
	}
	return unescape(inner)
}

// unescape undoes JSON's escapes. It is exact for strings that skipString has passed.
func unescape(in []byte) string {
	out := make([]byte, 0, len(in))
	for i := 0; i < len(in); {
		c := in[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRune(in[i:])
			out = utf8.AppendRune(out, r)
			i += n
			continue
		}
		if c != '\\' {
			out = append(out, c)
			i++
			continue
		}
		switch e := in[i+1]; e {
		case 'n':
			out = append(out, '\n')
		case 't':
			out = append(out, '\t')
		case 'r':
			out = append(out, '\r')
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'u':
			r := hex4(in[i+2:])
			i += 4
			if r >= 0xD800 && r < 0xDC00 && i+8 <= len(in) && in[i+2] == '\\' && in[i+3] == 'u' {
				if low := hex4(in[i+4:]); low >= 0xDC00 && low < 0xE000 {
					r = (r-0xD800)<<10 + (low - 0xDC00) + 0x10000
					i += 6
				}
			}
			out = utf8.AppendRune(out, r) // a lone surrogate becomes U+FFFD
		default:
			out = append(out, e)
		}
		i += 2
	}
	return string(out)
}

func hex4(b []byte) rune {
	n, _ := strconv.ParseUint(string(b[:4]), 16, 32)
	return rune(n)
}

// end checks that nothing but white space is left.
func (s *scanner) end() {
	s.space()
	if s.err == "" && s.at < len(s.b) {
		s.fail("Extra data")
	}
}
