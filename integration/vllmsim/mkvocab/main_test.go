package main

import (
	"slices"
	"strings"
	"testing"
)

// The most frequent pair is joined first; of equally frequent ones that whose text sorts first; a pair that
// occurs once never.
func TestLearn(t *testing.T) {
	for _, c := range []struct {
		text string
		size int
		want string
	}{
		{"low low low lower lowest", 4, "lo|low| low| lowe"},
		{"abc", 9, ""},
		{"ab ab", 9, "ab"},
		{"", 5, ""},
	} {
		got := learn(c.text, c.size)
		if s := strings.Join(got, "|"); s != c.want {
			t.Errorf("learn(%q, %d) = %q, want %q", c.text, c.size, s, c.want)
		}
		if again := learn(c.text, c.size); !slices.Equal(got, again) {
			t.Errorf("learn(%q) gave something else the second time: %q", c.text, again)
		}
	}
}
