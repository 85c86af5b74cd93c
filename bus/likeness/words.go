// Package likeness compares answers by their words.
package likeness

import (
	"strings"
	"unicode"
)

// mostWords bounds what is read of a text: the longest common subsequence takes time by its square.
const mostWords = 2000

// Words are the words of a text in lower case, without punctuation and articles, and small numbers as
// figures: what is compared of two texts.
func Words(text string) []string {
	var words []string
	for w := range strings.FieldsFuncSeq(strings.ToLower(text), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsNumber(r) && r != '.' && r != ','
	}) {
		w = strings.Trim(w, ".,")
		if digits(w) {
			w = strings.ReplaceAll(w, ",", "")
			if whole, part, ok := strings.Cut(w, "."); ok {
				if part = strings.TrimRight(part, "0"); part == "" {
					w = whole
				} else {
					w = whole + "." + part
				}
			}
			words = append(words, w)
		} else {
			for part := range strings.FieldsFuncSeq(w, func(r rune) bool { return r == '.' || r == ',' }) {
				switch n, ok := numbers[part]; {
				case ok:
					words = append(words, n)
				case part != "a" && part != "an" && part != "the":
					words = append(words, part)
				}
			}
		}
		if len(words) >= mostWords {
			return words[:mostWords]
		}
	}
	return words
}

// digits reports whether a word is a number in figures.
func digits(w string) bool {
	for _, r := range w {
		if r != '.' && r != ',' && (r < '0' || r > '9') {
			return false
		}
	}
	return w != ""
}

var numbers = map[string]string{"zero": "0", "one": "1", "two": "2", "three": "3", "four": "4", "five": "5",
	"six": "6", "seven": "7", "eight": "8", "nine": "9", "ten": "10", "eleven": "11", "twelve": "12"}

// Span reports whether the words of the reference stand together in the answer, in their order (iemas C.2.5).
// A reference without words is in none.
func Span(answer, reference []string) bool {
	if len(reference) == 0 {
		return false
	}
	for from := range answer {
		if len(answer)-from < len(reference) {
			break
		}
		k := 0
		for k < len(reference) && answer[from+k] == reference[k] {
			k++
		}
		if k == len(reference) {
			return true
		}
	}
	return false
}

// RougeL is the F1 score of the longest run of words that both have in the same order, others in between
// (ROUGE-L).
func RougeL(answer, reference []string) float64 {
	row := make([]int, len(reference)+1)
	for _, w := range answer {
		before := 0
		for k, r := range reference {
			here := row[k+1]
			if w == r {
				row[k+1] = before + 1
			} else {
				row[k+1] = max(here, row[k])
			}
			before = here
		}
	}
	same := row[len(reference)]
	if same == 0 {
		return 0
	}
	return 2 * float64(same) / float64(len(answer)+len(reference))
}

// Judge says how good an answer is by a reference: 1 where that stands in it, else by ROUGE-L.
func Judge(answer, reference string) float64 {
	a, r := Words(answer), Words(reference)
	if Span(a, r) {
		return 1
	}
	return RougeL(a, r)
}
