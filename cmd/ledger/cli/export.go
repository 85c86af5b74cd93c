package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"souk/bus/tip"
	"souk/ledger"
	"souk/ledger/inspect"
)

var exports = []string{"hledger", "ledger", "beancount", "csv", "json"}

func (e *env) exportCommand() *cobra.Command {
	var when period
	var format string
	c := &cobra.Command{
		Use:   "export [PATH...]",
		Short: "Everything that moved, for hledger, Ledger, beancount, spreadsheets and programs",
		Long: `export writes each record that moves money as a transaction with all its legs, in exact amounts,
and at the end of each journal what each account must have: hledger, Ledger and beancount refuse a file
that does not come to that. client, agent, model, task, key and an operator's ref stand with each transaction
where they are known.
What was before --from is one transaction, of the balances then; --to itself is left out.

An account is named after its journal and itself, in words as beancount takes them: client:ann:avail of
the journal general is Assets:General:Client:Ann:Avail. What is not of ASCII letters and digits is written so
that no two accounts share a name.`,
		Example: `  ledger export --format hledger > market.journal; hledger -f market.journal bal
  ledger export --format beancount --month 2026-11 > market.beancount
  ledger export --format csv --journal general --from 2026-11-01`,
		RunE: func(cmd *cobra.Command, paths []string) error {
			if cmd.Flags().Changed("output") {
				return errors.New("--output: an export has formats of its own: write --format " + e.output)
			}
			if !slices.Contains(exports, format) {
				return fmt.Errorf("--format %q: take %s", format, strings.Join(exports, ", "))
			}
			span, err := when.read()
			if err != nil {
				return err
			}
			sources, err := e.open(paths)
			if err != nil {
				return err
			}
			x, w, unit := exporter{}, cmd.OutOrStdout(), cmp.Or(currencyOf(sources), ledger.DefaultCurrency)
			x.from, x.to = span.Bounds()
			if format == "csv" || format == "json" {
				x.out = newPrinter(w, format, unit)
			} else {
				b := &books{w: w, bean: format == "beancount", unit: unit, zone: span.Zone}
				b.begin()
				x.out = b
			}
			for _, s := range sources {
				if err := x.journal(cmd.Context(), s); err != nil {
					return err
				}
			}
			x.out.end()
			return nil
		},
	}
	c.Flags().StringVar(&format, "format", "hledger", strings.Join(exports, ", "))
	when.flags(c)
	return c
}

// exporter writes journals of a span of time, one after the other.
type exporter struct {
	from, to int64 // Unix nanoseconds
	out      interface {
		// balances at a time from which on everything is said
		opening(journal string, at int64, legs []ledger.Leg)
		print(journal string, f *ledger.Frame, r *ledger.Record, of *about)
		// what a journal's accounts have at its end
		closing(journal string, has balances)
		end()
	}
}

// journal writes one journal. It keeps what it has to know of open holds and the accounts, and nothing else.
func (x *exporter) journal(ctx context.Context, s *inspect.Source) error {
	begun, has := x.from == math.MinInt64, balances{}
	opening := func() {
		if legs := has.legs(); !begun && len(legs) > 0 {
			x.out.opening(s.Name, x.from, legs)
		}
		begun = true
	}
	err := s.Facts(ctx, x.to, func(fact *ledger.Fact) error {
		f, r := fact.Frame, fact.Record
		if f.Time >= x.from && len(r.Legs) > 0 {
			opening()
			of := speaks(fact)
			x.out.print(s.Name, f, r, &of)
		}
		return has.move(s.Name, r.Legs)
	})
	if err == nil {
		opening()
		x.out.closing(s.Name, has)
	}
	return err
}

// speaks says what a record is about: its hold, or else its order and whose accounts it moves.
func speaks(of *ledger.Fact) (o about) {
	h := of.Hold
	if h == nil {
		h = of.Record.Hold
	}
	if h != nil {
		return about{Client: h.Client, Agent: h.Agent, Model: h.Model, Task: h.Task, Key: h.Key}
	}
	var said *tip.Order
	if t := of.Record.Transfer; t != nil {
		o.Client, said = t.Client, t.Order
	} else if m := of.Record.Move; m != nil {
		o.Client, said = m.From, m.Order
	}
	if said != nil {
		o.Agent, o.Ref = said.Agent, said.Ref
		if c := said.Capture; c != nil {
			o.Model, o.Key = c.Model, c.APIKey
		}
		if len(said.Shares) > 0 {
			return o // it is about many
		}
	}
	for _, l := range of.Record.Legs {
		switch part := strings.Split(l.Account, ":"); {
		case len(part) != 3:
		case part[0] == "client":
			o.Client = cmp.Or(o.Client, part[1])
		case part[0] == "agent":
			o.Agent = cmp.Or(o.Agent, part[1])
		}
	}
	return o
}
