package bus

import (
	"fmt"
	"strings"
	"testing"
)

// Whatever a client says of itself, what is kept of it is short, and breaks no line.
func TestTags(t *testing.T) {
	long, many := strings.Repeat("x", 1<<20), make([]Tag, 50)
	for i := range many {
		many[i] = Tag{fmt.Sprintf("n%02d", i), strings.Repeat("é", 30)}
	}
	for name, c := range map[string]struct {
		tags   []Tag
		secret string
		want   string // "" : only what holds of all
	}{
		"none":             {nil, "", ""},
		"two":              {[]Tag{{"user", "ann"}, {"team", "red"}}, "", "team=red&user=ann"},
		"the first counts": {[]Tag{{"user", "ann"}, {"user", "bob"}}, "", "user=ann"},
		"a line's end":     {[]Tag{{"user", "a\nb\x00"}}, "", "user=a%0Ab%00"},
		"a tag within":     {[]Tag{{"user", "a&key=b"}}, "", "user=a%26key%3Db"},
		"another's account": {[]Tag{{"client:other:held", "client:other"}}, "",
			"client%3Aother%3Aheld=client%3Aother"},
		"1 MB":   {[]Tag{{"user", long}}, "", "user=" + hashed(long)},
		"a name": {[]Tag{{long, "v"}}, "", hashed(long) + "=v"},
		"many":   {many, "", ""},
		"hashed": {[]Tag{{"user", "ann"}}, "dev", "user=" + hashed("dev\x00user\x00ann")},
	} {
		got := Tags(c.tags, c.secret)
		if got != c.want && (c.want != "" || len(c.tags) == 0) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if !Plain(got, MaxTags) || notTags(got) != nil {
			t.Errorf("%s: %d bytes, of which some break a line: %q", name, len(got), got)
		}
		if back := Tags(ReadTags(got), ""); back != got {
			t.Errorf("%s: %q, read again %q", name, got, back)
		}
	}
	for _, bad := range []string{"a\nb", "a b", "é", `a"b`, "a|b", strings.Repeat("x", MaxTags+1)} {
		if notTags(bad) == nil {
			t.Errorf("%.20q are no tags", bad)
		}
	}
	if a, b := Tags([]Tag{{"user", "ann"}}, "one"), Tags([]Tag{{"user", "ann"}}, "other"); a == b {
		t.Errorf("two clients' users of one name are both %q", a)
	}
}
