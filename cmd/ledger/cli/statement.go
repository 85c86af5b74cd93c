package cli

import (
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"time"

	"github.com/spf13/cobra"

	"souk/cmd/console"
	"souk/ledger"
	"souk/ledger/inspect"
	"souk/market"
)

//go:embed statement.html
var statementText string

var statementPage = template.Must(template.New("").Funcs(template.FuncMap{"money": aligned}).
	Parse(statementText))

func (e *env) statementCommand() *cobra.Command {
	var when period
	c := &cobra.Command{
		Use:   "statement CLIENT --month MONTH [PATH...]",
		Short: "A client's month: what it had, what came and went, what it has",
		Long: `statement makes a client's account of a month: the opening balance, deposits, withdrawals, transfers,
shares of surplus, usage by model, refunds, and the closing balance, which is what ledger bal says of the
client's accounts together with what is under way. Money that goes between the treasury and hubs is left out:
it is the client's wherever it is. So all journals of the market have to be among those that are read.

Each line counts by the time of its record. Where no journal goes beyond the month, which may not be over, the
closing balance says when they end. -O takes html as well: one page, to be printed or filed.`,
		Example: `  ledger statement acme --month 2026-11
  ledger statement acme --month 2026-11 --zone Europe/Berlin -O csv
  ledger statement acme --month 2026-11 -O html > acme-2026-11.html`,
		Args: console.Takes(1, console.Any),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !ledger.ValidID(args[0]) {
				return fmt.Errorf("%.80q is no client: ids have 1 to 64 letters, digits, '-' or '_'", args[0])
			}
			if when.month == "" {
				return errors.New("--month is missing: write one like --month 2026-11")
			}
			p, err := when.read()
			if err != nil {
				return err
			}
			sources, err := e.open(args[1:])
			if err != nil {
				return err
			}
			var shown progress
			shown.watch(sources)
			s, err := inspect.State(cmd.Context(), sources, args[0], p)
			shown.end()
			if err != nil {
				return err
			}
			return e.writeStatement(cmd.OutOrStdout(), s)
		},
	}
	when.monthFlags(c)
	return c
}

func (e *env) writeStatement(w io.Writer, s *inspect.Statement) error {
	moment := func(nanos int64) string {
		return time.Unix(0, nanos).In(s.Zone).Format("2006-01-02 15:04:05Z07:00")
	}
	from, to := moment(s.From.UnixNano()), moment(s.To.UnixNano())
	span, ends := fmt.Sprintf("from %s until %s", from, to), ""
	if s.Ends != 0 {
		ends = "journals end " + moment(s.Ends)
	}
	var spent market.Credits
	var tasks int64
	for i := range s.Usage {
		spent, tasks = spent-s.Usage[i].Paid, tasks+s.Usage[i].Tasks
	}
	if e.output == "html" {
		return statementPage.Execute(w, map[string]any{"Statement": s, "Span": span, "Moment": moment,
			"Tasks": tasks, "Spent": spent, "Ends": ends})
	}
	if e.output == "table" {
		fmt.Fprintf(w, "Statement of %s %s, in %s\n\n", s.Client, span, s.Currency)
	}
	out := newSheet(w, e.output, "line", "time", "about", "record", "note", "tasks", "prompt", "cached",
		"output", "amount", "currency")
	var none any = int64(0)
	if e.output == "table" {
		none = ""
	}
	add := func(what, time, about, record, note string, u *inspect.Sum, amount market.Credits) {
		cells := []any{what, time, harmless(e.output, about), record, harmless(e.output, note), none, none,
			none, none}
		if u != nil {
			cells = append(cells[:5], u.Tasks, u.Prompt, u.Cached, u.Output)
		}
		out.add(append(cells, amount, s.Currency)...)
	}
	add("opening", from, "", "", "", nil, s.Opening)
	for _, l := range s.Lines {
		add(l.What, moment(l.Time), l.About, l.Record, l.Note, nil, l.Amount)
	}
	for i := range s.Usage {
		u := &s.Usage[i]
		add("usage", "", u.Model, "", "", u, -u.Paid)
	}
	add("closing", to, "", "", ends, nil, s.Closing)
	for _, p := range s.Places {
		out.foot = append(out.foot, []any{"of that", "", p.Journal, p.Account, "", "", "", "", "", p.Amount,
			s.Currency})
	}
	out.end()
	return nil
}
