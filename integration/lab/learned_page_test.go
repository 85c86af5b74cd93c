package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"souk/integration/lab/learned"
)

// The page has every router beside the best single model of each set, counts what was left out, and has
// the routers as rivals in both worlds; the same command makes the same bytes.
func TestThePageOfRouters(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	var pages []string
	for range 2 {
		dir := t.TempDir()
		lab := root()
		lab.SetArgs([]string{"routers", "--seeds", "1", "--tasks", "40", "--out", dir})
		lab.SetOut(io.Discard)
		lab.SetErr(io.Discard)
		if err := lab.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		page, err := os.ReadFile(filepath.Join(dir, "routers.md"))
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, string(page))
	}
	if pages[0] != pages[1] {
		t.Error("the same command makes other bytes")
	}
	for want, times := range map[string]int{"\n| best single model |": 3, "\n| oracle |": 3,
		"| 0.9 | market |": 2,
		"| 0.6 | best |":   2, "\n| llmrouter | 3776 | 0 | 0 | 0 | 927 | 0 |\n": 1,
		"\n| routerarena | 519 | 0 | 0 | 0 | 0 | 2 |\n": 1} {
		if got := strings.Count(pages[0], want); got != times {
			t.Errorf("%q stands there %d times, want %d:\n%s", want, got, times, pages[0])
		}
	}
	for _, name := range learned.Names() {
		if n := strings.Count(pages[0], "\n| "+name+" | 0."); n != 3 {
			t.Errorf("%s is judged %d times, want 3", name, n)
		}
		if n := strings.Count(pages[0], "| 0.9 | "+name); n != 2 {
			t.Errorf("%s is played in %d worlds, want 2", name, n)
		}
	}
}

// What is said of routers is what their intervals say.
func TestSaid(t *testing.T) {
	lines := []learned.Line{{Who: "a", Router: true, More: 0.05, MoreLow: 0.01, MoreHigh: 0.1},
		{Who: "b", Router: true, More: 0.01, MoreLow: -0.01, MoreHigh: 0.1},
		{Who: "c", Router: true, More: -0.05, MoreLow: -0.1, MoreHigh: -0.01}, {Who: learned.Oracle,
			More: 0.2}}
	want := "Above the best single model: a. Not told from it: b. Below it: c. The best of them goes 25 % of the way to " +
		"who knows all answers.\n"
	if got := said(lines); got != want {
		t.Error(got)
	}
	if got := said(lines[2:]); got != "Below it: c.\n" {
		t.Error(got)
	}
}
