package prose

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestWrap(t *testing.T) {
	long := strings.TrimSpace(strings.Repeat("word ", 30))
	word, wide := strings.Repeat("x", 120), strings.Repeat("±", 60)+" "+strings.Repeat("ü", 49)
	at := func(n int) string { return strings.TrimSpace(strings.Repeat("word ", n)) }
	for name, c := range map[string]struct{ page, want string }{
		"what fits":     {"# One\n\na\nb c\n", "# One\n\na\nb c\n"},
		"a paragraph":   {long, at(22) + "\n" + at(8)},
		"an item":       {"* " + long + "\n  more\n* next", "* " + at(21) + "\n  " + at(9) + " more\n* next"},
		"a number":      {"12. " + long, "12. " + at(21) + "\n    " + at(9)},
		"a quotation":   {"> " + long + "\n> more", "> " + at(21) + "\n> " + at(9) + " more"},
		"a table":       {"| " + long + " |", "| " + long + " |"},
		"code":          {"text\n\n    " + long, "text\n\n    " + long},
		"a fence":       {"```\n" + long + "\n```\n", "```\n" + long + "\n```\n"},
		"a comment":     {"<!-- " + long + " -->", "<!-- " + long + " -->"},
		"a break":       {long + "  \nmore", long + "  \nmore"},
		"a long word":   {"see " + word + " there", "see\n" + word + "\nthere"},
		"its neighbour": {"a\n\n" + long + "\n\nb\nc", "a\n\n" + at(22) + "\n" + at(8) + "\n\nb\nc"},
		"a mark":        {at(21) + "s two - three four", at(21) + "s\ntwo - three four"},
		"code in text":  {at(20) + " `lab soak --events` more", at(20) + "\n`lab soak --events` more"},
		"letters":       {wide, wide},
	} {
		got := Wrap(c.page)
		if got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, c.want)
		}
		if again := Wrap(got); again != got {
			t.Errorf("%s: again\n%s", name, again)
		}
	}
}

// Whatever a page holds, only white space changes, and no line of prose is longer than its longest word asks.
func FuzzWrap(f *testing.F) {
	f.Add("# One\n\n* a\n  b\n\n    code\n\n```\nx\n```\n| a | b |\n> q\n12. " + strings.Repeat("word `a b` ", 20))
	f.Fuzz(func(t *testing.T, page string) {
		got := Wrap(page)
		bare := func(s string) string {
			return strings.Map(func(r rune) rune {
				if r == '>' {
					return -1
				}
				return r
			}, strings.Join(strings.Fields(s), ""))
		}
		if utf8.ValidString(page) && bare(got) != bare(page) {
			t.Errorf("%q\nbecame\n%q", page, got)
		}
	})
}
