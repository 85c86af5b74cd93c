package bench

import (
	"fmt"
	"io"

	"github.com/jedib0t/go-pretty/v6/table"

	"souk/cmd/replay"
)

// Bar is one requirement and its measurement.
type Bar struct {
	Name     string  `json:"name"`
	Limit    float64 `json:"limit,omitempty"` // in Unit, or with Of in multiples
	Asked    string  `json:"asked,omitempty"` // in words; "": nothing
	Measured float64 `json:"measured"`        // median of the runs
	Unit     string  `json:"unit"`
	AtLeast  bool    `json:"at_least,omitempty"` // more is better
	Of       string  `json:"of,omitempty"`       // what multiples are of: "floor", "search"
	Base     float64 `json:"base,omitempty"`     // that, in Unit: median of the runs
	Multiple float64 `json:"multiple,omitempty"` // median of each run's, or as Low says
	// between what the multiple lies, or where there is none the figure, with 95 %; both 0 if nobody knows
	Low   float64   `json:"low,omitempty"`
	High  float64   `json:"high,omitempty"`
	Note  string    `json:"note,omitempty"`
	Runs  []float64 `json:"runs"`
	Bases []float64 `json:"bases,omitempty"` // of each run
	Also  *Other    `json:"also,omitempty"`
}

// Other is another base, of whose multiple nothing is asked. It was measured in turn with the first.
type Other struct {
	Of       string    `json:"of"`
	Base     float64   `json:"base"` // in the bar's unit: median of the runs
	Multiple float64   `json:"multiple"`
	Bases    []float64 `json:"bases"`
}

// ratio is a bar whose limit is a multiple of a base. The base was measured alternately with it, so that each
// run has its own multiple.
func ratio(name string, limit float64, of, unit string, runs, bases []float64, note string) Bar {
	b := Bar{Name: name, Limit: limit, Unit: unit, Of: of, Note: note, Runs: runs, Bases: bases}
	b.Measured, b.Base = median(runs), median(bases)
	if limit > 0 {
		b.Asked = fmt.Sprintf("at most %g x %s", limit, of)
	}
	b.Multiple = multipleOf(runs, bases)
	return b
}

// multipleOf is the median of each run's multiple.
func multipleOf(runs, bases []float64) float64 {
	multiples := make([]float64, len(runs))
	for i := range runs {
		multiples[i] = runs[i] / bases[i]
	}
	return median(multiples)
}

// OK says whether the bar was reached: one of a multiple by its multiple alone.
func (b Bar) OK() bool {
	got := b.Measured
	if b.Of != "" {
		got = b.Multiple
	}
	if b.AtLeast {
		return got >= b.Limit
	}
	return got <= b.Limit
}

func (b Bar) verdict() string {
	switch {
	case b.Asked == "":
		return ""
	case b.Low < b.Limit && b.Limit < b.High: // nobody can tell
		return "open"
	case b.OK():
		return "ok"
	}
	return "short"
}

// multiple describes the measured multiple of the base, and the base.
func (b Bar) multiple() string {
	if b.Of == "" {
		return ""
	}
	return fmt.Sprintf("%s%s x %s %s", number(b.Multiple), b.between(), number(b.Base), b.Unit)
}

// measured is the figure, with what it lies between where no multiple of it is asked.
func (b Bar) measured() string {
	if b.Of != "" {
		return number(b.Measured) + " " + b.Unit
	}
	return number(b.Measured) + b.between() + " " + b.Unit
}

func (b Bar) between() string {
	if b.Low == 0 && b.High == 0 {
		return ""
	}
	return fmt.Sprintf(" (%s to %s)", number(b.Low), number(b.High))
}

// also describes the multiple of the other base, if there is one.
func (b Bar) also() string {
	if b.Also == nil {
		return ""
	}
	return fmt.Sprintf("%s x %s %s", number(b.Also.Multiple), b.Also.Of, number(b.Also.Base))
}

// Write prints how each bar was measured, and then one table with a row for each.
func Write(w io.Writer, bars []Bar) {
	for _, b := range bars {
		if b.Note != "" {
			fmt.Fprintf(w, "%s: %s\n", b.Name, b.Note)
		}
	}
	fmt.Fprintln(w)
	t := replay.Table(w, 2, "name", "asked", "measured", "multiple", "", "also")
	for _, b := range bars {
		t.AppendRow(table.Row{b.Name, b.Asked, b.measured(), b.multiple(), b.verdict(), b.also()})
	}
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
