package openai

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

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

// Name returns a string's text, which hardly ever has escapes: only then it is copied.
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
