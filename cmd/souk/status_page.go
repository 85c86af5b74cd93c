package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"

	"souk/bus"
	"souk/bus/natsauth"
	"souk/cmd/console"
	"souk/cmd/local"
	"souk/market"
)

const (
	pageWidth = 80
	pageRows  = 20 // of a table, or findings
)

// statusPage is a report as a page.
type statusPage struct{ *local.Report }

// page prints the report for people: 80 columns, no colour.
func (r statusPage) page(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s at %s\n", short(r.Market, 50), clock(r.AtMS))
	switch n := len(r.Findings); n {
	case 0:
		b.WriteString("All is well.\n")
	case 1:
		b.WriteString("One thing is not well:\n")
	default:
		fmt.Fprintf(&b, "%d things are not well:\n", n)
	}
	for _, f := range r.Findings[:min(pageRows, len(r.Findings))] {
		what := f.Part + ": " + f.What
		if f.Do != "" {
			what += " (" + f.Do + ")"
		}
		mark := "  ! "
		for line := range strings.SplitSeq(text.WrapSoft(console.Plain(what), pageWidth-5), "\n") {
			fmt.Fprintf(&b, "%s%s\n", mark, strings.TrimRight(line, " "))
			mark = "    "
		}
	}
	more(&b, len(r.Findings), pageRows)
	r.parts(&b)
	r.hubs(&b)
	r.models(&b)
	r.money(&b)
	r.credentials(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

// more says that a list goes on.
func more(b *strings.Builder, n, shown int) {
	if n > shown {
		fmt.Fprintf(b, "  ... and %d more: -o json has all\n", n-shown)
	}
}

// short is a name that others chose, in at most so many columns.
func short(s string, most int) string { return text.Snip(console.Plain(s), most, "~") }

// rows prints a table; a line that would be longer than the page is cut.
func rows(b *strings.Builder, head string, n int, row func(i int) []any) {
	var out strings.Builder
	t := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, strings.ReplaceAll(head, " ", "\t"))
	for i := range min(n, pageRows) {
		cells := row(i)
		for k, c := range cells {
			if k > 0 {
				io.WriteString(t, "\t")
			}
			fmt.Fprint(t, c)
		}
		io.WriteString(t, "\n")
	}
	t.Flush()
	for line := range strings.Lines(out.String()) {
		b.WriteString(text.Snip(strings.TrimRight(line, " \n"), pageWidth, "~") + "\n")
	}
	more(b, n, pageRows)
}

func (r statusPage) parts(b *strings.Builder) {
	if r.Parts == nil {
		return
	}
	b.WriteByte('\n')
	rows(b, "part name journal process", len(r.Parts.Running), func(i int) []any {
		p := r.Parts.Running[i]
		by, process := "", ""
		if p.Kind == "hub" || p.Kind == "treasury" {
			by = short(p.Journal, 16)
		}
		if p.PID != 0 {
			process = fmt.Sprintf("%d on %s", p.PID, short(p.Host, 20))
		}
		return []any{p.Kind, short(p.Name, 20), by, process}
	})
	fmt.Fprintf(b, "agents: %d, on nodes: %d\n", r.Parts.Agents, r.Parts.Nodes)
}

func (r statusPage) hubs(b *strings.Builder) {
	if len(r.Hubs) == 0 {
		return
	}
	b.WriteByte('\n')
	rows(b, "hub agents slots free waiting running served refused regime", len(r.Hubs), func(i int) []any {
		h := r.Hubs[i]
		if h.Status == nil {
			return []any{short(h.Domain, 14), "?", "?", "?", "?", "?", "?", "?", "says nothing"}
		}
		cells := []any{short(h.Domain, 14), h.Status.Agents, h.Status.Slots, h.Status.Free, h.Status.Waiting,
			"?",
			"?", "?", short(h.Status.Regime, 10)}
		if h.Feed != nil {
			st := h.Feed.State
			cells[5], cells[6], cells[7] = st.Running, st.Served, st.Refused
		}
		return cells
	})
}

func (r statusPage) models(b *strings.Builder) {
	type line struct {
		domain string
		bus.ModelStatus
	}
	var all []line
	for _, h := range r.Hubs {
		if h.Status != nil {
			for _, m := range h.Status.Models {
				all = append(all, line{h.Domain, m})
			}
		}
	}
	if len(all) == 0 {
		return
	}
	slices.SortStableFunc(all, func(a, b line) int { return cmp.Compare(a.Model, b.Model) })
	b.WriteString("\nModels; credits a million tokens computed, cached, output; a slot for a task\n")
	rows(b, "model hub agents free miss hit out slot", len(all), func(i int) []any {
		m := all[i]
		return []any{short(m.Model, 24), short(m.domain, 10), m.Agents, m.Free, brief(m.Price.Miss),
			brief(m.Price.Hit),
			brief(m.Price.Out), brief(m.SlotPrice)}
	})
}

// brief is an amount to four digits, which suffices to see how large it is.
func brief(c market.Credits) string { return digits(float64(c)) }

func digits(nanos float64) string { return fmt.Sprintf("%.4g", nanos/float64(market.Credit)) }

func (r statusPage) money(b *strings.Builder) {
	var avail, held, surplus, fee, payable market.Credits
	silent := 0
	for _, h := range r.Hubs {
		if h.Feed == nil {
			silent++
			continue
		}
		st := h.Feed.State
		avail, held, payable = avail+st.Avail, held+st.Held, payable+st.Payable
		surplus, fee = surplus+st.Surplus, fee+st.Fee
	}
	b.WriteString("\nMoney in credits")
	if silent > 0 {
		fmt.Fprintf(b, ", without what %d hubs have that do not answer", silent)
	}
	b.WriteByte('\n')
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	sum := func(what string, c market.Credits) { fmt.Fprintf(t, "  %s\t%s\t\n", what, c) }
	if m := r.Money; m != nil {
		sum("paid in, ever", m.Deposits)
		sum("clients', at the treasury", m.Prepaid)
	}
	sum("clients', at hubs, available", avail)
	sum("clients', held for tasks that run", held)
	sum("owed to agents", payable)
	sum("surplus", surplus)
	sum("flat fees", fee)
	t.Flush()
}

func (r statusPage) credentials(b *strings.Builder) {
	if r.Known == 0 {
		return
	}
	fmt.Fprintf(b, "\nCredentials: %d known, %d end within %d days\n", r.Known, len(r.Credentials),
		natsauth.Warn/(24*time.Hour))
}
