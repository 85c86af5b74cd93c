package games

import (
	_ "embed"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"souk/hub/regime"
	"souk/integration/lab/page"
	"souk/integration/lab/virtual"
)

// Made holds the results of an experiment.
type Made struct {
	Command string `json:"command"`
	Seeds   int    `json:"seeds"`
	Rows    []Row  `json:"rows"`
}

//go:embed page.md
var pageText string

// Page is the page of experiments by their names. One that was not played yet has no table.
func Page(command string, of map[string]*Made) (*page.Page, error) {
	p := &page.Page{Name: "games", Title: "The price of anarchy, played again", Command: command,
		Plots: map[string]page.Plot{}, Figures: of}
	t, err := template.New("page").Funcs(template.FuncMap{
		"table": func(name, columns string, filter ...string) string {
			return tableOf(of[name], columns, filter)
		},
		"seen": func(name string) string { return seenOf(of[name]) },
		"grid": func(name, topology, rule, column string) string {
			return gridOf(of[name], topology, rule, column)
		},
		"spread": func(name string) string { return spreadOf(of[name]) },
		"figure": func(name, topology, rule, load, part, column string) string {
			return figureOf(of[name], topology, rule, load, part, column)
		},
		"chance": func() string { return chanceOf(of["chance"]) },
		"splits": func() string { return splitsOf(of["game1"]) },
		"made":   func(name string) string { return madeOf(of[name]) },
		"plot": func(name, title, column, axis string, series ...int) string {
			plot, ok := plotOf(of[name], title, column, axis, series)
			if !ok {
				return ""
			}
			p.Plots[title] = plot
			return page.Place(title)
		},
	}).Parse(pageText)
	if err != nil {
		return nil, err
	}
	var out strings.Builder
	if err := t.Execute(&out, nil); err != nil {
		return nil, err
	}
	p.Text = out.String()
	return p, nil
}

// plotOf shows a column by load, with a series for each name that rows have, of those that are asked for: 0
// the engines, 1 the rule, 2 the load, 3 the part. Where load is among them it is in groups, by these names.
func plotOf(m *Made, title, name, axis string, by []int) (out page.Plot, ok bool) {
	if m == nil || len(m.Rows) == 0 {
		return out, false
	}
	c := columnNamed(name)
	out = page.Plot{Title: title, X: axis, Y: name, LogY: strings.Contains(name, "TTFT"),
		LogX: axis == "callers", OwnX: axis == "callers"}
	for i := range m.Rows {
		r := &m.Rows[i]
		is := []string{r.Topology, r.Rule, r.Load, r.Part}
		var of []string
		for _, k := range by {
			of = append(of, is[k])
		}
		label, e := strings.TrimSuffix(strings.Join(of, ", "), ", "), r.estimate(c)
		if slices.Contains(by, 2) || axis == "" {
			out.LogX = false
			out.Put(label, "", e.Mean, e.Within)
			continue
		}
		load, err := strconv.ParseFloat(strings.Fields(r.Load)[0], 64)
		if err != nil {
			return out, false
		}
		out.Of(label).Add(load, e.Mean, e.Within)
	}
	return out, true
}

const notPlayed = "Not played yet.\n"

func madeOf(m *Made) string {
	if m == nil {
		return notPlayed
	}
	return fmt.Sprintf("Made by `%s`.\n", m.Command)
}

// all are the columns by which figures are kept.
var all = append(slices.Clone(columns),
	column{"refused", 0, func(f *Figures) float64 { return f.Refused }},
	column{"cached", 3, func(f *Figures) float64 { return f.Cached }},
	column{"bound", 3, func(f *Figures) float64 { return f.Bound }},
	column{"late first", 3, func(f *Figures) float64 { return f.Late }},
	column{"late token", 3, func(f *Figures) float64 { return f.Slow }},
	column{"computed by bound", 2, func(f *Figures) float64 { return (1 - f.Cached) / (1 - f.Bound) }})

func columnNamed(name string) column {
	for _, c := range all {
		if c.name == name {
			return c
		}
	}
	panic("games: no figure is named " + name)
}

func (r *Row) estimate(c column) virtual.Estimate {
	var of []float64
	for i := range r.Seeds {
		if x := c.of(&r.Seeds[i]); !math.IsNaN(x) && !math.IsInf(x, 0) {
			of = append(of, x)
		}
	}
	if len(of) == 0 {
		return virtual.Estimate{}
	}
	return virtual.NewEstimate(of)
}

func (r *Row) cell(c column) string {
	e := r.estimate(c)
	cell := strconv.FormatFloat(e.Mean, 'f', c.digits, 64)
	if len(r.Seeds) > 1 {
		cell += " ± " + strconv.FormatFloat(e.Within, 'f', c.digits, 64)
	}
	return cell
}

// figureOf is a figure in a sentence.
func figureOf(m *Made, topology, rule, load, part, column string) string {
	if m != nil {
		for i := range m.Rows {
			if r := &m.Rows[i]; r.Topology == topology && r.Rule == rule && r.Load == load && r.Part == part {
				return r.cell(columnNamed(column))
			}
		}
	}
	return noFigure
}

const noFigure = "(not played)"

// tableOf has a line for each row that has all the words of a filter among its names.
func tableOf(m *Made, names string, filter []string) string {
	if m == nil {
		return notPlayed
	}
	var b strings.Builder
	b.WriteString("| engines | rule | load | part |")
	columns := strings.Split(names, ",")
	for _, c := range columns {
		b.WriteString(" " + c + " |")
	}
	b.WriteString("\n|---|---|---|---|" + strings.Repeat("---|", len(columns)) + "\n")
	for i := range m.Rows {
		r := &m.Rows[i]
		is := []string{r.Topology, r.Rule, r.Load, r.Part}
		if slices.ContainsFunc(filter, func(f string) bool { return !slices.Contains(is, f) }) {
			continue
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |", r.Topology, r.Rule, r.Load, r.Part)
		for _, c := range columns {
			b.WriteString(" " + r.cell(columnNamed(c)) + " |")
		}
		b.WriteString("\n")
	}
	return b.String()
}

// seenOf says when each rule saw a load, and the highest state that it came to.
func seenOf(m *Made) string {
	if m == nil {
		return notPlayed
	}
	var b strings.Builder
	b.WriteString("| engines | rule | load | seen |\n|---|---|---|---|\n")
	var said []string
	for i := range m.Rows {
		r := &m.Rows[i]
		name := r.Topology + r.Rule + r.Load
		if slices.Contains(said, name) {
			continue
		}
		said = append(said, name)
		if r.Worst == nil || strings.HasPrefix(r.Rule, "dynamo") && !strings.Contains(r.Rule, "adaptive") {
			continue
		}
		cell := regime.State(slices.Max(r.Worst)).String()
		if at := r.Seen; len(at) > 0 {
			e := virtual.NewEstimate(at)
			cell += fmt.Sprintf(", %.0f ± %.0f s, %d of %d", e.Mean, e.Within, len(at), len(r.Seeds))
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", r.Topology, r.Rule, r.Load, cell)
	}
	return b.String()
}

// gridOf writes one figure by temperature, downward, and weight.
func gridOf(m *Made, topology, rule, name string) string {
	if m == nil {
		return notPlayed
	}
	c := columnNamed(name)
	var b strings.Builder
	steps := []string{"0", "0.3", "0.7", "1"}
	fmt.Fprintf(&b, "%s, %s, %s:\n\n| tau \\ weight | %s |\n|---|---|---|---|---|\n", topology, rule, name,
		strings.Join(steps, " | "))
	for _, tau := range steps {
		fmt.Fprintf(&b, "| %s |", tau)
		for _, omega := range steps {
			for i := range m.Rows {
				if r := &m.Rows[i]; r.Topology == topology && r.Rule == rule && r.Load == tau+" "+omega {
					b.WriteString(" " + r.cell(c) + " |")
				}
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

// spreadOf compares the spread of a grid's cells with that of the seeds of one.
func spreadOf(m *Made) string {
	if m == nil {
		return notPlayed
	}
	var b strings.Builder
	b.WriteString("| engines | rule | figure | least | most | most by least | of one cell, ± |\n" +
		"|---|---|---|---|---|---|---|\n")
	type key struct{ topology, rule string }
	var keys []key
	for i := range m.Rows {
		if k := (key{m.Rows[i].Topology, m.Rows[i].Rule}); !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}
	for _, k := range keys {
		for _, name := range []string{"rps", "TTFT p99", "ITL p99", "PoA", "PoA window"} {
			c := columnNamed(name)
			least, most, within, n := math.Inf(1), 0.0, 0.0, 0.0
			for i := range m.Rows {
				if r := &m.Rows[i]; r.Topology == k.topology && r.Rule == k.rule {
					e := r.estimate(c)
					least, most, within, n = min(least, e.Mean), max(most, e.Mean), within+e.Within, n+1
				}
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %.1f | %.1f | %.3f | %.1f |\n", k.topology, k.rule, name, least,
				most, most/least, within/n)
		}
	}
	return b.String()
}

// splitsOf is the marginals of Eq. 5: what another engine of either kind takes off the share of late tasks.
func splitsOf(m *Made) string {
	if m == nil {
		return notPlayed
	}
	late := map[string][2]virtual.Estimate{}
	var rates []string
	for i := range m.Rows {
		r := &m.Rows[i]
		late[r.Topology+" "+r.Load] = [2]virtual.Estimate{r.estimate(columnNamed("late first")),
			r.estimate(columnNamed("late token"))}
		if !slices.Contains(rates, r.Load) {
			rates = append(rates, r.Load)
		}
	}
	var b strings.Builder
	b.WriteString("| tasks/s | split | late first tokens | late tokens | off by one more to compute | " +
		"off by one more to answer |\n|---|---|---|---|---|---|\n")
	for _, rate := range rates {
		for _, s := range [][2]int{{2, 1}, {1, 2}, {3, 3}} {
			name := func(p, d int) string { return Topology{Prefill: p, Decode: d}.String() + " " + rate }
			here := late[name(s[0], s[1])]
			fmt.Fprintf(&b, "| %s | %dP/%dD | %.3f ± %.3f | %.3f ± %.3f | %.3f | %.3f |\n", rate, s[0], s[1],
				here[0].Mean, here[0].Within, here[1].Mean, here[1].Within,
				here[0].Mean-late[name(s[0]+1, s[1])][0].Mean, here[1].Mean-late[name(s[0], s[1]+1)][1].Mean)
		}
	}
	return b.String()
}
