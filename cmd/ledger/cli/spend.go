package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"souk/bus"
	"souk/ledger/inspect"
)

const sumsLong = `
A task counts when it was paid: by the time of the frame that has its capture, as the hub's clock said.
--from belongs to the time, --to does not; days and months are those of --zone. --by tells rows apart by
client, agent, model, key, day or month, and tag:NAME, the value of one tag, in the order in which they are
named. Ids that differ by case only are different ones. A key with a budget spends as a client of its own,
CLIENT-KEY. Amounts are exact. In CSV, names that a spreadsheet
would take for formulas have a ' before them.`

func (e *env) spendCommand() *cobra.Command {
	return e.sumsCommand("client", &cobra.Command{
		Use:   "spend [PATH...]",
		Short: "What clients have spent, by client, model, key, day or agent",
		Long: `spend sums up what tasks came to, in all journals of hubs: cost, which their agents are due by the price
card, and premium, which was paid for the slot. Paid is both: the same as /v1/usage says, as receipts do and
as the book took from clients. Refunded is what came back in that time, of whatever was paid before.
` + sumsLong,
		Example: `  ledger spend --month 2026-11
  ledger spend --client acme --month 2026-11 --by model,key
  ledger spend --client acme --from 2026-11-01 --to 2026-11-08 --by day --zone Europe/Berlin
  ledger spend --tag user=ann --by model -O csv`,
	}, "cost", "premium", "paid", "refunded")
}

func (e *env) earnCommand() *cobra.Command {
	return e.sumsCommand("agent", &cobra.Command{
		Use:   "earn [PATH...]",
		Short: "What agents have earned, by agent, model, day or client",
		Long: `earn sums up what agents are due for the tasks that they have served, in all journals of hubs, what of it
was refunded to clients, their shares of surplus, and what was remitted to them; ledger bal 'agent:*' says
what is left.
` + sumsLong,
		Example: `  ledger earn --month 2026-11
  ledger earn --agent h200 --by day,model --month 2026-11
  ledger earn --by agent,client -O csv`,
	}, "earned", "refunded", "surplus", "remitted")
}

// sumsCommand adds to a command the flags of sums, and what it does. more are the columns of money.
func (e *env) sumsCommand(by string, c *cobra.Command, more ...string) *cobra.Command {
	var when period
	q := inspect.Sums{Earned: by == "agent"}
	var tags []string
	c.RunE = func(cmd *cobra.Command, paths []string) (err error) {
		if q.Period, err = when.read(); err != nil {
			return err
		}
		for _, t := range tags {
			name, value, _ := strings.Cut(t, "=")
			q.Tags = append(q.Tags, bus.Tag{Name: name, Value: value})
		}
		sources, err := e.open(paths)
		if err != nil {
			return err
		}
		var shown progress
		shown.watch(sources)
		sums, err := q.Sum(cmd.Context(), sources)
		shown.end()
		if err != nil {
			return err
		}
		if e.journal == "" && len(q.Missing) > 0 {
			fmt.Fprintf(cmd.ErrOrStderr(), "ledger: the journal of %s is not among these, and its tasks are not in "+
				"these sums\n", strings.Join(q.Missing, ", "))
		}
		columns := slices.Concat(q.By, []string{"tasks", "prompt", "cached", "output"}, more)
		columns = append(columns, "currency")
		return e.writeSums(cmd, &q, sums, currencyOf(sources), columns)
	}
	f := c.Flags()
	f.StringSliceVar(&q.By, "by", []string{by}, "what rows are told apart by")
	f.StringSliceVar(&q.Clients, "client", nil, "only tasks of these clients")
	f.StringSliceVar(&q.Agents, "agent", nil, "only tasks that these agents served")
	f.StringSliceVar(&q.Models, "model", nil, "only tasks for these models")
	f.StringSliceVar(&q.Keys, "key", nil, "only tasks that came with these API keys, by their ids")
	f.StringArrayVar(&tags, "tag", nil, "only tasks with this tag, like user=ann, or user for any; all of them, if several")
	when.flags(c)
	return c
}

// harmless is a name that anyone may have made up, as a format takes it: in a table without what a terminal
// obeys, in CSV with ' before what a spreadsheet would take for a formula.
func harmless(format, name string) string {
	switch {
	case format == "table" && strings.ContainsFunc(name, func(r rune) bool { return !strconv.IsPrint(r) }):
		return strconv.Quote(name)
	case format == "csv" && strings.IndexAny(name, "=+-@'\t\r＝＋－＠") == 0:
		return "'" + name
	}
	return name
}

// writeSums prints sums, and under a table what they come to together.
func (e *env) writeSums(cmd *cobra.Command, q *inspect.Sums, sums []inspect.Sum, unit string,
	columns []string) error {
	out := newSheet(cmd.OutOrStdout(), e.output, columns...)
	cells := func(of []string, s *inspect.Sum) (row []any) {
		for _, name := range of {
			row = append(row, harmless(e.output, name))
		}
		row = append(row, s.Tasks, s.Prompt, s.Cached, s.Output, s.Cost)
		if q.Earned {
			return append(row, s.Refunded, s.Surplus, s.Remitted, unit)
		}
		return append(row, s.Paid-s.Cost, s.Paid, s.Refunded, unit)
	}
	var all inspect.Sum
	for i := range sums {
		if err := all.Add(&sums[i]); err != nil {
			return err
		}
		out.add(cells(sums[i].Of, &sums[i])...)
	}
	none := make([]string, len(q.By))
	none[0] = "together"
	out.foot = [][]any{cells(none, &all)}
	out.end()
	return nil
}
