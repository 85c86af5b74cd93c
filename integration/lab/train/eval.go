package train

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"souk/classifier/model"
)

// Confusion counts, for each true label, which label the model gave.
type Confusion struct {
	Labels []string
	Counts [][]int // [truth][named]
}

// NewConfusion returns an empty table over sorted labels.
func NewConfusion(labels []string) *Confusion {
	c := &Confusion{Labels: slices.Clone(labels)}
	for range labels {
		c.Counts = append(c.Counts, make([]int, len(labels)))
	}
	return c
}

func (c *Confusion) add(truth, named string) {
	c.Counts[slices.Index(c.Labels, truth)][slices.Index(c.Labels, named)]++
}

// Rows returns the number of rows judged.
func (c *Confusion) Rows() (n int) {
	for _, row := range c.Counts {
		for _, k := range row {
			n += k
		}
	}
	return n
}

// Accuracy is the share named right; 0 for an empty table.
func (c *Confusion) Accuracy() float64 {
	right := 0
	for i := range c.Labels {
		right += c.Counts[i][i]
	}
	return float64(right) / float64(max(1, c.Rows()))
}

// F1 is the harmonic mean of precision and recall of one label, and how many rows have it.
func (c *Confusion) F1(l int) (f1 float64, support int) {
	named := 0
	for i := range c.Labels {
		support += c.Counts[l][i]
		named += c.Counts[i][l]
	}
	return 2 * float64(c.Counts[l][l]) / float64(max(1, support+named)), support
}

// MacroF1 is the mean of F1 over the labels that rows have: each counts the same, however rare.
func (c *Confusion) MacroF1() float64 {
	var sum float64
	n := 0
	for l := range c.Labels {
		if f1, support := c.F1(l); support > 0 {
			sum += f1
			n++
		}
	}
	return sum / float64(max(1, n))
}

// Write prints the table with truth in rows, names given in columns.
func (c *Confusion) Write(out io.Writer) { fmt.Fprintln(out, c.table().Render()) }

// Markdown is the table for a page.
func (c *Confusion) Markdown() string { return c.table().RenderMarkdown() }

func (c *Confusion) table() table.Writer {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.Style().Format.Header = text.FormatDefault
	head := table.Row{"truth \\ named"}
	configs := []table.ColumnConfig{}
	for i, l := range c.Labels {
		head = append(head, l)
		configs = append(configs, table.ColumnConfig{Number: i + 2, Align: text.AlignRight, WidthMax: 12})
	}
	t.AppendHeader(append(head, "rows", "F1"))
	t.SetColumnConfigs(configs)
	for i, l := range c.Labels {
		row := table.Row{l}
		for _, n := range c.Counts[i] {
			if n == 0 {
				row = append(row, "")
			} else {
				row = append(row, n)
			}
		}
		f1, support := c.F1(i)
		t.AppendRow(append(row, support, fmt.Sprintf("%.3f", f1)))
	}
	return t
}

// Judged is one row with the model's label.
type Judged struct {
	Truth, Named string
	Confidence   float64
}

// Judge lets a model name rows. Labels in rename count as others, as they do at the door.
func Judge(m *model.Model, rows []Row, rename map[string]string) []Judged {
	var s model.Scratch
	reading := m.Rename(rename)
	out := make([]Judged, len(rows))
	for i, r := range rows {
		label, confidence := reading.Read(m.Classify(&s, r.System, r.Prompt))
		out[i] = Judged{renamed(r.Domain, rename), label, confidence}
	}
	return out
}

func renamed(label string, rename map[string]string) string {
	if to, ok := rename[label]; ok {
		return to
	}
	return label
}

// Tally counts judged rows over the labels of the model and of the rows.
func Tally(judged []Judged) *Confusion {
	var labels []string
	for _, j := range judged {
		labels = append(labels, j.Truth, j.Named)
	}
	slices.Sort(labels)
	c := NewConfusion(slices.Compact(labels))
	for _, j := range judged {
		c.add(j.Truth, j.Named)
	}
	return c
}

// Bin is a range of confidence, and how often names given in it were right.
type Bin struct {
	From, To    float64
	Rows, Right int
	Mean        float64 // confidence
}

// Calibration sorts judged rows into tenths of confidence.
func Calibration(judged []Judged) []Bin {
	bins := make([]Bin, 10)
	for i := range bins {
		bins[i].From, bins[i].To = float64(i)/10, float64(i+1)/10
	}
	for _, j := range judged {
		b := &bins[min(9, int(j.Confidence*10))]
		b.Rows++
		b.Mean += j.Confidence
		if j.Truth == j.Named {
			b.Right++
		}
	}
	for i := range bins {
		bins[i].Mean /= float64(max(1, bins[i].Rows))
	}
	return bins
}

// ParseRename reads "a=b,c=b": labels a and c count as b.
func ParseRename(s string) (map[string]string, error) {
	rename := map[string]string{}
	for _, pair := range strings.Split(s, ",") {
		if pair == "" {
			continue
		}
		from, to, ok := strings.Cut(pair, "=")
		if !ok || from == "" || to == "" {
			return nil, fmt.Errorf("%q: want label=label, separated by commas", pair)
		}
		rename[from] = to
	}
	return rename, nil
}
