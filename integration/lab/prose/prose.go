// Package prose ends the lines of pages.
package prose

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// LastColumn is the column at which lines of prose end.
const LastColumn = 110

// mostCode bounds the code within a line that is kept on one.
const mostCode = 60

var (
	// of a list's item, a quotation, or a paragraph: what comes before its text
	opening = regexp.MustCompile(`^ *(?:(?:[*+-]|\d{1,3}[.)]) +|> ?)?`)
	item    = regexp.MustCompile(`^ *(?:[*+-]|\d{1,3}[.)]) `)
	// what is no prose: tables, headings, comments, fences, what a template puts there, and names of links
	other = regexp.MustCompile("^ *(?:\\||#|<|```|~~~|\\{\\{|\\[[^\\]]+\\]: )")
	// a word that would be read as more than a word where a line begins with it
	mark = regexp.MustCompile(`^(?:[*+>-]|#+|\d+[.)]|=+|\|.*)$`)
)

// Wrap is a page in Markdown in which no paragraph goes on beyond the last column. One that does is filled
// anew; all else stands as it is: tables, code, headings, and paragraphs that fit.
func Wrap(page string) string {
	var out, block []string
	flush := func() {
		out = append(out, filled(block)...)
		block = nil
	}
	fence := false
	for _, line := range strings.Split(page, "\n") {
		text := strings.TrimSpace(line)
		fenced := strings.HasPrefix(text, "```") || strings.HasPrefix(text, "~~~")
		code := len(block) == 0 && strings.HasPrefix(line, "    ") && !item.MatchString(line)
		switch {
		case fence || fenced || text == "" || code || other.MatchString(line):
			flush()
			out = append(out, line)
			fence = fence != fenced
		case item.MatchString(line):
			flush()
			block = []string{line}
		default:
			block = append(block, line)
		}
	}
	flush()
	return strings.Join(out, "\n")
}

// filled refills one paragraph if a line of it is too long. One with breaks of its own is left alone.
func filled(block []string) []string {
	long := false
	for _, line := range block {
		if strings.HasSuffix(line, "  ") || strings.HasSuffix(line, `\`) {
			return block
		}
		long = long || utf8.RuneCountInString(line) > LastColumn
	}
	if !long {
		return block
	}
	first := opening.FindString(block[0])
	rest := strings.Repeat(" ", len(first))
	if strings.Contains(first, ">") {
		rest = first
	}
	var text []string
	for i, line := range block {
		if i == 0 || strings.Contains(first, ">") {
			line = line[len(opening.FindString(line)):]
		}
		text = append(text, strings.TrimSpace(line))
	}
	var out []string
	line := first
	for i, word := range words(strings.Join(text, " ")) {
		switch {
		case i == 0:
			line += word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > LastColumn:
			out = append(out, line)
			line = rest + word
		default:
			line += " " + word
		}
	}
	return append(out, line)
}

// words splits a text into its words. Short code counts as a word; a mark belongs to the word before it.
func words(text string) (all []string) {
	for _, w := range strings.Fields(text) {
		if n := len(all); n > 0 {
			last := all[n-1]
			open := strings.Count(last, "`")%2 == 1 && len(last) < mostCode
			if open || mark.MatchString(w) {
				all[n-1] = last + " " + w
				continue
			}
		}
		all = append(all, w)
	}
	return all
}
