package bus

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// maxNesting bounds the depth of a JSON body: JSON schemas of tools nest a dozen deep.
const maxNesting = 128

// scanner reads JSON (RFC 8259) from front to back without building anything: bodies are long and
// what matters in them is little. It accepts what encoding/json accepts, less nesting beyond maxNesting.
type scanner struct {
	data  []byte
	at    int
	depth int
	err   error // the first thing wrong; set once a method has returned false

	separators bool // appendString has written one of canonical text's separators
}

// span is a part of the data, from its first byte to behind its last. A span of a string holds the quotes.
type span struct{ from, to int }

func (s *scanner) text(p span) []byte { return s.data[p.from:p.to] }

func (s *scanner) fail(what string) bool {
	if s.err == nil {
		s.err = fmt.Errorf("JSON at byte %d: %s", s.at, what)
	}
	return false
}

// next skips white space and returns the byte there, 0 at the end.
func (s *scanner) next() byte {
	for s.at < len(s.data) {
		switch c := s.data[s.at]; c {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return c
		}
	}
	return 0
}

// object calls member for each member of the object that begins here, with the scanner on its value,
// which member must consume.
func (s *scanner) object(member func(key span) bool) bool {
	if s.next() != '{' {
		return s.fail("an object is expected")
	}
	if !s.enter() {
		return false
	}
	if s.next() == '}' {
		return s.leave()
	}
	for {
		if s.next() != '"' {
			return s.fail("the name of a member is expected, in double quotes")
		}
		key, ok := s.str()
		if !ok {
			return false
		}
		if s.next() != ':' {
			return s.fail("a ':' is expected")
		}
		s.at++
		if !member(key) {
			return false
		}
		switch s.next() {
		case ',':
			s.at++
		case '}':
			return s.leave()
		default:
			return s.fail("a ',' or '}' is expected")
		}
	}
}

// array calls item for each item of the array that begins here, with the scanner on it.
func (s *scanner) array(item func() bool) bool {
	if s.next() != '[' {
		return s.fail("an array is expected")
	}
	if !s.enter() {
		return false
	}
	if s.next() == ']' {
		return s.leave()
	}
	for {
		if !item() {
			return false
		}
		switch s.next() {
		case ',':
			s.at++
		case ']':
			return s.leave()
		default:
			return s.fail("a ',' or ']' is expected")
		}
	}
}

func (s *scanner) enter() bool {
	if s.depth == maxNesting {
		return s.fail(fmt.Sprintf("nested more than %d deep", maxNesting))
	}
	s.depth++
	s.at++
	return true
}

func (s *scanner) leave() bool { s.depth--; s.at++; return true }

// value skips one value and returns where it stands.
func (s *scanner) value() (p span, ok bool) {
	switch c := s.next(); c {
	case '"':
		return s.str()
	case '{':
		p.from = s.at
		ok = s.object(func(span) bool { _, ok := s.value(); return ok })
	case '[':
		p.from = s.at
		ok = s.array(func() bool { _, ok := s.value(); return ok })
	case 't':
		p.from = s.at
		ok = s.word("true")
	case 'f':
		p.from = s.at
		ok = s.word("false")
	case 'n':
		p.from = s.at
		ok = s.word("null")
	default:
		if c != '-' && (c < '0' || c > '9') {
			return p, s.fail("a value is expected")
		}
		p.from = s.at
		ok = s.number()
	}
	p.to = s.at
	return p, ok
}

func (s *scanner) word(w string) bool {
	if end := s.at + len(w); end > len(s.data) || string(s.data[s.at:end]) != w {
		return s.fail("a value is expected")
	}
	s.at += len(w)
	return true
}

func (s *scanner) number() bool {
	if s.data[s.at] == '-' {
		s.at++
	}
	if s.at < len(s.data) && s.data[s.at] == '0' {
		s.at++
	} else if !s.digits() {
		return false
	}
	if s.at < len(s.data) && s.data[s.at] == '.' {
		s.at++
		if !s.digits() {
			return false
		}
	}
	if s.at < len(s.data) && s.data[s.at]|0x20 == 'e' {
		s.at++
		if s.at < len(s.data) && (s.data[s.at] == '+' || s.data[s.at] == '-') {
			s.at++
		}
		return s.digits()
	}
	return true
}

func (s *scanner) digits() bool {
	from := s.at
	for s.at < len(s.data) && s.data[s.at]-'0' <= 9 {
		s.at++
	}
	if s.at == from {
		return s.fail("a digit is expected")
	}
	return true
}

// str skips a string.
func (s *scanner) str() (p span, ok bool) {
	if s.next() != '"' {
		return p, s.fail("a string is expected")
	}
	p.from = s.at
	s.at++
	for {
		s.at += plain(s.data[s.at:])
		if s.at >= len(s.data) {
			return p, s.fail("a string does not end")
		}
		switch c := s.data[s.at]; {
		case c == '"':
			s.at++
			p.to = s.at
			return p, true
		case c == '\\':
			if !s.escape() {
				return p, false
			}
		default:
			return p, s.fail("a control character stands in a string: write it as an escape")
		}
	}
}

func (s *scanner) escape() bool {
	if s.at+1 >= len(s.data) {
		return s.fail("a string does not end")
	}
	switch s.data[s.at+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.at += 2
		return true
	case 'u':
		if _, ok := hex4(s.data[s.at+2:]); ok {
			s.at += 6
			return true
		}
	}
	return s.fail("no such escape")
}

// plain counts the bytes before the first quote, backslash or control character. It looks at eight at
// a time: each subtraction borrows, and so sets a byte's high bit, exactly where the byte is one of them,
// up to the first such byte.
func plain(b []byte) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	n := 0
	for ; len(b)-n >= 8; n += 8 {
		w := binary.LittleEndian.Uint64(b[n:])
		quote, slash := w^ones*'"', w^ones*'\\'
		if found := ((w - ones*0x20) | (quote - ones) | (slash - ones)) &^ w & highs; found != 0 {
			return n + bits.TrailingZeros64(found)/8
		}
	}
	for ; n < len(b); n++ {
		if c := b[n]; c < 0x20 || c == '"' || c == '\\' {
			break
		}
	}
	return n
}

// appendString appends what a string says, without quotes and escapes. The span has been scanned.
func (s *scanner) appendString(dst []byte, p span) []byte {
	b := s.data[p.from+1 : p.to-1]
	for {
		n := plain(b)
		dst = append(dst, b[:n]...)
		if b = b[n:]; len(b) == 0 {
			return dst
		}
		switch c := b[1]; c {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r, _ := hex4(b[2:])
			b = b[6:]
			if utf16.IsSurrogate(r) {
				low := rune(-1)
				if len(b) >= 6 && b[0] == '\\' && b[1] == 'u' {
					low, _ = hex4(b[2:])
				}
				if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
					b = b[6:]
				}
			}
			s.separators = s.separators || isSeparator(r) // the only way in: they never stand unescaped
			dst = utf8.AppendRune(dst, r)
			continue
		default: // the character itself
			dst = append(dst, c)
		}
		b = b[2:]
	}
}

func hex4(b []byte) (r rune, ok bool) {
	if len(b) < 4 {
		return 0, false
	}
	for _, c := range b[:4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// appendCompact appends a scanned value without the white space between its parts.
func (s *scanner) appendCompact(dst []byte, p span) []byte {
	b := s.text(p)
	for len(b) > 0 {
		n := 0
		switch c := b[0]; c {
		case ' ', '\t', '\n', '\r':
			b = b[1:]
			continue
		case '"':
			for n = 1; b[n] != '"'; {
				if b[n] == '\\' {
					n += 2
				}
				n += plain(b[n:])
			}
			n++
		default:
			for n = 1; n < len(b) && b[n] > ' ' && b[n] != '"'; n++ {
			}
		}
		dst = append(dst, b[:n]...)
		b = b[n:]
	}
	return dst
}
