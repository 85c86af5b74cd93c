package vllmsim

import (
	"strings"
	"unicode/utf8"

	"souk/bus/openai"
)

// scanner walks a request's body a field at a time, without building a tree: an engine that takes no time
// must not spend the measured machine's time on decoding either.
type scanner struct{ openai.Scanner }

// maxDepth bounds nesting, as Python's recursion limit does.
const maxDepth = 500

func scan(b []byte) scanner {
	s := scanner{openai.Scan(b)}
	s.Deepest = maxDepth
	return s
}

// wrong is the first error, as Python's json module says it, and where it is; "" if there was none.
func (s *scanner) wrong() (msg string, at int) {
	what, at := s.Wrong()
	switch what {
	case "":
		return "", 0
	case openai.NoName:
		return "Expecting property name enclosed in double quotes", at
	case openai.NoColon:
		return "Expecting ':' delimiter", at
	case openai.NoMoreMember, openai.NoMoreItem:
		return "Expecting ',' delimiter", at
	case openai.NoEnd:
		return "Unterminated string starting at", at
	case openai.NoEscape:
		return "Invalid \\escape", at
	case openai.BareControl:
		return "Invalid control character at", at
	case openai.MoreFollows:
		return "Extra data", at
	}
	if strings.HasPrefix(what, openai.TooDeep) {
		return "maximum nesting depth exceeded", at
	}
	return "Expecting value", at
}

func (s *scanner) sound() bool {
	what, _ := s.Wrong()
	return what == ""
}

// object calls field for each key, with the scanner at its value; field must consume it.
func (s *scanner) object(field func(key string)) {
	s.Object(func(key openai.Span) bool {
		field(s.said(key))
		return s.sound()
	})
}

// array calls item for each element.
func (s *scanner) array(item func(i int)) {
	i := -1
	s.Array(func() bool {
		i++
		item(i)
		return s.sound()
	})
}

// value skips one value and returns its text.
func (s *scanner) value() []byte {
	v, _ := s.Value()
	return s.Text(v)
}

// str reads a string.
func (s *scanner) str() string {
	p, ok := s.Str()
	if !ok {
		return ""
	}
	return s.said(p)
}

func (s *scanner) said(p openai.Span) string {
	text := s.Name(p)
	if !utf8.Valid(text) {
		return string([]rune(string(text)))
	}
	return string(text)
}
