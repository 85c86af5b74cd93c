package vllmsim

import (
	"unicode"
	"unicode/utf8"
)

// nextPiece returns the length in bytes of the first piece of s (> 0 for a non-empty s). Tokens never cross a
// piece's edge. The rule is that of common byte-level BPEs, without their look-ahead for contractions:
//
//	a run of letters with at most one space or punctuation mark before it
//	one to three digits
//	a run of punctuation with at most one space before it
//	a run of line ends
//	a run of other white space; its last space goes to the word that follows
//
// Line ends are apart from other white space, so that a text cut at a piece's edge has the same pieces.
// Bytes that are no UTF-8 count as punctuation.
func nextPiece(s string) int {
	if n := asciiWord(s); n > 0 {
		return n
	}
	c, n := utf8.DecodeRuneInString(s)
	switch classOf(c, n) {
	case letter:
		return n + run(s[n:], letter, 1<<30)
	case digit:
		return n + run(s[n:], digit, 2)
	case lineEnd:
		return n + run(s[n:], lineEnd, 1<<30)
	case blank:
		return blankPiece(s, n)
	}
	if l := run(s[n:], letter, 1<<30); l > 0 {
		return n + l // one mark sticks to the letters behind it: (word
	}
	return n + run(s[n:], mark, 1<<30)
}

// asciiWord is nextPiece for the most common case, English words; 0 for all others.
func asciiWord(s string) int {
	i := 0
	if s[0] == ' ' {
		i = 1
	}
	from := i
	for i < len(s) && s[i] < utf8.RuneSelf && ascii[s[i]] == letter {
		i++
	}
	if i == from || i < len(s) && s[i] >= utf8.RuneSelf {
		return 0
	}
	return i
}

// blankPiece is nextPiece for a text that begins with white space other than a line end.
func blankPiece(s string, n int) int {
	all := n + run(s[n:], blank, 1<<30)
	if all == len(s) {
		return all
	}
	last, ln := utf8.DecodeLastRuneInString(s[:all])
	next, nn := utf8.DecodeRuneInString(s[all:])
	class := classOf(next, nn)
	if class == lineEnd || class == digit || last != ' ' {
		return all
	}
	if all > ln {
		return all - ln // leave one space for the word
	}
	if class == letter {
		return all + run(s[all:], letter, 1<<30)
	}
	return all + run(s[all:], mark, 1<<30)
}

// run is the length of the first characters of s that are of class k, at most max of them.
func run(s string, k class, max int) int {
	i := 0
	for ; max > 0 && i < len(s); max-- {
		c, n := utf8.DecodeRuneInString(s[i:])
		if classOf(c, n) != k {
			break
		}
		i += n
	}
	return i
}

type class uint8

const (
	mark class = iota
	letter
	digit
	lineEnd
	blank
)

var ascii = func() (t [utf8.RuneSelf]class) {
	for c := range t {
		t[c] = classOfRune(rune(c))
	}
	return
}()

func classOf(c rune, n int) class {
	if c == utf8.RuneError && n <= 1 {
		return mark
	}
	if c < utf8.RuneSelf {
		return ascii[c]
	}
	return classOfRune(c)
}

func classOfRune(c rune) class {
	switch {
	case unicode.IsLetter(c) || unicode.IsMark(c):
		return letter
	case unicode.IsNumber(c):
		return digit
	case c == '\n' || c == '\r':
		return lineEnd
	case unicode.IsSpace(c):
		return blank
	}
	return mark
}
