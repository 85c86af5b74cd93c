package guard

import (
	"testing"
	"unicode/utf8"
)

// An answer ends before its match and not a character sooner, also where a pattern asks what stands before
// the match, and what is held back begins in the midst of a text.
func TestWhatStandsBeforeAMatch(t *testing.T) {
	for _, c := range []struct{ pattern, text, passed string }{
		{`\B\s`, "one two  three", "one two "},
		{`\B-\d`, "a -1 b-2 --3", "a "},
		{`\B\s\d`, "one two  3", "one two "},
		{`\B[a-z]`, "x y zz", "x y z"},
		{`\B\s`, "one - two", "one -"},
		{`(?i)\Bk|\B\s`, "one é two", "one é"},
	} {
		for _, size := range []int{1, 2, 3, 4, 5, 100} {
			var pieces []string
			for text := c.text; text != ""; {
				n := min(size, len(text))
				for n < len(text) && !utf8.RuneStart(text[n]) {
					n++
				}
				pieces, text = append(pieces, text[:n]), text[n:]
			}
			passed, cut, _ := read(looker(t, c.pattern).Begin("math"), pieces)
			if !cut || passed != c.passed {
				t.Errorf("%q in %q, in pieces of %d: cut %v after %q, want %q", c.pattern, c.text, size, cut, passed,
					c.passed)
			}
		}
	}
}
