package cli

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"souk/cmd/console"
	"souk/market"
)

var formats = []string{"table", "json", "ndjson", "csv"}

// sheet is rows under a header, printed in any format. Cells are strings, integers and credits. Lines of
// ndjson and csv leave as they come, so that what is kept of them is bounded; a table has to know them all.
// Whether all could be written the command's [console.Output] remembers.
type sheet struct {
	w       io.Writer
	format  string
	columns []string
	rows    [][]any
	foot    [][]any // of a table alone
	csv     *csv.Writer
}

func newSheet(w io.Writer, format string, columns ...string) *sheet {
	s := &sheet{w: w, format: format, columns: columns, csv: csv.NewWriter(w)}
	if format == "csv" {
		_ = s.csv.Write(columns)
	}
	return s
}

func (s *sheet) add(cells ...any) {
	switch s.format {
	case "ndjson":
		writeLine(s.w, object{s.columns, cells})
	case "csv":
		line := make([]string, len(cells))
		for i, c := range cells {
			line[i] = fmt.Sprint(c)
		}
		_ = s.csv.Write(line)
	default:
		s.rows = append(s.rows, cells)
	}
}

// end prints what has not left yet.
func (s *sheet) end() {
	switch s.format {
	case "json":
		list := make([]object, len(s.rows))
		for i, r := range s.rows {
			list[i] = object{s.columns, r}
		}
		writeJSON(s.w, list)
		return
	case "ndjson", "csv":
		s.csv.Flush()
		return
	}
	t := table.NewWriter()
	t.SetOutputMirror(s.w)
	style := table.StyleLight
	style.Options = table.Options{SeparateHeader: true}
	style.Format.Header = text.FormatDefault
	t.SetStyle(style)
	header := make(table.Row, len(s.columns))
	config := make([]table.ColumnConfig, len(s.columns))
	for i, c := range s.columns {
		header[i] = c
		config[i].Number = i + 1
		if slices.ContainsFunc(s.rows, func(row []any) bool { return isNumber(row[i]) }) {
			config[i].Align, config[i].AlignHeader = text.AlignRight, text.AlignRight
		}
	}
	t.AppendHeader(header)
	t.SetColumnConfigs(config)
	for i, r := range append(s.rows, s.foot...) {
		row := make(table.Row, len(r))
		for i, cell := range r {
			row[i] = console.Plain(fmt.Sprint(cell))
			if c, ok := cell.(market.Credits); ok {
				row[i] = aligned(c)
			}
		}
		if i == len(s.rows) {
			t.AppendSeparator()
		}
		t.AppendRow(row)
	}
	t.Render()
}

// aligned gives credits all nine decimals, so that a column's points stand under one another.
func aligned(c market.Credits) string {
	s := c.String()
	point := strings.IndexByte(s, '.')
	if point < 0 {
		s, point = s+".", len(s)
	}
	return s + "000000000"[len(s)-point-1:]
}

func isNumber(v any) bool {
	switch v.(type) {
	case int, int64, uint64, market.Credits:
		return true
	}
	return false
}

// object is a JSON object whose members keep their order.
type object struct {
	names  []string
	values []any
}

// MarshalJSON implements json.Marshaler.
func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, name := range o.names {
		if i > 0 {
			b.WriteByte(',')
		}
		value, err := json.Marshal(o.values[i])
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "%q:%s", name, value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

func writeJSON(w io.Writer, v any) {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	_ = e.Encode(v)
}

func writeLine(w io.Writer, v any) {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(v)
}
