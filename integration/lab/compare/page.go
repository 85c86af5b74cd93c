package compare

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"souk/integration/lab/page"
	"souk/integration/lab/virtual"
)

// Made is what a page of comparisons is made of.
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

// Page has how the market stands, losses first, and below it a table and plots of each world.
func (m *Made) Page() *page.Page {
	standings := Standings(m.Rows)
	p := &page.Page{Name: m.Name, Title: m.Title, Command: m.Command, Clock: m.Clock,
		Plots: map[string]page.Plot{}, Figures: standings}
	var b strings.Builder
	b.WriteString(m.About + "\n")
	if len(standings) > 0 {
		b.WriteString("\n## How the market stands\n\n" + explained + "\n" + Table(standings, false))
	}
	b.WriteString("\n## What the columns say\n\n```\n" + virtual.Legend + "```\n")
	for _, s := range append([]Section{{Rows: m.Rows}}, m.Sections...) {
		if s.Title != "" {
			fmt.Fprintf(&b, "\n## %s\n\n%s\n", s.Title, s.About)
		}
		for _, of := range worlds(s.Rows) {
			world(p, &b, of, s.Title != "")
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

// Table is of standings; with says that each names its page.
func Table(all []Standing, with bool) string {
	heading := []string{"world", "the market", "more", "best rule", "p99 ms", "its p99", "soonest rule",
		"bill"}
	var rows [][]string
	for i := range all {
		s := &all[i]
		where, who := s.World, string(s.Verdict())
		if s.Market != virtual.MarketName {
			who = s.Market + " " + who
		}
		if with {
			where = fmt.Sprintf("[%s](%s.md): %s", s.Page, s.Page, s.World)
		}
		more := fmt.Sprintf("%+.1f ± %.1f %%", s.More, s.Within)
		if s.Waits {
			more = "-"
		}
		if s.Verdict() == Loses {
			who = "**" + who + "**"
		}
		rows = append(rows, []string{where, who, more, s.Best, fmt.Sprintf("%.0f", s.P99),
			fmt.Sprintf("%.0f", s.RivalP99), fmt.Sprintf("%s, %.0f", s.Soonest, s.LeastP99),
			fmt.Sprintf("%.2f", s.Bill)})
	}
	return page.Table(heading, rows)
}

// world writes what one comes to. below says that its heading stands below another.
func world(p *page.Page, b *strings.Builder, rows []virtual.Row, below bool) {
	level := "##"
	if below {
		level = "###"
	}
	name, about, _ := strings.Cut(rows[0].Title(), ": ")
	fmt.Fprintf(b, "\n%s %s\n\nPlayed are %s.\n", level, strings.TrimSpace(name+at(&rows[0])), about)
	heading := []string{"rule"}
	for _, c := range virtual.Columns {
		heading = append(heading, c.Name)
	}
	var cells [][]string
	welfare := page.Plot{Title: "Welfare a second, thousandths of a credit"}
	waits := page.Plot{Title: "p99 of first tokens, ms", LogY: true}
	for i := range rows {
		r := &rows[i]
		line := []string{r.Label()}
		for _, c := range virtual.Columns {
			line = append(line, cell(r, c))
		}
		cells = append(cells, line)
		w, p99 := r.All["welfare"], r.All["p99"]
		welfare.Put(r.Label(), "", w.Mean, w.Within)
		waits.Put(r.Label(), "", p99.Mean, p99.Within)
	}
	b.WriteString("\n" + page.Table(heading, cells))
	plots := []page.Plot{welfare, waits}
	if rows[0].Seeds[0].Uncounted {
		plots = plots[1:]
	}
	for _, plot := range plots {
		if !drawn(&plot) {
			continue // as where nobody was served
		}
		place := fmt.Sprintf("%d", len(p.Plots)+1)
		p.Plots[place] = plot
		b.WriteString(page.Place(place))
	}
	tempers(b, rows)
}

// drawn says whether a plot has a point that its scale can show.
func drawn(plot *page.Plot) bool {
	shown := func(p page.Point) bool { return !plot.LogY || p.Y > 0 }
	return slices.ContainsFunc(plot.Series[0].Points, shown)
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

func cell(r *virtual.Row, c virtual.Column) string {
	e := r.All[c.Name]
	if c.Name == "welfare" && r.Seeds[0].Uncounted {
		return "-"
	}
	said := strconv.FormatFloat(e.Mean, 'f', c.Digits, 64)
	if len(r.Seeds) > 1 {
		said += " ± " + strconv.FormatFloat(e.Within, 'f', c.Digits, 64)
	}
	return said
}

// tempers says what callers of each temper had.
func tempers(b *strings.Builder, rows []virtual.Row) {
	var cells [][]string
	for i := range rows {
		var names []string
		for name := range rows[i].Tempers {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			t := rows[i].Tempers[name]
			cells = append(cells, []string{rows[i].Label(), name,
				fmt.Sprintf("%.2f ± %.2f", t["welfare"].Mean, t["welfare"].Within),
				fmt.Sprintf("%.0f ± %.0f", t["p50"].Mean, t["p50"].Within),
				fmt.Sprintf("%.0f ± %.0f", t["p99"].Mean, t["p99"].Within),
				fmt.Sprintf("%.0f", t["longest"].Mean),
				fmt.Sprintf("%.3f", t["refused"].Mean), fmt.Sprintf("%.2f", t["bill"].Mean)})
		}
	}
	if len(cells) > 0 {
		b.WriteString("\nBy temper, welfare of a task:\n\n" + page.Table([]string{"rule", "temper", "welfare", "p50",
			"p99", "longest", "refused", "bill"}, cells))
	}
}
