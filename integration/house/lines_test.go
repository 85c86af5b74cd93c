package house

import (
	"bytes"
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

// lastColumn is where lines of Go end, a tab counted as four columns.
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

// A comment says what a thing is or does. One that begins "X is one of them" or "X are those of Y" has its
// reader find out first what they are.
func TestCommentsSayWhatAThingIs(t *testing.T) {
	riddle := regexp.MustCompile(`(?m)^\s*// \w+ (is|are) ((one|those|that) of|(one|those) (that|to|with|without|at|where|in))\b`)
	eachFile(t, ".go", 100, func(path string, data []byte) {
		for _, at := range riddle.FindAllIndex(data, -1) {
			t.Errorf("%s:%d: %s ...: say what it is or does",
				path, 1+bytes.Count(data[:at[0]], []byte("\n")), bytes.TrimSpace(data[at[0]:at[1]]))
		}
	})
	for comment, want := range map[string]bool{"// key is one of them.": true, "\t// sums are those of a fit": true,
		"// key is an API key.": false, "// one of them is a key": false,
		"// acks are those that wait.": true} {
		if riddle.MatchString(comment) != want {
			t.Errorf("%q is a riddle: %v, want %v", comment, !want, want)
		}
	}
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
