package bench

import (
	"fmt"
	"io"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// Bar is one thing asked, and what was measured.
type Bar struct {
	Name     string  `json:"name"`
	Asked    string  `json:"asked"`    // in words
	Limit    float64 `json:"limit"`    // the same as a number
	Measured float64 `json:"measured"` // median of the runs
	Unit     string  `json:"unit"`
	AtLeast  bool    `json:"at_least,omitempty"` // more is better
	Note     string  `json:"note,omitempty"`
	Runs     []float64
}

// OK says whether the bar was reached.
func (b Bar) OK() bool {
	if b.AtLeast {
		return b.Measured >= b.Limit
	}
	return b.Measured <= b.Limit
}

func (b Bar) verdict() string {
	if b.Asked == "" {
		return ""
	}
	if b.OK() {
		return "ok"
	}
	return "short"
}

// Write prints how each bar was measured, and then one table with a row for each.
func Write(w io.Writer, bars []Bar) {
	for _, b := range bars {
		if b.Note != "" {
			fmt.Fprintf(w, "%s: %s\n", b.Name, b.Note)
		}
	}
	fmt.Fprintln(w)
	t := table.NewWriter()
	t.SetOutputMirror(w)
	style := table.StyleLight
	style.Options = table.Options{SeparateHeader: true}
	style.Format.Header = text.FormatDefault
	t.SetStyle(style)
	t.AppendHeader(table.Row{"name", "asked", "measured", ""})
	for _, b := range bars {
		t.AppendRow(table.Row{b.Name, b.Asked, number(b.Measured) + " " + b.Unit, b.verdict()})
	}
	t.SetColumnConfigs([]table.ColumnConfig{{Number: 3, Align: text.AlignRight, AlignHeader: text.AlignRight}})
	t.Render()
}

func number(x float64) string {
	switch {
	case x == 0:
		return "0"
	case x < 10:
		return fmt.Sprintf("%.3g", x)
	case x < 1000:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.0f", x)
}
