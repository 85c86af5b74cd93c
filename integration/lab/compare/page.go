package compare

import (
	"cmp"
	"fmt"
	"maps"
	"math"
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

// Table is of standings.
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

// billed is what was paid by the card; by the clock nobody counts that.
func billed(x float64) string {
	if x == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", x)
}

// everywhere is how each rule does in all worlds together.
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

// families are worlds that differ in load alone, in the order in which they were played.
func families(rows []virtual.Row) (all [][][]virtual.Row) {
	for _, world := range worlds(rows) {
		if n := len(all); n > 0 && familyOf(&all[n-1][0][0]) == familyOf(&world[0]) {
			all[n-1] = append(all[n-1], world)
		} else {
			all = append(all, [][]virtual.Row{world})
		}
	}
	return all
}

// familyOf is the name of a world without its load: the heading below which it stands.
func familyOf(r *virtual.Row) string {
	own := *r
	own.Load = 0
	return strings.TrimSpace(own.Trace + at(&own))
}

// anchor is where a heading is found, as GitHub and goldmark name it.
func anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		case r == ' ':
			return '-'
		}
		return -1
	}, strings.ToLower(heading))
}

// shown are the rows of a world that matter, by welfare or where that does not count by p99: the market, the
// three rules that do best, and the one whose p99 is least.
func shown(world []virtual.Row) (all []virtual.Row) {
	_, soonest := rivals(world)
	rules := 0
	for _, r := range ranked(world) {
		market := isMarket(r.Rule)
		if !market {
			rules++
		}
		if market || rules <= 3 || soonest != nil && r.Label() == soonest.Label() {
			all = append(all, r)
		}
	}
	return all
}

// ranked are the rows of a world, those that do best first.
func ranked(world []virtual.Row) []virtual.Row {
	all := slices.Clone(world)
	slices.SortStableFunc(all, func(a, b virtual.Row) int {
		if world[0].Seeds[0].Uncounted {
			return cmp.Compare(a.All["p99"].Mean, b.All["p99"].Mean)
		}
		return cmp.Compare(b.All["welfare"].Mean, a.All["welfare"].Mean)
	})
	return all
}

// left are columns that stand in no table of a page, beside which others say as much.
var left = []string{"tasks/s", "quality"}

// family writes what worlds that differ in load alone come to. below says that its heading stands below
// another.
func family(p *page.Page, b *strings.Builder, of [][]virtual.Row, below bool) {
	level := "##"
	if below {
		level = "###"
	}
	first := of[0][0]
	var rates []string
	for _, world := range of {
		if r := &world[0]; r.Load > 0 {
			rates = append(rates, fmt.Sprintf("%.2f (%.2f a second)", r.Load, r.Rate))
		}
	}
	first.Load = 0
	if rates != nil {
		first.Rate = 0
	}
	_, about, _ := strings.Cut(first.Title(), ": ")
	if rates != nil {
		about += "; dialogues begin at random, at " + strings.Join(rates, ", ") + " of what the engines can serve"
	}
	fmt.Fprintf(b, "\n%s %s\n\nPlayed are %s.\n", level, familyOf(&of[0][0]), about)
	heading := []string{"rule"}
	if rates != nil {
		heading = []string{"load", "rule"}
	}
	for _, c := range virtual.Columns {
		if !slices.Contains(left, c.Name) {
			heading = append(heading, c.Name)
		}
	}
	var cells [][]string
	for _, world := range of {
		for _, r := range shown(world) {
			var line []string
			if rates != nil {
				line = append(line, fmt.Sprintf("%.2f", r.Load))
			}
			line = append(line, r.Label())
			for _, c := range virtual.Columns {
				if !slices.Contains(left, c.Name) {
					line = append(line, cell(&r, c))
				}
			}
			cells = append(cells, line)
		}
	}
	b.WriteString("\n" + page.Table(heading, cells))
	for _, plot := range plotsOf(of) {
		if !drawn(&plot) {
			continue // as where nobody was served
		}
		place := fmt.Sprint(len(p.Plots) + 1)
		p.Plots[place] = plot
		b.WriteString(page.Place(place))
	}
	place := fmt.Sprint(len(p.Folds) + 1)
	p.Folds[place] = page.Fold{Title: "All rules", Text: allOf(of)}
	b.WriteString(page.FoldPlace(place))
	tempers(b, of)
}

// allOf is a table of all rules in worlds that differ in load alone.
func allOf(of [][]virtual.Row) string {
	heading := []string{"rule"}
	var cells [][]string
	line := map[string]int{}
	for k, world := range of {
		at := ""
		if world[0].Load > 0 {
			at = fmt.Sprintf(" at %.2f", world[0].Load)
		}
		heading = append(heading, "welfare"+at, "p99"+at, "refused"+at)
		for _, r := range ranked(world) {
			i, known := line[r.Rule]
			if !known {
				i = len(cells)
				line[r.Rule], cells = i, append(cells, []string{r.Rule})
			}
			for len(cells[i]) < 1+3*k {
				cells[i] = append(cells[i], "")
			}
			for _, c := range virtual.Columns {
				switch c.Name {
				case "welfare", "p99", "refused":
					said := cell(&r, c)
					if c.Name == "welfare" && r.Knob != "" {
						said += " (" + r.Knob[len(r.Rule)+1:] + ")"
					}
					cells[i] = append(cells[i], said)
				}
			}
		}
	}
	return page.Table(heading, cells)
}

// plotsOf are of welfare and of first tokens: in one world of its rows that matter, over several loads of the
// market and of the rules that are the best or the soonest at one of them.
func plotsOf(of [][]virtual.Row) []page.Plot {
	if len(of) == 1 {
		welfare := page.Plot{Title: "Welfare a second, thousandths of a credit"}
		waits := page.Plot{Title: "p99 of first tokens, ms", LogY: true}
		for _, r := range shown(of[0]) {
			w, p99 := r.All["welfare"], r.All["p99"]
			welfare.Put(r.Label(), "", w.Mean, w.Within)
			waits.Put(r.Label(), "", p99.Mean, p99.Within)
		}
		if of[0][0].Seeds[0].Uncounted {
			return []page.Plot{waits}
		}
		return []page.Plot{welfare, waits}
	}
	const load = "load, of what the engines can serve"
	welfare := page.Plot{Title: "Welfare beside the best rule's, %", X: load}
	waits := page.Plot{Title: "p99 of first tokens, ms", X: load, LogY: true}
	names := []string{}
	for _, world := range of {
		best, soonest := rivals(world)
		for _, r := range []*virtual.Row{best, soonest} {
			if r != nil && !slices.Contains(names, r.Rule) {
				names = append(names, r.Rule)
			}
		}
		for i := range world {
			if rule := world[i].Rule; isMarket(rule) && !slices.Contains(names, rule) {
				names = slices.Insert(names, 0, rule)
			}
		}
	}
	for _, world := range of {
		best, soonest := rivals(world)
		for i := range world {
			r := &world[i]
			if !slices.Contains(names, r.Rule) {
				continue
			}
			p99 := r.All["p99"]
			waits.Of(r.Rule).Add(r.Load, p99.Mean, p99.Within)
			if best != nil {
				s := standing(r, best, soonest, false)
				welfare.Of(r.Rule).Add(r.Load, s.More, s.Within)
			}
		}
	}
	for _, plot := range []*page.Plot{&welfare, &waits} {
		slices.SortStableFunc(plot.Series, func(a, b page.Series) int {
			return slices.Index(names, a.Name) - slices.Index(names, b.Name)
		})
	}
	return []page.Plot{welfare, waits}
}

// drawn says whether a plot has a point that its scale can show.
func drawn(plot *page.Plot) bool {
	can := func(p page.Point) bool { return !plot.LogY || p.Y > 0 }
	return len(plot.Series) > 0 && slices.ContainsFunc(plot.Series[0].Points, can)
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

// tempers says what callers of each temper had of the market, and of the rule that does best.
func tempers(b *strings.Builder, of [][]virtual.Row) {
	var cells [][]string
	for _, world := range of {
		best, _ := rivals(world)
		for _, r := range ranked(world) {
			if !isMarket(r.Rule) && (best == nil || r.Label() != best.Label()) {
				continue
			}
			who := r.Label()
			if r.Load > 0 {
				who = fmt.Sprintf("%.2f, %s", r.Load, who)
			}
			for _, name := range slices.Sorted(maps.Keys(r.Tempers)) {
				t := r.Tempers[name]
				cells = append(cells, []string{who, name,
					fmt.Sprintf("%.2f ± %.2f", t["welfare"].Mean, t["welfare"].Within),
					fmt.Sprintf("%.0f", t["p50"].Mean),
					fmt.Sprintf("%.0f ± %.0f", t["p99"].Mean, t["p99"].Within),
					fmt.Sprintf("%.0f", t["longest"].Mean),
					fmt.Sprintf("%.3f", t["refused"].Mean), fmt.Sprintf("%.2f", t["bill"].Mean)})
			}
		}
	}
	if len(cells) > 0 {
		b.WriteString("\nBy temper, welfare of a task:\n\n" + page.Table([]string{"rule", "temper", "welfare", "p50",
			"p99", "longest", "refused", "bill"}, cells))
	}
}
