package economics

import (
	_ "embed"
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
	rows := [][]string{t.Columns}
	for _, row := range t.Rows {
		var out []string
		for _, v := range row {
			out = append(out, exact(v))
		}
		rows = append(rows, out)
	}
	return csv.NewWriter(w).WriteAll(rows)
}

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"cell":    cell,
	"numeric": func(v any) bool { _, text := v.(string); return !text },
	"svg": func(p Plot) (template.HTML, error) {
		s, err := p.SVG()
		return template.HTML(s), err // the plot library escapes its text
	},
}).Parse(pageText))

// Write puts a page that needs nothing else, index.html, and every table as CSV into a directory, which it
// makes if there is none, and returns the path of the page. command is what a reader types to make it again.
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
	err := write("index.html", func(w io.Writer) error {
		return page.Execute(w, struct {
			Command string
			Results []Result
		}{command, results})
	})
	return filepath.Join(dir, "index.html"), err
}
