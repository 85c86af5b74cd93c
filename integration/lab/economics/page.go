package economics

import (
	"fmt"
	"strconv"
	"strings"

	"souk/integration/lab/page"
)

// Percent is a share, 0 to 1, that pages show in per cent.
type Percent float64

// Table is figures with names. A cell is a string, an int, a float64 or a [Percent].
type Table struct {
	Columns []string
	Rows    [][]any
	Note    string
}

// cell is a figure as a page shows it.
func cell(v any) string {
	switch v := v.(type) {
	case Percent:
		return strconv.FormatFloat(100*float64(v), 'f', 2, 64) + " %"
	case float64:
		switch {
		case v == 0:
			return "0"
		case v < 1 && v > -1:
			return strconv.FormatFloat(v, 'g', 3, 64)
		case v < 100 && v > -100:
			return strconv.FormatFloat(v, 'f', 2, 64)
		}
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return fmt.Sprint(v)
}

const about = `Simulated clients and agents, cleared by the market's own code; every outcome was checked by its
certificate before it was counted. Conversations, price cards and prefill speeds are real; the quality of
models in domains is assumed. A millionth of a credit is a micro-credit; one credit is one US dollar in the
price cards.
`

// Page is the page of results, which a command has made.
func Page(command string, results []Result) *page.Page {
	p := &page.Page{Name: "economics", Title: "The market as a game", Command: command,
		Plots: map[string]page.Plot{}}
	var b strings.Builder
	b.WriteString(about)
	for _, r := range results {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n", r.Title, strings.Join(r.About, "\n\n"))
		for _, f := range r.Findings {
			fmt.Fprintf(&b, "* %s\n", f)
		}
		for i, plot := range r.Plots {
			name := fmt.Sprintf("%s-%d", r.Name, i+1)
			p.Plots[name] = plot
			b.WriteString(page.Place(name))
		}
		for _, t := range r.Tables {
			var rows [][]string
			for _, row := range t.Rows {
				var out []string
				for _, v := range row {
					out = append(out, cell(v))
				}
				rows = append(rows, out)
			}
			fmt.Fprintf(&b, "\n%s\n%s\n", page.Table(t.Columns, rows), t.Note)
		}
	}
	p.Text = b.String()
	return p
}
