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

// escaped appends what stands between the quotes of a string.
func (o Out) escaped(s string) Out {
	const digits = "0123456789abcdef"
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\ufffd")
	}
	from := 0
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
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
