package compare

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"souk/integration/lab/page"
)

// Entry is a page of results, as the front page lists it.
type Entry struct {
	Name, About, Command string
	Clock                bool // by the clock, so its figures differ from run to run
	Standings            bool // it says how the market stands
}

// Front is the front page of a directory: how the market stands on each trace, losses first, from the pages
// that lie there, and the list of all pages.
func Front(dir string, entries []Entry) (*page.Page, error) {
	p := &page.Page{Name: "index", Title: "Results", Command: "lab pages"}
	var all []Standing
	var b strings.Builder
	var missing []string
	for _, e := range entries {
		if _, err := os.Stat(filepath.Join(dir, e.Name+".md")); err != nil {
			missing = append(missing, e.Name)
		}
		if !e.Standings {
			continue
		}
		var of []Standing
		if _, err := page.Load(dir, e.Name, &of); err != nil {
			return nil, err
		}
		for _, s := range of {
			s.Page = e.Name
			all = append(all, s)
		}
	}
	Sort(all)
	count := map[Verdict]int{}
	for i := range all {
		count[all[i].Verdict()]++
	}
	if len(all) > 0 {
		fmt.Fprintf(&b, "Of %d worlds the market loses %d, is level in %d and wins %d, beside the rule that does best in each. "+
			"All of it is on simulated engines, in virtual time, but for pages by the clock.\n", len(all), count[Loses],
			count[Level], count[Wins])
	}
	if missing != nil {
		fmt.Fprintf(&b, "\nNot made yet: %s.\n", strings.Join(missing, ", "))
	}
	for _, part := range []struct {
		is    Verdict
		title string
	}{{Loses, "Where the market loses"}, {Level, "Where nothing tells them apart"}, {Wins, "Where the market wins"}} {
		var of []Standing
		for _, s := range all {
			if s.Verdict() == part.is {
				of = append(of, s)
			}
		}
		if len(of) > 0 {
			fmt.Fprintf(&b, "\n## %s\n\n%s", part.title, Table(of, true))
		}
	}
	b.WriteString("\n## What this says\n\n" + explained + "\nWelfare is what answers were worth to who asked, as they were " +
		"served, less what they cost by the card. Who is refused has nothing. Each page says more of its worlds.\n" +
		"\n## Pages\n\n")
	var rows [][]string
	for _, e := range entries {
		again := "the same bytes again"
		if e.Clock {
			again = "by the clock"
		}
		if slices.Contains(missing, e.Name) {
			continue
		}
		rows = append(rows, []string{fmt.Sprintf("[%s](%s.md)", e.Name, e.Name), e.About, e.Command, again})
	}
	b.WriteString(page.Table([]string{"page", "what", "made by", "again"}, rows))
	b.WriteString("\nWhat is real in these worlds and what is assumed stands on each page. A rule is one file in " +
		"`integration/lab/virtual` that adds it: it then stands on every page that compares rules.\n")
	p.Text = b.String()
	return p, nil
}
