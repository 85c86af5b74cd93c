package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"souk/integration/lab/compare"
	"souk/integration/lab/papers"
)

// Every page is made by a command that there is, with flags that it has, and stands on the front page.
func TestPagesHaveTheirCommands(t *testing.T) {
	for _, p := range pageCommands {
		c, rest, err := root().Find(append(p.args[:len(p.args):len(p.args)], "--out", "x"))
		if err != nil {
			t.Errorf("%s: %v", p.name, err)
			continue
		}
		if err := c.ParseFlags(rest); err != nil || c.Flags().NArg() > 0 {
			t.Errorf("lab %s: %v, and %q", strings.Join(p.args, " "), err, c.Flags().Args())
		}
		if !slices.ContainsFunc(entries, func(e compare.Entry) bool { return e.Name == p.name }) {
			t.Errorf("%s is not on the front page", p.name)
		}
	}
	for _, e := range entries {
		made := slices.ContainsFunc(pageCommands, func(p pageCommand) bool { return p.name == e.Name })
		apart := []string{"bench", "load", "engines", "fit", "servers"} // some of them need running servers
		if made == slices.Contains(apart, e.Name) {
			t.Errorf("%s: made by lab pages: %v", e.Name, made)
		}
	}
}

// The pages that are made of other pages are what these make of them.
func TestPagesOfPagesAreOfThosePages(t *testing.T) {
	const dir = "../results"
	list, err := papers.Page(dir)
	if err != nil {
		t.Fatal(err)
	}
	first, err := compare.Front(dir, entries)
	if err != nil {
		t.Fatal(err)
	}
	for name, is := range map[string]string{"papers.md": list.Markdown(), "README.md": first.Markdown()} {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(text) != is {
			t.Errorf("%s is not of the pages beside it, %v: lab experiment papers --out integration/results", name, err)
		}
	}
}

// Parts are named by one flag in every command that has some.
func TestOneNameForOneFlag(t *testing.T) {
	for _, c := range root().Commands() {
		for _, old := range []string{"rules", "panels", "streams", "lies", "traces", "page", "csv"} {
			if c.Flags().Lookup(old) != nil {
				t.Errorf("lab %s --%s: parts are named by --only", c.Name(), old)
			}
		}
	}
}
