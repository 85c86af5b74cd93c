package likeness

import (
	"math"
	"strings"
	"testing"
)

func TestWords(t *testing.T) {
	for text, want := range map[string]string{
		"The Quick, brown  fox.":            "quick brown fox",
		"It is 1,234.50 (about).":           "it is 1234.5 about",
		"twelve o'clock, a.m.":              "12 o clock m",
		"An end.Another":                    "end another",
		"  ...  ":                           "",
		"Zürich\u00a0hat 3.0 Flüsse; seven": "zürich hat 3 flüsse 7",
	} {
		if got := strings.Join(Words(text), " "); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if n := len(Words(strings.Repeat("word ", 3*mostWords))); n != mostWords {
		t.Errorf("%d words are read", n)
	}
}

// The scores are those of the definitions, worked out by hand.
func TestScores(t *testing.T) {
	for _, c := range []struct {
		answer, reference string
		long              float64
		span              bool
	}{
		{"police killed the gunman", "police kill the gunman", 2.0 / 3, false},
		{"gunman police killed", "police killed gunman", 2.0 / 3, false},
		{"He went to Paris in 1990", "paris", 2.0 / 7, true},
		{"It was in three towns", "3 towns", 4.0 / 7, true},
		{"yes yes yes", "yes", 0.5, true},
		{"", "paris", 0, false},
		{"paris", "", 0, false},
	} {
		a, r := Words(c.answer), Words(c.reference)
		if got := RougeL(a, r); math.Abs(got-c.long) > 1e-12 {
			t.Errorf("%q for %q: ROUGE-L is %v, want %v", c.answer, c.reference, got, c.long)
		}
		if got := Span(a, r); got != c.span {
			t.Errorf("%q in %q: %v", c.reference, c.answer, got)
		}
		want := c.long
		if c.span {
			want = 1
		}
		if got := Judge(c.answer, c.reference); math.Abs(got-want) > 1e-12 {
			t.Errorf("%q for %q is judged %v, want %v", c.answer, c.reference, got, want)
		}
	}
}
