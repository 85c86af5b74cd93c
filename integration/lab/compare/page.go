package compare

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"souk/integration/lab/page"
	"souk/integration/lab/virtual"
)

// Made holds the content of a page of comparisons.
type Made struct {
	Name, Title, Command, About string
	Clock                       string
	Rows                        []virtual.Row
	Sections                    []Section
}

// Section is further worlds, below a heading of their own; what they have does not count for the standings.
type Section struct {
	Title, About string
	Rows         []virtual.Row
}

// Page has how the market stands, losses first, how each rule does in all worlds together, and below it a
// table and plots of each world. Worlds that differ in load alone stand together.
func (m *Made) Page() *page.Page {
	standings := Standings(m.Rows)
	p := &page.Page{Name: m.Name, Title: m.Title, Command: m.Command, Clock: m.Clock,
		Plots: map[string]page.Plot{}, Folds: map[string]page.Fold{}, Figures: standings}
	var b strings.Builder
	b.WriteString(m.About + "\n")
	if len(standings) > 0 {
		b.WriteString("\n## How the market stands\n\n" + explained + "\n" + Table(standings))
	}
	b.WriteString(silent(m.Rows))
	b.WriteString("\n## How every rule does\n\n" + everywhereAbout + "\n" + everywhere(m.Rows))
	b.WriteString("\n## What the columns say\n\n" + columnsAbout + "\n```\n" + virtual.Legend + "```\n")
	for _, s := range append([]Section{{Rows: m.Rows}}, m.Sections...) {
		if s.Title != "" {
			fmt.Fprintf(&b, "\n## %s\n\n%s\n", s.Title, s.About)
		}
		for _, of := range families(s.Rows) {
			family(p, &b, of, s.Title != "")
		}
	}
	p.Text = b.String()
	return p
}

const explained = `Beside the rule of greatest welfare in each world, with its knob where that is best. **more** is the market's
welfare a second against that rule's, from runs of the same seeds, ± half of the 95 % interval. Where that does
not tell the two apart, the p99 of first tokens does, if it is a tenth apart; but who has less on the mean does
not win by that. **bill** is what clients of the market pay by the card; under a rule they pay the card, or what
it posts.
`

const everywhereAbout = `The means of all worlds above: what a rule's welfare is less than the greatest there, of all rules and the
market, and in how many worlds nobody has more, of those whose welfare counts; its p99 by the least there (the
geometric mean); refused tasks; and what clients pay, by the card. A rule with a knob has the value that is best
in each world.
`

const columnsAbout = `A table has the market, the three rules of greatest welfare there (of least p99 where welfare does not count) and
the one whose p99 is least; all others stand in the HTML, and every figure of every run in ` + "`--json`" + `.
`

// Table writes standings as a table.
func Table(all []Standing) string {
	heading := []string{"world", "the market", "more", "best rule", "p99 ms", "its p99", "soonest rule",
		"bill"}
	var rows [][]string
	for i := range all {
		s := &all[i]
		who := string(s.Verdict())
		if s.Market != virtual.MarketName {
			who = s.Market + " " + who
		}
		if s.Verdict() == Loses {
			who = "**" + who + "**"
		}
		rows = append(rows, []string{s.link(), who, s.more(), s.Best, fmt.Sprintf("%.0f", s.P99),
			fmt.Sprintf("%.0f", s.RivalP99), fmt.Sprintf("%s, %.0f", s.Soonest, s.LeastP99), billed(s.Bill)})
	}
	return page.Table(heading, rows)
}

// link leads to where the world stands: on this page, or on the one that the standing names.
func (s *Standing) link() string {
	if s.Page == "" {
		return fmt.Sprintf("[%s](#%s)", s.World, s.Anchor)
	}
	return fmt.Sprintf("[%s: %s](%s.md#%s)", s.Page, s.World, s.Page, s.Anchor)
}

func (s *Standing) more() string {
	if s.Waits {
		return "-"
	}
	if s.Once {
		return fmt.Sprintf("%+.1f %%", s.More)
	}
	return fmt.Sprintf("%+.1f ± %.1f %%", s.More, s.Within)
}

// billed formats the payments as a multiple of the card; not measured by the clock.
func billed(x float64) string {
	if x == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", x)
}

// everywhere sums up each rule over all worlds together.
func everywhere(rows []virtual.Row) string {
	type sums struct{ worlds, counted, less, best, later, refused, bill float64 }
	of := map[string]*sums{}
	var names []string
	for _, world := range worlds(rows) {
		most, soonest := math.Inf(-1), math.Inf(1)
		for i := range world {
			most = max(most, world[i].All["welfare"].Mean)
			soonest = min(soonest, world[i].All["p99"].Mean)
		}
		for i := range world {
			r := &world[i]
			s := of[r.Rule]
			if s == nil {
				s = &sums{}
				of[r.Rule], names = s, append(names, r.Rule)
			}
			s.worlds++
			s.later += math.Log(max(1, r.All["p99"].Mean) / max(1, soonest))
			s.refused += r.All["refused"].Mean
			s.bill += r.All["bill"].Mean
			if world[0].Seeds[0].Uncounted || most <= 0 {
				continue
			}
			s.counted++
			s.less += min(100, 100*(1-r.All["welfare"].Mean/most))
			if r.All["welfare"].Mean == most {
				s.best++
			}
		}
	}
	slices.SortStableFunc(names, func(a, b string) int {
		x, y := of[a], of[b]
		return cmp.Or(cmp.Compare(x.less/max(1, x.counted), y.less/max(1, y.counted)),
			cmp.Compare(x.later/x.worlds, y.later/y.worlds))
	})
	var cells [][]string
	for _, name := range names {
		s := of[name]
		less := "-"
		if s.counted > 0 {
			less = fmt.Sprintf("%.1f %%", s.less/s.counted)
		}
		cells = append(cells, []string{name, less, fmt.Sprintf("%.0f of %.0f", s.best, s.counted),
			fmt.Sprintf("%.2f", math.Exp(s.later/s.worlds)), fmt.Sprintf("%.3f", s.refused/s.worlds),
			billed(s.bill / s.worlds)})
	}
	return page.Table([]string{"rule", "welfare less by", "nobody has more", "p99 by the least", "refused",
		"bill"}, cells)
}

// at says how fast tasks come, for the heading.
func at(r *virtual.Row) string {
	said := ""
	if r.Load > 0 {
		said = fmt.Sprintf(" at %.2f", r.Load)
	}
	if r.Loop > 0 {
		said = fmt.Sprintf(", %d callers", r.Loop)
	}
	if r.Fleet != "" && r.Fleet != virtual.Fleets[0].Name {
		said += ", " + r.Fleet
	}
	if r.Terms != "" {
		said += ", " + string(r.Terms)
	}
	if r.Callers == virtual.OneKey {
		said += ", one key"
	}
	return said
}

// cell is a mean; of welfare and p99 with its interval.
func cell(r *virtual.Row, c virtual.Column) string {
	e := r.All[c.Name]
	switch {
	case c.Name == "welfare" && r.Seeds[0].Uncounted:
		return "-"
	case c.Name == "bill" || c.Name == "dearest":
		return billed(e.Mean)
	}
	said := strconv.FormatFloat(e.Mean, 'f', c.Digits, 64)
	if len(r.Seeds) > 1 && (c.Name == "welfare" || c.Name == "p99") {
		said += " ± " + strconv.FormatFloat(e.Within, 'f', c.Digits, 64)
	}
	return said
}
