package openai

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Out is JSON that is being written. Each method appends one thing and returns the whole, so that an object
// stands in the code as it will stand on the wire.
type Out []byte

// Raw appends what is JSON already.
func (o Out) Raw(s string) Out { return append(o, s...) }

// Int appends a whole number.
func (o Out) Int(n int) Out { return strconv.AppendInt(o, int64(n), 10) }

// Str appends a string. What is no UTF-8 becomes U+FFFD.
func (o Out) Str(s string) Out { return o.Raw(`"`).escaped(s).Raw(`"`) }

// StrOrNull appends a string, and null for an empty one.
func (o Out) StrOrNull(s string) Out {
	if s == "" {
		return o.Raw("null")
	}
	return o.Str(s)
}

// IDs appends a list of token ids.
func (o Out) IDs(ids []uint32) Out {
	o = append(o, '[')
	for i, id := range ids {
		if i > 0 {
			o = append(o, ',')
		}
		o = strconv.AppendUint(o, uint64(id), 10)
	}
	return append(o, ']')
}

// compact appends a value that has been read, without the white space between its parts.
func (o Out) compact(v []byte) Out { return appendCompact(o, v) }

// escaped appends what stands between the quotes of a string. Escaped is also what ends a line beyond ASCII,
// for some clients split events there: see [lineEnd].
func (o Out) escaped(s string) Out {
	const digits = "0123456789abcdef"
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\ufffd")
	}
	from := 0
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c != nel && c != separator {
			continue
		}
		if c >= utf8.RuneSelf {
			if n, end := lineEnd(s[i:]); n > 0 {
				o = append(append(o, s[from:i]...), end...)
				from = i + n
			}
			continue
		}
		o = append(o, s[from:i]...)
		switch c {
		case '"', '\\':
			o = append(o, '\\', c)
		case '\n':
			o = append(o, '\\', 'n')
		case '\r':
			o = append(o, '\\', 'r')
		case '\t':
			o = append(o, '\\', 't')
		default:
			o = append(o, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		}
		from = i + 1
	}
	return append(o, s[from:]...)
}

// The first bytes of what lineEnd finds.
const nel, separator = 0xc2, 0xe2

// lineEnd finds the characters beyond ASCII that end a line for Unicode, but not for server-sent events: next
// line, and the separators of lines and paragraphs. It returns the bytes of the one at the beginning of s, 0
// if there is none, and its escape.
func lineEnd[S []byte | string](s S) (n int, escape string) {
	switch {
	case len(s) >= 2 && s[0] == nel && s[1] == 0x85:
		return 2, `\u0085`
	case len(s) < 3 || s[0] != separator || s[1] != 0x80:
	case s[2] == 0xa8:
		return 3, `\u2028`
	case s[2] == 0xa9:
		return 3, `\u2029`
	}
	return 0, ""
}
