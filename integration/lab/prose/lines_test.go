package prose

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

var update = flag.Bool("update", false, "end the lines of the repository's pages")

// Lines of the repository's pages end by the last column, but for tables, comments, what stands between
// fences, and a word that is longer. With -update they are ended.
func TestLinesOfProseEnd(t *testing.T) {
	const root = "../../.."
	pages := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != root:
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".md"):
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		text := string(data)
		pages++
		if *update {
			text = Wrap(text)
			err = errors.Join(err, os.WriteFile(path, []byte(text), 0o644))
		}
		for _, line := range tooWide(text) {
			t.Errorf("%s:%d ends beyond column %d: go -C integration/lab test ./prose -update ends it, where "+
				"it is no code", path, line, LastColumn)
		}
		return err
	})
	if err != nil || pages < 20 {
		t.Fatalf("%d pages, %v", pages, err)
	}
	wide := strings.Repeat("a ", LastColumn)
	for page, want := range map[string]int{
		"# H\n\n" + wide: 3, "    " + wide: 1, "| " + wide: 0, "```\n" + wide + "\n```\nx": 0,
		"<!-- " + wide + "-->": 0, "x\n" + strings.Repeat("a", 2*LastColumn): 0,
	} {
		got := tooWide(page)
		if len(got) > 1 || len(got) == 1 && got[0] != want || len(got) == 0 && want != 0 {
			t.Errorf("%q: lines %v, want %d", page, got, want)
		}
	}
}

// tooWide returns the lines of a page that go on beyond the last column and could end before it.
func tooWide(page string) (lines []int) {
	fence, n := false, 0
	for line := range strings.Lines(page) {
		n++
		line = strings.TrimRight(line, "\n")
		text := strings.TrimSpace(line)
		if strings.HasPrefix(text, "```") {
			fence = !fence
		}
		data := fence || strings.HasPrefix(text, "|") || strings.HasPrefix(text, "<!--") ||
			!strings.Contains(text, " ")
		if !data && utf8.RuneCountInString(line) > LastColumn {
			lines = append(lines, n)
		}
	}
	return lines
}
