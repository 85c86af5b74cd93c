package compare

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"souk/integration/lab/page"
	"souk/integration/lab/virtual"
)

// Entry is a page of results, as the front page lists it.
type Entry struct {
	Name, About, Command string
	Clock                bool // by the clock, so its figures differ from run to run
	Standings            bool // it says how the market stands
	Gives                bool // its figures are a [Figure]
}

// Figure is a picture that a page gives to the front page, with what it says.
type Figure struct {
	Text string    `json:"text"`
	Plot page.Plot `json:"plot"`
}

// Front is the front page of a directory: a figure, how the market stands on each trace, losses first, from
// the pages that lie there, and the list of all pages.
func Front(dir string, entries []Entry) (*page.Page, error) {
	p := &page.Page{Name: "index", Title: "Results", Command: "lab pages", Plots: map[string]page.Plot{}}
	var all []Standing
	var b strings.Builder
	var missing []string
	for _, e := range entries {
		if _, err := os.Stat(filepath.Join(dir, e.Name+".md")); err != nil {
			missing = append(missing, e.Name)
		}
		if e.Gives {
			var f Figure
			ok, err := page.Load(dir, e.Name, &f)
			if err != nil {
				return nil, err
			}
			if ok {
				p.Plots[e.Name] = f.Plot
				b.WriteString(f.Text + page.Place(e.Name))
			}
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
	worlds, count := 0, map[Verdict]int{} // of the market as it is delivered
	for i := range all {
		if all[i].Market == virtual.MarketName {
			worlds++
			count[all[i].Verdict()]++
		}
	}
	if len(all) > 0 {
		fmt.Fprintf(&b, "Of %d worlds the market loses %d, is level in %d and wins %d, as it is delivered and beside the rule "+
			"that does best in each. All of it is on simulated engines, in virtual time, but for pages by the clock.\n",
			worlds, count[Loses], count[Level], count[Wins])
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
			fmt.Fprintf(&b, "\n## %s\n\n%s", part.title, Table(of))
		}
		if part.is == Loses && len(all) > 0 {
			b.WriteString("\n## By trace\n\nHow often the market loses on each trace, over loads, fleets and terms, and " +
				"by how much at the worst and at the best.\n\n" + byTrace(all))
		}
	}
	b.WriteString("\n## What this says\n\n" + explained + "\nWelfare is what answers were worth to who asked, as they were " +
		"served, less what they cost by the card. Who is refused has nothing. Each page says more of its worlds.\n" +
		"\n## Pages\n\n")
	pages := func(clock bool) (rows [][]string) {
		for _, e := range entries {
			if e.Clock == clock && !slices.Contains(missing, e.Name) {
				rows = append(rows, []string{fmt.Sprintf("[%s](%s.md)", e.Name, e.Name), e.About, e.Command})
			}
		}
		return rows
	}
	b.WriteString(page.Table([]string{"page", "what", "made by"}, pages(false)))
	if clocks := pages(true); clocks != nil {
		b.WriteString("\nBy the clock, so that figures differ from run to run and by the machine:\n\n" +
			page.Table([]string{"page", "what", "made by"}, clocks))
	}
	b.WriteString("\nWhat is real in these worlds and what is assumed stands on each page. A rule is one file in " +
		"`integration/lab/virtual` that adds it: it then stands on every page that compares rules.\n")
	p.Text = b.String()
	return p, nil
}

// byTrace says of each trace how often the market loses on it, and by how much at the worst and at the best.
func byTrace(all []Standing) string {
	of := map[string][]*Standing{}
	var traces []string
	for i := range all { // losses first, the greatest of them before the others
		s := &all[i]
		if s.Market != virtual.MarketName {
			continue
		}
		if of[s.Trace] == nil {
			traces = append(traces, s.Trace)
		}
		of[s.Trace] = append(of[s.Trace], s)
	}
	beside := func(s *Standing) string {
		if s.Waits {
			return fmt.Sprintf("p99 %.0f ms, %s %.0f", s.P99, s.Best, s.RivalP99)
		}
		return s.more() + " beside " + s.Best
	}
	var rows [][]string
	for _, trace := range traces {
		count, least, most := map[Verdict]int{}, of[trace][0], of[trace][0]
		for _, s := range of[trace] {
			count[s.Verdict()]++
			if s.More < least.More {
				least = s
			}
			if s.More > most.More {
				most = s
			}
		}
		better := ""
		if most != least {
			better = beside(most)
		}
		rows = append(rows, []string{trace, fmt.Sprint(count[Loses]), fmt.Sprint(count[Level]),
			fmt.Sprint(count[Wins]), beside(least), better})
	}
	return page.Table([]string{"trace", "loses", "level", "wins", "the market's welfare at the worst",
		"at the best"}, rows)
}
