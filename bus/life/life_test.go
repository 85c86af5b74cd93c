package life

import (
	"strings"
	"testing"
)

// hostile lists texts that are no life.
var hostile = map[string]string{
	"nothing":            "",
	"a line's end":       "\n",
	"spaces":             "   \n",
	"no name":            "." + sample[nameLen+1:],
	"a path":             "../../../etc/passwd",
	"slashes":            strings.Replace(sample, ".", "/", 1),
	"too long":           strings.Repeat("A", maxText+1),
	"bytes":              "\xff\xfe\x00\x80\n\x1b[31m",
	"a name of capitals": "ABC",
	"a short digest":     strings.Replace(sample, ".BBBB", ".BBB", 1),
	"a field more":       sample + ".A",
	"a number more":      sample + "-1",
	"no numbers":         strings.Replace(sample, "-1-2-3", "---", 1),
	"a number too large": strings.Replace(sample, "-1-", "-10000000000000000-", 1),
	"a number below 0":   strings.Replace(sample, "-1-", "--1-", 1),
	"zeros before it":    strings.Replace(sample, "-1-", "-01-", 1),
	"capitals":           strings.Replace(sample, "-3", "-AB", 1),
	"an unknown kind":    strings.Replace(sample, ".f-", ".x-", 1),
	"a long kind":        strings.Replace(sample, ".f-", ".ff-", 1),
}

const sample = "AAAAAAAAAAAAAAAAAAAAAAAAAA.BBBBBBBBBBBBBBBB.CCCCCCCCCCCCCCCC.f-1-2-3"

func TestParse(t *testing.T) {
	l, err := Parse(sample)
	if err != nil || l.String() != sample || l.ID != [3]uint64{1, 2, 3} {
		t.Errorf("%+v, %v", l, err)
	}
	for name, text := range hostile {
		if l, err := Parse(text); err == nil {
			t.Errorf("%s: %+v", name, l)
		}
	}
	l = Life{Name: strings.Repeat("7", nameLen), Machine: strings.Repeat("A", digestLen),
		Boot: strings.Repeat("B", digestLen), ID: [3]uint64{1<<64 - 1, 1<<64 - 1, 1<<64 - 1}}
	if got, err := Parse(l.String()); err != nil || got != l || len(l.String()) != maxText {
		t.Errorf("the longest has %d bytes of %d: %+v, %v", len(l.String()), maxText, got, err)
	}
}

// Any bytes, of LIVES or of a registry, are a life that says the same again, or an error.
func FuzzParse(f *testing.F) {
	f.Add(sample)
	for _, text := range hostile {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := Parse(text)
		if err == nil && l.String() != text {
			t.Errorf("%q is read as %q", text, l)
		}
	})
}

// Whatever LIVES holds, what is read of it are lives, the last ones, and only the very line that this
// directory would have written says that it has not moved.
func FuzzLIVES(f *testing.F) {
	own, err := Parse(sample)
	if err != nil {
		f.Fatal(err)
	}
	d := &Dir{own: own}
	f.Add(sample + " 7 9\n")
	f.Add(sample + " 7 9 moved\n")
	f.Add(strings.Repeat(sample+" 7 9\n", 2*maxLives))
	for _, text := range hostile {
		f.Add(text + " 7 9\n" + text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		past, here, _ := d.lines(text, 7)
		if len(past) > maxLives {
			t.Errorf("%d lives", len(past))
		}
		for _, e := range past {
			_, err := Parse(e.life)
			if err != nil || len(e.word) > maxWord || strings.ContainsAny(e.word, " \n") {
				t.Errorf("%q is a life, with %q", e.life, e.word)
			}
		}
		last := text[strings.LastIndexByte(strings.TrimSuffix(text, "\n"), '\n')+1:]
		fields := strings.Split(strings.TrimSuffix(last, "\n"), " ")
		if here && (len(past) == 0 || len(fields) < 3 || past[len(past)-1] != entry{fields[0], fields[2]} ||
			strings.TrimLeft(fields[1], "0") != "7") {
			t.Errorf("%q says that it is here", last)
		}
	})
}
