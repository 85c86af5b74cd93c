package openai

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
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

// maxNesting is how deep encoding/json goes.
const maxNesting = 10_000

// Scan begins at the beginning.
func Scan(data []byte) Scanner { return Scanner{Deepest: maxNesting, data: data} }

// Span is a part of the data, from its first byte to behind its last. A Span of a string holds the quotes.
type Span struct{ From, To int }

// Text is what stands at p, as it is written.
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

// Str skips a string.
func (s *Scanner) Str() (p Span, ok bool) {
	if s.Next() != '"' {
		return p, s.fail("a string is expected")
	}
	return s.str()
}

func (s *Scanner) str() (p Span, ok bool) {
	from, data := s.at, s.data
	for at := from + 1; ; {
		if at += plain(data[at:]); at == len(data) {
			return p, s.failAt(from, NoEnd)
		}
		switch data[at] {
		case '"':
			s.at = at + 1
			return Span{from, s.at}, true
		case '\\':
			n := escapeLen(data[at:])
			if n == 0 {
				return p, s.failAt(at, NoEscape)
			}
			if n == 6 && s.Paired {
				if n = pairLen(data[at:]); n == 0 {
					return p, s.failAt(at, HalfPair)
				}
			}
			at += n
		default:
			return p, s.failAt(at, BareControl)
		}
	}
}

// escapeLen is the length of the escape that b begins with, 0 if there is none such. One that is cut off does
// not end.
func escapeLen(b []byte) int {
	if len(b) == 1 {
		return 1
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if _, ok := hex4(b[2:]); ok {
			return 6
		}
	}
	return 0
}

// pairLen is the length of the escape of four digits that b begins with, of both where it needs another one,
// 0 if that is not there.
func pairLen(b []byte) int {
	r, _ := hex4(b[2:])
	if !utf16.IsSurrogate(r) {
		return 6
	}
	if len(b) >= 12 && b[6] == '\\' && b[7] == 'u' {
		if low, ok := hex4(b[8:]); ok && utf16.DecodeRune(r, low) != utf8.RuneError {
			return 12
		}
	}
	return 0
}

// special has the high bit of the first quote, backslash or control character among eight bytes, the first
// byte lowest in w, and no lower bit. Each subtraction borrows, and so sets a byte's high bit, exactly where
// the byte is one of them, up to the first such byte.
func special(w uint64) uint64 {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	quote, slash := w^ones*'"', w^ones*'\\'
	return ((w - ones*0x20) | (quote - ones) | (slash - ones)) &^ w & highs
}

// plain counts the bytes before the first quote, backslash or control character.
func plain(b []byte) int {
	n := 0
	for ; len(b)-n >= 8; n += 8 {
		if found := special(binary.LittleEndian.Uint64(b[n:])); found != 0 {
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

// Name is what a string says that is hardly ever written with escapes: only then it is copied.
func (s *Scanner) Name(p Span) []byte {
	raw := s.data[p.From+1 : p.To-1]
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw
	}
	return s.AppendString(nil, p)
}

// AppendString appends what a string says, without quotes and escapes.
func (s *Scanner) AppendString(dst []byte, p Span) []byte {
	b := s.data[p.From+1 : p.To-1]
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

// appendCompact appends a value that has been read, without the white space between its parts, and with line
// ends in its strings escaped as [Out.Str] does.
func appendCompact(dst, b []byte) []byte {
	for len(b) > 0 {
		n := 0
		switch c := b[0]; c {
		case ' ', '\t', '\n', '\r':
			b = b[1:]
			continue
		case '"':
			n = stringLen(b)
			dst = appendLine(dst, b[:n])
			b = b[n:]
			continue
		default:
			for n = 1; n < len(b) && b[n] > ' ' && b[n] != '"'; n++ {
			}
		}
		dst = append(dst, b[:n]...)
		b = b[n:]
	}
	return dst
}

// appendLine appends a string that has been read.
func appendLine(dst, quoted []byte) []byte {
	from := 0
	for i, c := range quoted {
		if c != nel && c != separator {
			continue
		}
		if n, escape := lineEnd(quoted[i:]); n > 0 {
			dst = append(append(dst, quoted[from:i]...), escape...)
			from = i + n
		}
	}
	return append(dst, quoted[from:]...)
}

// stringLen is the length of the string that b begins with.
func stringLen(b []byte) int {
	n := 1
	for b[n] != '"' {
		if b[n] == '\\' {
			n += 2
		}
		n += plain(b[n:])
	}
	return n + 1
}
