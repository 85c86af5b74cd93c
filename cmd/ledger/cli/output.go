package cli

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"souk/market"
)

var formats = []string{"table", "json", "ndjson", "csv"}

// sheet is rows under a header, printed in any format. Cells are strings, integers and credits.
type sheet struct {
	columns []string
	rows    [][]any
}

func (s *sheet) add(cells ...any) { s.rows = append(s.rows, cells) }

// stream writes rows as they come, with what is kept of them bounded: as ndjson or csv. A table has to know
// them all.
type stream struct {
	columns []string
	json    io.Writer
	csv     *csv.Writer
	cells   []string
}

// streamTo begins a stream, or returns nil for a format that cannot be one.
func streamTo(w io.Writer, format string, columns []string) *stream {
	switch format {
	case "ndjson":
		return &stream{columns: columns, json: w}
	case "csv":
		s := &stream{columns: columns, csv: csv.NewWriter(w)}
		_ = s.csv.Write(columns) // the error comes back from end
		return s
	}
	return nil
}

func (s *stream) add(cells ...any) error {
	if s.json != nil {
		return writeLine(s.json, object{s.columns, cells})
	}
	s.cells = s.cells[:0]
	for _, c := range cells {
		s.cells = append(s.cells, fmt.Sprint(c))
	}
	return s.csv.Write(s.cells)
}

func (s *stream) end() error {
	if s.csv == nil {
		return nil
	}
	s.csv.Flush()
	return s.csv.Error()
}

func (s *sheet) write(w io.Writer, format string) error {
	if format == "json" {
		return writeJSON(w, s.objects())
	}
	if out := streamTo(w, format, s.columns); out != nil {
		for _, r := range s.rows {
			if err := out.add(r...); err != nil {
				return err
			}
		}
		return out.end()
	}
	t := table.NewWriter()
	t.SetOutputMirror(w)
	style := table.StyleLight
	style.Options = table.Options{SeparateHeader: true}
	style.Format.Header = text.FormatDefault
	t.SetStyle(style)
	header := make(table.Row, len(s.columns))
	config := make([]table.ColumnConfig, len(s.columns))
	for i, c := range s.columns {
		header[i] = c
		config[i].Number = i + 1
		if len(s.rows) > 0 && isNumber(s.rows[0][i]) {
			config[i].Align, config[i].AlignHeader = text.AlignRight, text.AlignRight
		}
	}
	t.AppendHeader(header)
	t.SetColumnConfigs(config)
	for _, r := range s.rows {
		row := make(table.Row, len(r))
		for i, cell := range r {
			row[i] = fmt.Sprint(cell)
			if c, ok := cell.(market.Credits); ok {
				row[i] = aligned(c)
			}
		}
		t.AppendRow(row)
	}
	t.Render()
	return nil
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

func (s *sheet) objects() []object {
	list := make([]object, len(s.rows))
	for i, r := range s.rows {
		list[i] = object{s.columns, r}
	}
	return list
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

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

func writeLine(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
