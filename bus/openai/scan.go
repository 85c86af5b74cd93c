package openai

import (
	"fmt"
)

// Scanner reads JSON (RFC 8259) from front to back without building anything: bodies and events are many and
// long, and what matters in them is little. It accepts what encoding/json accepts. Once a method has returned
// false the scanner is of no further use, and Err says why.
type Scanner struct {
	// Deepest bounds the nesting; where nobody says otherwise it is that of encoding/json.
	Deepest int
	// Paired refuses escapes that are half of a surrogate pair: UTF-8 cannot hold them, and engines fail.
	Paired bool
	// NotNumbers takes NaN and Infinity for values, as Python does.
	NotNumbers bool

	data  []byte
	at    int
	depth int
	wrong string // the first thing wrong
	where int
}

// maxNesting is the nesting at which encoding/json gives up.
const maxNesting = 10_000

// Scan begins at the beginning.
func Scan(data []byte) Scanner { return Scanner{Deepest: maxNesting, data: data} }

// Span is a part of the data, from its first byte to behind its last. A Span of a string holds the quotes.
type Span struct{ From, To int }

// Text returns the bytes at p, as they are written.
func (s *Scanner) Text(p Span) []byte { return s.data[p.From:p.To] }

// within begins anew at a value that has been read.
func (s *Scanner) within(p Span) Scanner {
	return Scanner{Deepest: s.Deepest, data: s.data[:p.To], at: p.From}
}

// Wrong is the first thing wrong and the byte where it stands; "" if there is nothing.
func (s *Scanner) Wrong() (what string, at int) { return s.wrong, s.where }

// Err is Wrong as an error.
func (s *Scanner) Err() error {
	if s.wrong == "" {
		return nil
	}
	return fmt.Errorf("JSON at byte %d: %s", s.where, s.wrong)
}

func (s *Scanner) fail(what string) bool { return s.failAt(s.at, what) }

func (s *Scanner) failAt(at int, what string) bool {
	if s.wrong == "" {
		s.wrong, s.where = what, at
	}
	return false
}

// What is wrong, in words that others may put in their own.
const (
	NoValue      = "a value is expected"
	NoName       = "the name of a member is expected, in double quotes"
	NoColon      = "a ':' is expected"
	NoEnd        = "a string does not end"
	NoEscape     = "no such escape"
	HalfPair     = "half of a character: \\ud800 to \\udfff stand in pairs"
	BareControl  = "a control character stands in a string: write it as an escape"
	NoMoreMember = "a ',' or '}' is expected"
	NoMoreItem   = "a ',' or ']' is expected"
	MoreFollows  = "it has ended, but more follows"
	TooDeep      = "nested more than" // so many levels
)

// Next skips white space and returns the byte there, 0 at the end.
func (s *Scanner) Next() byte {
	if s.at < len(s.data) && s.data[s.at] > ' ' {
		return s.data[s.at]
	}
	return s.space()
}

func (s *Scanner) space() byte {
	for ; s.at < len(s.data); s.at++ {
		if c := s.data[s.at]; !isSpace(c) {
			return c
		}
	}
	return 0
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// End reports whether nothing follows.
func (s *Scanner) End() bool {
	s.Next()
	return s.wrong == "" && (s.at == len(s.data) || s.fail(MoreFollows))
}

// Object calls member for each member of the object that begins here, with the scanner on its value, which
// member must consume.
func (s *Scanner) Object(member func(key Span) bool) bool {
	if s.Next() != '{' {
		return s.fail("an object is expected")
	}
	if !s.enter() {
		return false
	}
	if s.Next() == '}' {
		return s.leave()
	}
	return s.Members(member)
}

// Members is Object from the name of a member on.
func (s *Scanner) Members(member func(key Span) bool) bool {
	for {
		if s.Next() != '"' {
			return s.fail(NoName)
		}
		key, ok := s.str()
		if !ok {
			return false
		}
		if s.Next() != ':' {
			return s.fail(NoColon)
		}
		s.at++
		if !member(key) {
			return false
		}
		switch s.Next() {
		case ',':
			s.at++
		case '}':
			return s.leave()
		default:
			return s.fail(NoMoreMember)
		}
	}
}

// Array calls item for each item of the array that begins here, with the scanner on it.
func (s *Scanner) Array(item func() bool) bool {
	if s.Next() != '[' {
		return s.fail("an array is expected")
	}
	if !s.enter() {
		return false
	}
	if s.Next() == ']' {
		return s.leave()
	}
	for {
		if !item() {
			return false
		}
		switch s.Next() {
		case ',':
			s.at++
		case ']':
			return s.leave()
		default:
			return s.fail(NoMoreItem)
		}
	}
}

func (s *Scanner) enter() bool {
	s.depth++
	s.at++
	return s.depth <= s.Deepest || s.tooDeep()
}

func (s *Scanner) tooDeep() bool {
	return s.failAt(s.at-1, fmt.Sprintf("%s %d deep", TooDeep, s.Deepest))
}

func (s *Scanner) leave() bool { s.depth--; s.at++; return true }

// Value skips one value and returns where it stands.
func (s *Scanner) Value() (p Span, ok bool) {
	c := s.Next()
	from := s.at
	switch {
	case c == '"':
		return s.str()
	case c == '{':
		ok = s.Object(func(Span) bool { _, ok := s.Value(); return ok })
	case c == '[':
		ok = s.Array(func() bool { _, ok := s.Value(); return ok })
	case c == 't':
		ok = s.word("true")
	case c == 'f':
		ok = s.word("false")
	case c == 'n':
		ok = s.word("null")
	case c == '-' || c >= '0' && c <= '9':
		ok = s.number()
	case c == 'N' && s.NotNumbers:
		ok = s.word("NaN")
	case c == 'I' && s.NotNumbers:
		ok = s.word("Infinity")
	default:
		ok = s.fail(NoValue)
	}
	if !ok {
		return Span{}, false
	}
	return Span{from, s.at}, true
}

func (s *Scanner) word(w string) bool {
	if end := s.at + len(w); end > len(s.data) || string(s.data[s.at:end]) != w {
		return s.fail(NoValue)
	}
	s.at += len(w)
	return true
}

func (s *Scanner) number() bool {
	if s.data[s.at] == '-' {
		if s.at++; s.NotNumbers && s.at < len(s.data) && s.data[s.at] == 'I' {
			return s.word("Infinity")
		}
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

func (s *Scanner) digits() bool {
	from := s.at
	for s.at < len(s.data) && s.data[s.at]-'0' <= 9 {
		s.at++
	}
	if s.at == from {
		return s.fail("a digit is expected")
	}
	return true
}

// Null skips a null, if one stands here.
func (s *Scanner) Null() bool {
	if s.Next() != 'n' || len(s.data)-s.at < 4 || string(s.data[s.at:s.at+4]) != "null" {
		return false
	}
	s.at += 4
	return true
}

// Count reads a whole number from 0 to 999,999,999, written in digits alone.
func (s *Scanner) Count() (n int, ok bool) {
	first := s.Next()
	at := s.at
	for ; at < len(s.data) && s.data[at]-'0' <= 9; at++ {
		if at == s.at+9 {
			return 0, s.fail("a smaller number is expected")
		}
		n = n*10 + int(s.data[at]-'0')
	}
	if at == s.at || first == '0' && at > s.at+1 {
		return 0, s.fail("a whole number is expected")
	}
	s.at = at
	return n, true
}
