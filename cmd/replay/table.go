package replay

import (
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"souk/market"
)

// Write prints the report for people.
func (r Report) Write(w io.Writer) {
	t := r.Total
	fmt.Fprintf(w, "%d tasks asked, %d served in %.1f s (%.0f a second); %d dialogues to their end, %d "+
		"broken off\n",
		t.Asked, t.Served, r.Seconds, float64(t.Served)/max(r.Seconds, 1e-9), r.Dialogues, r.BrokenOff)
	fmt.Fprintf(w, "tokens   %s prompt, of which %.1f %% from cache; %s output\n", count(t.Prompt),
		100*t.Share, count(t.Output))
	fmt.Fprintf(w, "TTFT     p50 %s, p99 %s, as the clients saw it\n", MS(t.TTFT.P50), MS(t.TTFT.P99))
	if j := r.Judged; j != nil {
		fmt.Fprintf(w, "quality  %.2f on the mean of %d answers, by those that were recorded\n",
			j.Quality, j.Answers)
	}
	fmt.Fprintf(w, "paid     %s credits = cost %s to the agents + premiums %s; surplus %s\n",
		t.Cost+t.Premium, t.Cost, t.Premium, r.Surplus)
	if b := t.Bill; b.All > 0 {
		fmt.Fprintf(w, "bill     %.2f times the price card for all of it; of a task p50 %.2f, p99 %.2f, at most "+
			"%.2f\n", b.All, b.P50, b.P99, b.Most)
	}
	if len(r.Refused) > 0 {
		var each []string
		for _, x := range r.Refused {
			each = append(each, fmt.Sprintf("%s %d", x.Code, x.Count))
		}
		fmt.Fprintf(w, "refused  %s\n", strings.Join(each, ", "))
	}
	partTable(w, "Hubs", r.Hubs, false)
	partTable(w, "Agents", r.Agents, true)
	partTable(w, "Sources", r.Sources, false)
	partTable(w, "Clients", r.Clients, false)
	if len(r.Rounds) > 0 {
		r.roundTable(w)
	}
}

func partTable(w io.Writer, title string, ps []Part, agents bool) {
	if len(ps) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s\n", title)
	left := []any{""}
	if agents {
		left = []any{"", "model"}
	}
	t := Table(w, len(left), append(left, "asked", "served", "prompt", "cached", "output", "TTFT p50", "p99",
		"cost", "premium", "bill")...)
	for _, p := range ps {
		row := table.Row{p.Name, p.Asked, p.Served, count(p.Prompt), fmt.Sprintf("%.0f %%", 100*p.Share),
			count(p.Output),
			MS(p.TTFT.P50), MS(p.TTFT.P99), Amount(p.Cost), Amount(p.Premium),
			fmt.Sprintf("%.2f", p.Bill.All)}
		if agents {
			row = append(table.Row{p.Name, p.Model}, row[1:]...)
		}
		t.AppendRow(row)
	}
	t.Render()
}

func (r Report) roundTable(w io.Writer) {
	fmt.Fprint(w, "\nRounds\n")
	t := Table(w, 1, "hub", "rounds", "of several", "contested", "largest", "awards", "slot prices",
		"welfare")
	for _, x := range r.Rounds {
		t.AppendRow(table.Row{x.Hub, x.Rounds, x.Several, x.Contested, x.Largest, x.Awards,
			Amount(x.SlotPrices), Amount(x.Welfare)})
	}
	t.Render()
	var sizes []string
	for _, s := range r.RoundSizes {
		sizes = append(sizes, fmt.Sprintf("%d of %d", s.Rounds, s.Tasks))
	}
	if len(sizes) > 0 {
		fmt.Fprintf(w, "sizes    %s tasks\n", strings.Join(sizes, ", "))
	}
}

// Amount shows credits rounded to six digits behind the point, for tables; exact amounts are in the JSON.
func Amount(c market.Credits) string { return fmt.Sprintf("%.6f", float64(c)/float64(market.Credit)) }

// MS writes milliseconds as people read them.
func MS(x float64) string {
	switch {
	case x >= 1000:
		return fmt.Sprintf("%.2f s", x/1000)
	case x >= 10:
		return fmt.Sprintf("%.0f ms", x)
	}
	return fmt.Sprintf("%.2f ms", x)
}

// count writes 1234567 as 1,234,567.
func count(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Table is a table as all commands print it: no frame, no capitals, and to the right all columns but the
// first so many.
func Table(w io.Writer, left int, header ...any) table.Writer {
	t := table.NewWriter()
	t.SetOutputMirror(w)
	style := table.StyleLight
	style.Options = table.Options{SeparateHeader: true}
	style.Format.Header = text.FormatDefault
	t.SetStyle(style)
	t.AppendHeader(header)
	var right []table.ColumnConfig
	for n := left + 1; n <= len(header); n++ {
		right = append(right,
			table.ColumnConfig{Number: n, Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	t.SetColumnConfigs(right)
	return t
}
