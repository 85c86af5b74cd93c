package compare

import (
	"fmt"
	"slices"
	"strings"

	"souk/integration/lab/page"
	"souk/integration/lab/virtual"
)

// wanted returns by how many percent the market is to be worth more than any rule at a load of a fleet: from
// a tenth beyond capacity on a plan of the whole pays, on a fleet of dear and cheap answers most.
func wanted(fleet string, load float64) float64 {
	switch {
	case load >= 1.1 && fleet == "mixed":
		return 5
	case load >= 1.1:
		return 2
	case load >= 1 && fleet == "mixed":
		return 1
	}
	return -2
}

// bars makes a section: for each world what the market is to have beside every rule, and what it has beside
// the best, and beside the best that posts no price.
func bars(all [][]virtual.Row) string {
	var cells [][]string
	for _, of := range all {
		at := slices.IndexFunc(of, func(r virtual.Row) bool { return r.Rule == virtual.MarketName })
		if at < 0 {
			continue
		}
		bar := wanted(of[0].Fleet, of[0].Load)
		row := []string{fmt.Sprintf("%s at %.2f, %s", of[0].Trace, of[0].Load, of[0].Fleet),
			fmt.Sprintf("%+.0f %%", bar)}
		for _, posts := range []bool{true, false} {
			best, soonest := rivals(slices.DeleteFunc(slices.Clone(of), func(r virtual.Row) bool {
				return !posts && r.Rule == "posted"
			}))
			if best == nil {
				row = append(row, make([]string, 2)...)
				continue
			}
			s := standing(&of[at], best, soonest, false)
			row = append(row, fmt.Sprintf("%+.1f ± %.1f %%, %s", s.More, s.Within, best.Label()),
				judged(s.More, s.Within, bar, s.Once))
			if posts {
				row = append(row, worstTemper(&of[at], best)...)
			}
		}
		cells = append(cells, row)
	}
	if len(cells) == 0 {
		return ""
	}
	return "\n" + barsAbout + page.Table([]string{"world", "asked", "beside the best rule", "",
		"its worst temper", "", "posted prices aside", ""}, cells)
}

const barsAbout = `## Against what was asked

The market is to be worth at most 2 % less than any rule at any load, and more from capacity on: **asked** is
by how much. Each rule has the value of its knob that turned out best in that world, which nobody knows
beforehand; posted prices, which are such a value, are left out in the last two columns. **its worst temper**:
of callers of one temper, what a task is worth under the market beside what it is under the best rule, where
that is least; at most 2 % less is asked. **open**: the interval tells neither.

`

// judged says whether what was measured, within so much, is beyond a bar.
func judged(is, within, bar float64, once bool) string {
	switch {
	case !once && is-within > bar:
		return "holds"
	case !once && is+within < bar:
		return "**short**"
	}
	return "open"
}

// worstTemper says of callers of which temper the market does worst beside a rule, a task, and whether that
// is as much as was asked; nothing where callers have none.
func worstTemper(m, rule *virtual.Row) []string {
	name, least := "", virtual.Estimate{}
	for k := range m.Seeds[0].Tempers {
		var more []float64
		for i := range min(len(m.Seeds), len(rule.Seeds)) {
			a, b := m.Seeds[i].Tempers, rule.Seeds[i].Tempers
			if k < len(a) && k < len(b) && a[k].Name == b[k].Name && b[k].Welfare > 0 {
				more = append(more, 100*(a[k].Welfare-b[k].Welfare)/b[k].Welfare)
			}
		}
		if e := virtual.NewEstimate(more); len(more) > 0 && (name == "" || e.Mean < least.Mean) {
			name, least = m.Seeds[0].Tempers[k].Name, e
		}
	}
	if name == "" {
		return []string{"", ""}
	}
	return []string{fmt.Sprintf("%+.1f ± %.1f %%, %s", least.Mean, least.Within, name),
		judged(least.Mean, least.Within, -2, len(m.Seeds) == 1)}
}

// atMost are bars of a trace on which nobody says terms: by how much less of the prompt tokens may be found
// in caches than under two-block, and how many times the mean the busiest engine may compute; 0: any.
var atMost = map[string]struct{ share, work float64 }{
	"mtrag": {0.02, 1.2}, "crowd": {0.02, 1.2}, "rag": {0.02, 0}, "slow": {0.02, 0}, "small": {0.03, 1.2}}

// silent makes a section of the worlds where nobody says terms: what the market has beside two-block, and
// what of that is short of what was asked.
func silent(rows []virtual.Row) string {
	var cells [][]string
	any := false
	for _, of := range worlds(rows) {
		find := func(name string) int {
			return slices.IndexFunc(of, func(r virtual.Row) bool { return r.Rule == name })
		}
		r, m, t := &of[0], find(virtual.MarketName), find("two-block")
		if m < 0 || t < 0 || r.Terms != "" || r.Fleet != "" && r.Fleet != virtual.Fleets[0].Name {
			continue
		}
		most, asked := atMost[r.Trace]
		any = any || asked
		later := 1.8
		if r.Load > 0 && r.Load < 0.75 {
			later = 1.2
		}
		cell := func(format string, x float64, short bool) string {
			if asked && short {
				format = "**" + format + "**"
			}
			return fmt.Sprintf(format, x)
		}
		a, b := of[m].All, of[t].All
		times := func(column string) float64 { return a[column].Mean / b[column].Mean }
		name := strings.TrimSpace(r.Trace + at(r))
		if !asked {
			name += ", shown"
		}
		share, work := a["share"].Mean-b["share"].Mean, a["work"].Mean
		cells = append(cells, []string{name, cell("%+.3f", share, share < -most.share),
			cell("%+.1f %%", 100*times("tasks/s")-100, times("tasks/s") < 0.975),
			cell("%.2f", work, most.work > 0 && work > most.work),
			cell("%.2f", times("p99"), times("p99") > later),
			cell("%.2f", times("longest"), times("longest") > 1.5)})
	}
	if !any {
		return ""
	}
	return "\n" + silentAbout + page.Table([]string{"world", "share, more", "tasks a second, more",
		"work, max/mean", "p99, times", "longest, times"}, cells)
}

const silentAbout = `## Where nobody says terms

The market beside two-block, on the means of the same seeds. Of mtrag, rag, slow, small and crowd is asked that
the share of prompt tokens found is at most 0.02 less (small: 0.03), tasks a second 2.5 %, that the busiest engine
computes at most 1.2 times the mean (not of rag and slow), and that p99 of first tokens is at most 1.2 times
two-block's below three quarters of what engines can serve and 1.8 times above, the longest wait 1.5 times. What is
short of that is **bold**. The others are shown: on tau and long two-block has all go to one engine.

`
