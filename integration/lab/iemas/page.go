package iemas

import (
	"fmt"
	"strings"

	"souk/integration/lab/page"
	"souk/integration/lab/virtual"
)

// cellOf is a mean with half of its 95 % interval; "-": nothing was measured.
func cellOf(digits int, of []float64) string {
	if len(of) == 0 {
		return "-"
	}
	e := virtual.NewEstimate(of)
	return fmt.Sprintf("%.*f ± %.*f", digits, e.Mean, digits, e.Within)
}

// columns are the figures of a router in tables.
var columns = []struct {
	name   string
	digits int
	of     func(*Figures) float64
}{
	{"KV share", 3, func(f *Figures) float64 { return f.Share }},
	{"cost", 1, func(f *Figures) float64 { return f.Cost }},
	{"first token p50", 1, func(f *Figures) float64 { return f.P50 }},
	{"p99", 0, func(f *Figures) float64 { return f.P99 }},
	{"quality", 3, func(f *Figures) float64 { return f.Quality }},
	{"welfare", 1, func(f *Figures) float64 { return f.Welfare }},
	{"a second", 0, func(f *Figures) float64 { return f.Second }},
	{"refused", 3, func(f *Figures) float64 { return f.Refused }},
}

// Page is the page of results, which a command has made.
func (r *Results) Page(command string) *page.Page {
	p := &page.Page{Name: "iemas", Title: "The market paper's tables, made again", Command: command,
		Plots: map[string]page.Plot{}}
	p.Text = r.about() + r.claims() + r.stands() + r.table1() + r.loads() + r.fig3(p) + r.fig4(p)
	p.Text += elsewhere + corrections + r.beyond()
	return p
}

func (r *Results) about() string {
	var b strings.Builder
	fmt.Fprintf(&b, `Table 1, Fig. 3 and Fig. 4 of "IEMAS: An Incentive-Efficiency Routing Framework for Open Agentic Web Ecosystems",
made again in virtual time: its sets of dialogues, its router as printed (Algorithm 1), the routers it compares with
and this market before the same engines. Figures are means over seeds %s, ± half of their 95 %% interval; of a run
what was asked after its first tenth.

**Of the paper**: %d requests at once on an engine, a memory utilization of %.1f, a context of %d tokens, three models of
different size, twelve who ask at once. **Chosen here**, as the paper does not say it: %d engines of each model; its
models are not among those of which answers were recorded, and the nearest that are stand for them. Blocks are what
%.1f of a card's memory leaves beside weights of two bytes and %d GB. Speeds are those of the one engine that was
measured, Llama 3.1 8B on an RTX PRO 6000, and of a smaller model as much higher. Prices stand in the table of models
beside the recorded answers; a cached token costs a tenth. Callers state no terms, and have a hub's usual ones.

`, seeds(r.Seeds), slots, memory, tokens, each, memory, working)
	var rows [][]string
	for _, m := range models {
		rows = append(rows, []string{m.name, fmt.Sprintf("%.1f", m.size), fmt.Sprintf("%.0f", m.card),
			fmt.Sprint(m.blocks()), fmt.Sprintf("%.2f", m.price)})
	}
	b.WriteString(page.Table([]string{"model", "parameters, 10^9", "card, GB", "blocks of 16",
		"$ a million tokens"}, rows))
	b.WriteString("\n**Quality.** Nobody published how good several models' answers are on these sets. Each turn stands for a " +
		"question of which that was recorded (RouteProfile), the same under any router; routers hear the score of an answer " +
		"once it has ended, as the paper's evaluators give it, and its kind before. The market hears of no score: its agents " +
		"register their model's mean. Routers that have learned read the question for which a turn stands, which " +
		"was not among those that they learned from. So quality says which models a router chose for which questions, and nothing of " +
		"these dialogues.\n\n")
	rows = nil
	for _, w := range r.Worlds {
		rows = append(rows, []string{w.Name, w.About, fmt.Sprint(w.Turns), fmt.Sprint(w.Left),
			strings.Join(w.Set.kinds, ", "), fmt.Sprint(w.Rows), fmt.Sprint(w.Missing),
			fmt.Sprint(w.Doubled)})
	}
	b.WriteString(page.Table([]string{"set", "what", "turns", "left out, too long", "quality by", "rows",
		"a score missing", "doubled"}, rows))
	b.WriteString("\n" + routers())
	return b.String()
}

// routers says what each router is here, and where that was published.
func routers() string {
	var rows [][]string
	for _, x := range Routers {
		about, source := x.About, x.Source
		for _, rule := range virtual.Rules() {
			if rule.Name == x.rule() {
				about, source = rule.About, rule.Source
			}
		}
		rows = append(rows, []string{"`" + x.Name + "`", x.Paper, about, source})
	}
	return page.Table([]string{"router", "in Table 1", "what it does", "source"}, rows)
}

func seeds(all []uint64) string {
	var s []string
	for _, x := range all {
		s = append(s, fmt.Sprint(x))
	}
	return strings.Join(s, ", ")
}

// table1 is the paper's table, with its figures beside those here.
func (r *Results) table1() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n## Table 1\n\n%d callers, %d tasks a run. The paper's cost has no unit, so **cost** stands in micro-credits "+
		"here, and **by IEMAS** is that of an answer by IEMAS's, there and here. First tokens are in ms from when a task is "+
		"asked; welfare is micro-credits a task: worth as served less cost.\n", Loads[0], r.Tasks)
	for n, w := range r.Worlds {
		fmt.Fprintf(&b, "\n### %s\n\n", w.Name)
		var rows [][]string
		base := virtual.NewEstimate(r.of(w.Name, "iemas", Loads[0], columns[1].of)).Mean
		ours := iemasRow().Theirs[n]
		for _, x := range Routers {
			row := []string{"`" + x.Name + "`", x.Paper}
			t := []string{"", "", ""}
			if x.Theirs != nil {
				of := x.Theirs[n]
				t = []string{fmt.Sprintf("%.3f", of.Share), fmt.Sprintf("%.2f", of.Cost/ours.Cost),
					fmt.Sprintf("%.1f", of.First)}
			}
			of := func(k int) []float64 { return r.of(w.Name, x.Name, Loads[0], columns[k].of) }
			rows = append(rows, append(row, t[0], cellOf(3, of(0)), t[1],
				fmt.Sprintf("%.2f", virtual.NewEstimate(of(1)).Mean/base), cellOf(1, of(1)), t[2],
				cellOf(1, of(2)), cellOf(3, of(4)), cellOf(1, of(5))))
		}
		b.WriteString(page.Table([]string{"router", "paper", "KV, theirs", "KV", "cost by IEMAS, theirs",
			"cost by IEMAS",
			"cost", "p50, theirs", "p50", "quality", "welfare"}, rows))
	}
	return b.String()
}

// loads are the tables of more callers.
func (r *Results) loads() string {
	var b strings.Builder
	b.WriteString("\n## The same with more callers\n\nThe paper has one load. Half as many callers as there are slots, and half " +
		"as many again as slots, who then are short. In a closed loop who is served sooner asks sooner, so welfare stands by " +
		"the task and by the second.\n")
	heading := []string{"set", "router"}
	for _, c := range columns {
		heading = append(heading, c.name)
	}
	for _, callers := range Loads[1:] {
		fmt.Fprintf(&b, "\n### %d callers\n\n", callers)
		var rows [][]string
		for _, w := range r.Worlds {
			for _, x := range Routers {
				row := []string{w.Name, "`" + x.Name + "`"}
				for _, c := range columns {
					row = append(row, cellOf(c.digits, r.of(w.Name, x.Name, callers, c.of)))
				}
				rows = append(rows, row)
			}
		}
		b.WriteString(page.Table(heading, rows))
	}
	return b.String()
}
