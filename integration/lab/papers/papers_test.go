package papers

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const sample = "# A page\n\n## Part one: of three\n\n| rule | load | figure |\n|---|---|--:|\n| `a` | 1 | **4.5** ± 0.1 |\n" +
	"| a | 2 | -3 |\n\ntext | with a bar\n\n| rule | load | figure |\n|---|---|---|\n| a | 1 | 9 \\| x |\n\n## Part two\n\n" +
	"| rule | figure |\n|---|---|\n| a | not made |\n"

func write(t *testing.T, name, text string) *pages {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name+".md"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return &pages{dir: dir, of: map[string][]table{}}
}

// A cell is found by its page, heading, row and column, and not where one of these is another's.
func TestCellsOfPages(t *testing.T) {
	p := write(t, "one", sample)
	for _, c := range []struct {
		ref           Ref
		cell, section string
	}{
		{Ref{Page: "one", Section: "Part one", Column: "figure", Row: "a | 1"}, "4.5 ± 0.1",
			"Part one: of three"},
		{Ref{Page: "one", Section: "Part one", Column: "figure", Row: "2"}, "-3",
			"Part one: of three"},
		{Ref{Page: "one", Section: "Part one", Column: "figure", Row: "a | 1", After: 1}, "9 | x",
			"Part one: of three"},
		{Ref{Page: "one", Column: "figure", Row: "a", After: 2}, "not made", "Part two"},
		{Ref{Page: "one", Section: "Part one", Column: "figure", Row: "1 | a"}, "", ""},
		{Ref{Page: "one", Section: "Part one", Column: "other", Row: "a"}, "", ""},
		{Ref{Page: "one", Section: "Part three", Column: "figure", Row: "a"}, "", ""},
		{Ref{Page: "two", Section: "Part one", Column: "figure", Row: "a"}, "", ""},
	} {
		cell, section, err := p.find(c.ref)
		if cell != c.cell || section != c.section || err != nil {
			t.Errorf("%+v: %q under %q, %v; want %q under %q", c.ref, cell, section, err, c.cell, c.section)
		}
	}
}

// A claim holds, or does not, by the numbers that its page has; what the page lacks, or says is not made, is
// said so, and a judged cell without a number is an error.
func TestWhetherAClaimHolds(t *testing.T) {
	p := write(t, "one", sample)
	of := func(row string) []Ref { return cells("one", "Part one", "figure", row) }
	above := func(than float64) func([]float64) bool { return func(x []float64) bool { return x[0] > than } }
	for want, c := range map[string]Claim{
		holds:   {Ours: of("a | 1"), Held: above(4)},
		fails:   {Ours: of("a | 2"), Held: above(-3)},
		nothing: {Ours: of("a | 1")},
		absent:  {Ours: of("b"), Held: above(0)},
		notMade: {Why: "nobody measured it"},
		drawing: {Drawing: true},
	} {
		if _, held, _, err := p.say(&c); held != want || err != nil {
			t.Errorf("%+v: %q, %v; want %q", c.Ours, held, err, want)
		}
	}
	c := Claim{Ours: cells("one", "Part one", "rule", "a"), Held: above(0)}
	if _, _, _, err := p.say(&c); err == nil || !strings.Contains(err.Error(), "no number") {
		t.Errorf("a judged word: %v", err)
	}
	if _, held, where, _ := p.say(&Claim{Ours: of("a | 1"), Command: "lab x"}); held != nothing ||
		where != "[one](one.md#part-one-of-three): `lab x`" {
		t.Errorf("it stands at %q", where)
	}
}

// The pages in this repository have every cell that the page of papers names, and the page has every router,
// experiment and policy of the papers. A directory without pages makes one, too.
func TestThePapersAreOnThePage(t *testing.T) {
	p, err := Page("../../results")
	if err != nil {
		t.Fatal(err)
	}
	text := p.Markdown()
	for _, line := range strings.Split(text, "\n") {
		if strings.Contains(line, absent) {
			t.Errorf("a page lacks a cell that is named here: make it anew, or name another: %s", line)
		}
	}
	var names []string
	for _, paper := range Papers {
		for _, c := range paper.Claims {
			names = append(names, c.Part+" "+c.What)
			if len(c.Ours) == 0 && c.Why == "" && !c.Drawing {
				t.Errorf("%s, %s: it is not made, and nothing says why", paper.Name, c.Part)
			}
		}
	}
	all := strings.Join(names, "\n")
	for _, want := range []string{"GraphRouter", "GMTRouter", "MFRouter", "RouterDC", "Random", "IEMAS",
		"Fig. 5", "Fig. 6",
		"Fig. 7", "Experiment 1", "Experiment 2", "Experiment 3", "Experiment 4a", "Experiment 4b",
		"KV cache", "memoization",
		"batch shaping", "P/D", "speculative", "adapters", "fairness", "guardrails", "hedging", "Fig. 4a",
		"Fig. 4b",
		"Fig. 4c"} {
		if !strings.Contains(all, want) {
			t.Errorf("%s is not on the page", want)
		}
	}
	for _, row := range []string{"Table 1 | IEMAS finds most", "Fig. 3 | its trees' NMAE of quality",
		"Fig. 4 | IEMAS has most welfare"} {
		_, after, there := strings.Cut(text, "\n| "+row)
		after, _, _ = strings.Cut(after, "\n")
		plot := strings.Contains(after, ", with a plot: ")
		if !there || plot != strings.HasPrefix(row, "Fig.") {
			t.Errorf("%s: there %v, with a plot %v", row, there, plot)
		}
	}
	empty, err := Page(t.TempDir())
	if err != nil || !slices.Contains(strings.Fields(empty.Markdown()), "papers") {
		t.Errorf("without pages: %v", err)
	}
}
