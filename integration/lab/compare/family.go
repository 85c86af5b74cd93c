package compare

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"souk/integration/lab/page"
	"souk/integration/lab/virtual"
)

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

// anchor returns a heading's anchor, as GitHub and goldmark name it.
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

// plotsOf plots welfare and first tokens: in one world of its rows that matter, over several loads of the
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
