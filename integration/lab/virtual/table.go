package virtual

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Column stands in a table of measures.
type Column struct {
	Name   string
	Digits int
	Of     func(*Measures) float64
}

// Columns stand in every table, in this order.
var Columns = []Column{
	{"welfare", 1, func(m *Measures) float64 { return m.Welfare }},
	{"p50", 0, func(m *Measures) float64 { return m.P50 }},
	{"p99", 0, func(m *Measures) float64 { return m.P99 }},
	{"longest", 0, func(m *Measures) float64 { return m.Longest }},
	{"refused", 3, func(m *Measures) float64 { return m.Refused }},
	{"tasks/s", 1, func(m *Measures) float64 { return m.Throughput }},
	{"bill", 2, func(m *Measures) float64 { return m.Bill }},
	{"dearest", 2, func(m *Measures) float64 { return m.Dearest }},
	{"idle", 2, func(m *Measures) float64 { return m.Idle }},
	{"quality", 3, func(m *Measures) float64 { return m.Quality }},
	{"share", 3, func(m *Measures) float64 { return m.Share }},
	{"bound", 3, func(m *Measures) float64 { return m.Bound }},
	{"work", 2, func(m *Measures) float64 { return m.Work }},
}

// groupColumns stand in a table by temper.
var groupColumns = []struct {
	name   string
	digits int
	of     func(*Group) float64
}{
	{"welfare", 2, func(g *Group) float64 { return g.Welfare }},
	{"p50", 0, func(g *Group) float64 { return g.P50 }},
	{"p99", 0, func(g *Group) float64 { return g.P99 }},
	{"longest", 0, func(g *Group) float64 { return g.Longest }},
	{"refused", 3, func(g *Group) float64 { return float64(g.Refused) / float64(g.Tasks) }},
	{"bill", 2, func(g *Group) float64 { return g.Bill }},
}

// Legend says what the columns of the tables are.
const Legend = `Each figure is the mean of the seeds, and half of its 95 % interval.
welfare  a second, in thousandths of a credit, between the first and the last tenth of arrivals: what answers
         were worth as they were served, less their cost; who is refused adds nothing. By temper: a task.
         -: a closed loop whose callers do not outnumber the slots by half, where it says who asked
p50, p99 time to the first token in ms, as callers see it
longest  the longest wait in ms for a first token, or to be refused
refused  of tasks
bill     what was paid, by the card; dearest: the same of the client that paid most beside its card
idle     slots that stand idle, on the mean, while somebody waits who would pay for one
share    of prompt tokens, those found in a cache
bound    the share in one cache of that size for all, which knew what is asked next (Belady)
work     tokens computed on the engine that computed most, by the mean
Of the market's first seed also:
free beside  seconds in which an engine had a slot free while somebody waited who would have had more there, with
             nothing cached, than in the end; by whether he began there later, as the slot was kept for somebody
             dearer or was not yet his, or elsewhere, where he was planned for, or was refused
client       those whose bills were dearest beside the card
`

// sum makes the means of a row.
func (row *Row) sum() {
	row.All = map[string]Estimate{}
	for _, c := range Columns {
		var of []float64
		for i := range row.Seeds {
			of = append(of, c.Of(&row.Seeds[i]))
		}
		row.All[c.Name] = NewEstimate(of)
	}
	by := map[string]map[string][]float64{}
	for i := range row.Seeds {
		for k := range row.Seeds[i].Tempers {
			g := &row.Seeds[i].Tempers[k]
			if by[g.Name] == nil {
				by[g.Name] = map[string][]float64{}
			}
			for _, c := range groupColumns {
				by[g.Name][c.name] = append(by[g.Name][c.name], c.of(g))
			}
		}
	}
	for name, columns := range by {
		if row.Tempers == nil {
			row.Tempers = map[string]map[string]Estimate{}
		}
		row.Tempers[name] = map[string]Estimate{}
		for column, of := range columns {
			row.Tempers[name][column] = NewEstimate(of)
		}
	}
}

// Label is the row's rule, with the value of its knob where it has one.
func (row *Row) Label() string { return cmp.Or(row.Knob, row.Rule) }

// Same reports whether two rows are of one world, and so stand in one table.
func (row *Row) Same(other *Row) bool {
	return row.Trace == other.Trace && row.Fleet == other.Fleet && row.Terms == other.Terms &&
		row.Callers == other.Callers && row.Rate == other.Rate && row.Loop == other.Loop
}

// Title says what was played.
func (row *Row) Title() string {
	about := row.Trace + ": " + row.About
	if row.Rate > 0 {
		about += fmt.Sprintf("; %.2f dialogues begin in a second", row.Rate)
		if row.Load > 0 {
			about += fmt.Sprintf(", %.2f of what the engines can serve", row.Load)
		}
	}
	if row.Loop > 0 {
		about += fmt.Sprintf("; %d callers", row.Loop)
	}
	if row.Fleet != "" && row.Fleet != Fleets[0].Name {
		about += "; fleet " + row.Fleet
	}
	if row.Terms != "" {
		about += "; terms " + string(row.Terms)
	}
	if row.Callers == OneKey {
		about += "; all callers behind one key"
	}
	return about
}

// Undominated says of rows of one world which have a greater welfare than each that has as short a p99.
func Undominated(rows []Row) []bool {
	out := make([]bool, len(rows))
	for i := range rows {
		out[i] = !slices.ContainsFunc(rows, func(r Row) bool {
			w, p := r.All["welfare"].Mean, r.All["p99"].Mean
			own, wait := rows[i].All["welfare"].Mean, rows[i].All["p99"].Mean
			return w >= own && p <= wait && (w > own || p < wait)
		})
	}
	return out
}

// Write prints a table for each world.
func Write(w io.Writer, rows []Row) {
	for from := 0; from < len(rows); {
		to := from
		for to < len(rows) && rows[to].Same(&rows[from]) {
			to++
		}
		fmt.Fprintf(w, "\n%s\n", rows[from].Title())
		table(w, rows[from:to])
		from = to
	}
	fmt.Fprint(w, "\n"+Legend)
}

// table prints rows below each other, figures to the right, and below them those by temper.
func table(w io.Writer, rows []Row) {
	cells := [][]string{{""}}
	for _, c := range Columns {
		cells[0] = append(cells[0], c.Name)
	}
	for _, row := range rows {
		line := []string{row.Label()}
		for _, c := range Columns {
			cell := figure(row.All[c.Name], c.Digits, len(row.Seeds))
			if c.Name == "welfare" && row.Seeds[0].Uncounted {
				cell = "-"
			}
			line = append(line, cell)
		}
		cells = append(cells, line)
	}
	write(w, cells)
	cells = [][]string{{"", "temper"}}
	for _, c := range groupColumns {
		cells[0] = append(cells[0], c.name)
	}
	for _, row := range rows {
		var names []string
		for name := range row.Tempers {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			line := []string{row.Label(), name}
			for _, c := range groupColumns {
				line = append(line, figure(row.Tempers[name][c.name], c.digits, len(row.Seeds)))
			}
			cells = append(cells, line)
		}
	}
	if len(cells) > 1 {
		fmt.Fprintln(w)
		write(w, cells)
	}
	besides(w, rows)
}

// besides prints, of the first seed of each market, which engines had slots free beside whom, and which
// clients paid most.
func besides(w io.Writer, rows []Row) {
	free := [][]string{{"", "engine", "free beside", "there", "elsewhere", "refused"}}
	paid := [][]string{{"", "client", "tasks", "bill", "p50", "longest"}}
	for _, row := range rows {
		if base, _, _ := strings.Cut(row.Rule, ":"); base != MarketName || len(row.Seeds) == 0 {
			continue
		}
		seconds := func(x float64) string { return strconv.FormatFloat(x, 'f', 1, 64) }
		for _, b := range row.Seeds[0].Beside {
			free = append(free, []string{row.Label(), b.Engine, seconds(b.seconds()) + " of " + seconds(b.Of),
				seconds(b.There), seconds(b.Elsewhere), seconds(b.Refused)})
		}
		for _, g := range row.Seeds[0].Clients {
			paid = append(paid, []string{row.Label(), g.Name, strconv.Itoa(g.Tasks),
				strconv.FormatFloat(g.Bill, 'f', 2, 64), strconv.FormatFloat(g.P50, 'f', 0, 64),
				strconv.FormatFloat(g.Longest, 'f', 0, 64)})
		}
	}
	for _, cells := range [][][]string{free, paid} {
		if len(cells) > 1 {
			fmt.Fprintln(w)
			write(w, cells)
		}
	}
}

// figure is a mean with its interval.
func figure(e Estimate, digits, seeds int) string {
	cell := strconv.FormatFloat(e.Mean, 'f', digits, 64)
	if seeds > 1 {
		cell += "±" + strconv.FormatFloat(e.Within, 'f', digits, 64)
	}
	return cell
}

// write prints lines of cells below each other, all but the first of a line to the right.
func write(w io.Writer, cells [][]string) {
	width := make([]int, len(cells[0]))
	for _, line := range cells {
		for i, cell := range line {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	for _, line := range cells {
		fmt.Fprintf(w, "%-*s", width[0], line[0])
		for i, cell := range line[1:] {
			fmt.Fprintf(w, "  %*s", width[i+1], cell)
		}
		fmt.Fprintln(w)
	}
}
