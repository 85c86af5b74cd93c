package economics

import (
	"encoding/csv"
	"fmt"
	"html/template"
	"io"
	"os"
	"path/filepath"
	"strconv"
)

// Percent is a share, 0 to 1, that pages show in per cent.
type Percent float64

// Table is figures with names. A cell is a string, an int, a float64 or a [Percent].
type Table struct {
	Name    string // of its file: "<experiment>-<name>.csv"
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

// exact is a figure as a file keeps it: shares as numbers from 0 to 1.
func exact(v any) string {
	switch v := v.(type) {
	case Percent:
		return strconv.FormatFloat(float64(v), 'g', 6, 64)
	case float64:
		return strconv.FormatFloat(v, 'g', 6, 64)
	}
	return fmt.Sprint(v)
}

// WriteCSV writes the table with a heading.
func (t Table) WriteCSV(w io.Writer) error {
	c := csv.NewWriter(w)
	if err := c.Write(t.Columns); err != nil {
		return err
	}
	for _, row := range t.Rows {
		out := make([]string, len(row))
		for i, v := range row {
			out[i] = exact(v)
		}
		if err := c.Write(out); err != nil {
			return err
		}
	}
	c.Flush()
	return c.Error()
}

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"cell":    cell,
	"numeric": func(v any) bool { _, text := v.(string); return !text },
	"svg": func(p Plot) (template.HTML, error) {
		s, err := p.SVG()
		return template.HTML(s), err // the plot library escapes its text
	},
}).Parse(`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>The market as a game</title>
<style>
body{font:16px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#222}
h1{font-size:1.7rem}h2{margin-top:3rem;border-top:1px solid #ccc;padding-top:1rem;font-size:1.3rem}
.plots{display:flex;flex-wrap:wrap;gap:1rem}.plots svg{max-width:100%;height:auto}
table{border-collapse:collapse;font-size:.85rem;margin:1rem 0 .3rem;font-variant-numeric:tabular-nums}
th,td{padding:.25rem .6rem;border-bottom:1px solid #ddd;text-align:left;vertical-align:bottom}td.n{text-align:right}th{font-weight:600;max-width:9rem}
.note{font-size:.85rem;color:#555;margin-top:0}.scroll{overflow-x:auto}pre{background:#f4f4f4;padding:.6rem;overflow-x:auto}ul.found{font-weight:500}
</style></head><body>
<h1>The market as a game</h1>
<p>Simulated clients and agents, cleared by the market's own code; every outcome was checked by its certificate before it was counted. Conversations, price cards and prefill speeds are real;
the quality of models in domains is assumed. A millionth of a credit is a micro-credit; one credit is one US dollar in the price cards.</p>
<p>Made by</p><pre>{{.Command}}</pre>
<p>Contents: {{range $i, $r := .Results}}{{if $i}} · {{end}}<a href="#{{$r.Name}}">{{$r.Title}}</a>{{end}}</p>
{{range .Results}}{{$name := .Name}}<h2 id="{{.Name}}">{{.Title}}</h2>
{{range .About}}<p>{{.}}</p>
{{end}}{{if .Findings}}<ul class="found">{{range .Findings}}<li>{{.}}</li>{{end}}</ul>
{{end}}<div class="plots">{{range .Plots}}{{svg .}}{{end}}</div>
{{range .Tables}}<div class="scroll"><table><thead><tr>{{range .Columns}}<th>{{.}}</th>{{end}}</tr></thead><tbody>
{{range .Rows}}<tr>{{range .}}<td{{if numeric .}} class="n"{{end}}>{{cell .}}</td>{{end}}</tr>
{{end}}</tbody></table></div><p class="note">{{.Note}} <a href="{{$name}}-{{.Name}}.csv">CSV</a></p>
{{end}}{{end}}</body></html>
`))

// WritePage writes everything as one page that needs nothing else; command is what a reader types to make it
// again.
func WritePage(w io.Writer, command string, results []Result) error {
	return page.Execute(w, struct {
		Command string
		Results []Result
	}{command, results})
}

// Write puts the page, index.html, and every table as CSV into a directory, which it makes if there is none,
// and returns the path of the page.
func Write(dir, command string, results []Result) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	write := func(name string, content func(io.Writer) error) error {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		if err := content(f); err != nil {
			f.Close()
			return fmt.Errorf("%s: %w", f.Name(), err)
		}
		return f.Close()
	}
	for _, r := range results {
		for _, t := range r.Tables {
			if err := write(r.Name+"-"+t.Name+".csv", t.WriteCSV); err != nil {
				return "", err
			}
		}
	}
	err := write("index.html", func(w io.Writer) error { return WritePage(w, command, results) })
	return filepath.Join(dir, "index.html"), err
}
