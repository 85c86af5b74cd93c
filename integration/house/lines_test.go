package house

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// lastColumn is the column at which lines of Go end, a tab counted as four columns.
const lastColumn = 110

// eachFile reads the repository's files whose names end so, of which there are at least so many.
func eachFile(t *testing.T, end string, least int, read func(path string, data []byte)) {
	files := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != "../..":
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, end):
			return nil
		}
		data, err := os.ReadFile(path)
		files++
		read(path, data)
		return err
	})
	if err != nil || files < least {
		t.Fatalf("%d files, %v", files, err)
	}
}

// Lines of Go end by column 110, but for data.
func TestLinesEnd(t *testing.T) {
	eachFile(t, ".go", 100, func(path string, data []byte) {
		for _, line := range tooLong(data) {
			t.Errorf("%s:%d ends beyond column %d", path, line, lastColumn)
		}
	})
	long := strings.Repeat("x", lastColumn)
	for code, want := range map[string]int{
		"package p\n\n// " + long + "\n":              3,
		"package p\n\nvar " + long + " int\n":         3,
		"package p\n\nvar a = \"" + long + "\"\n":     0,
		"package p\n\nvar a = `\n" + long + "\n\n`\n": 0,
		"package p\n\nvar " + long + " = \"a\"\n":     3,
	} {
		got := tooLong([]byte(code))
		if len(got) > 1 || len(got) == 1 && got[0] != want || len(got) == 0 && want != 0 {
			t.Errorf("%q: lines %v, want %d", code, got, want)
		}
	}
}

// riddle begins a comment that has its reader find out first what it speaks of: "X is one of them", "X is for
// those who", "X is whose it is", "X is what a task used". hides begins one of the last kind.
var (
	riddle = regexp.MustCompile(`^\s*// \w+ (is|are) (that[,.]|(of|for|whose|whom|both|such|by|to|that|in what|` +
		`at what|by how|for how|(all|one|those) of|all (that|there)|` +
		`(one|those) (that|to|with|without|at|where|in|who|whose|by))\b)`)
	hides = regexp.MustCompile(`^\s*// \w+ (is|are) (what|where|who|how (many|much))\b`)
)

// A comment says what a thing is or does.
func TestCommentsSayWhatAThingIs(t *testing.T) {
	eachFile(t, ".go", 100, func(path string, data []byte) {
		for _, line := range append(riddles(data, riddle), riddles(data, hides)...) {
			t.Errorf("%s:%d: say what it is or does", path, line)
		}
	})
	for comment, want := range map[string]bool{"// key is one of them.": true, "\t// sums are those of a fit": true,
		"// key is an API key.": false, "// one of them is a key": false, "// acks are those that wait.": true,
		"// client is whose a task is.": true, "// room is for what is late.": true, "// Roles are all of them.": true,
		"// Gain is that value less the cost.": true, "// refuses is that, and when.": true,
		"// Usage is what a task used.": false, "// keys says which\n// key is one of them.": false} {
		if got := len(riddles([]byte("package p\n\n"+comment+"\n"), riddle)) > 0; got != want {
			t.Errorf("%q is a riddle: %v, want %v", comment, got, want)
		}
	}
	if got := riddles([]byte("package p\n\n// Usage is what a task used.\n"), hides); len(got) != 1 {
		t.Errorf("of one line that hides what it speaks of %v are found", got)
	}
}

// riddles returns the lines in which a comment begins with a riddle of a kind.
func riddles(code []byte, kind *regexp.Regexp) (lines []int) {
	line, before := 0, ""
	for text := range strings.Lines(string(code)) {
		line++
		if kind.MatchString(text) && !strings.HasPrefix(strings.TrimSpace(before), "//") {
			lines = append(lines, line)
		}
		before = text
	}
	return lines
}

// tooLong returns the lines of Go code that go on beyond the last column and hold no data: no string, or part
// of one, of 30 bytes and more.
func tooLong(code []byte) (lines []int) {
	files := token.NewFileSet()
	file := files.AddFile("", -1, len(code))
	var s scanner.Scanner
	s.Init(file, code, nil, scanner.ScanComments)
	data := map[int]bool{}
	for {
		pos, kind, text := s.Scan()
		if kind == token.EOF {
			break
		}
		if kind == token.STRING {
			for i, part := range strings.Split(text, "\n") {
				data[file.Line(pos)+i] = data[file.Line(pos)+i] || len(part) >= 30
			}
		}
	}
	line := 0
	for text := range strings.Lines(string(code)) {
		line++
		text = strings.TrimRight(text, "\r\n")
		if utf8.RuneCountInString(text)+3*strings.Count(text, "\t") > lastColumn && !data[line] {
			lines = append(lines, line)
		}
	}
	return lines
}
