package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"souk/cmd/console"
	"souk/ledger"
	"souk/ledger/inspect"
	"souk/ledger/journal"
	"souk/market"
)

// split tells the arguments that exist as files from those that are something else.
func split(args []string) (paths, rest []string) {
	for _, a := range args {
		if _, err := os.Stat(a); err == nil {
			paths = append(paths, a)
		} else {
			rest = append(rest, a)
		}
	}
	return paths, rest
}

// book builds the state of a journal.
func book(ctx context.Context, s *inspect.Source) (*ledger.Book, error) {
	b := ledger.NewBook()
	err := s.Frames(ctx, func(f *ledger.Frame) error { return b.ApplyFrame(*f) })
	if err != nil {
		return nil, fmt.Errorf("%s: %w; see: ledger check %s", s.Name, err, s.Dir)
	}
	return b, nil
}

func (e *env) balCommand() *cobra.Command {
	var zero bool
	c := &cobra.Command{
		Use:   "bal [GLOB] [PATH...]",
		Short: "Balances of all accounts, or of those that match",
		Long: `bal replays the journals and prints what is in each account. GLOB is a pattern like
'client:ann:*' or 'agent:*'; quote it. An argument that exists as a file is a PATH. Accounts:
client:ID:prepaid with the treasury; client:ID:avail and client:ID:held at a hub; agent:ID:payable,
surplus, fee; clearing:JOURNAL, money between two journals; external:NAME, the world outside. A table ends
with the sum of what is above 0, the debits, that of what is below, the credits, and both together, which of
all accounts is 0.`,
		Example: `  ledger bal
  ledger bal 'client:dev:*'
  ledger bal surplus -O csv /backup`,
		RunE: func(cmd *cobra.Command, args []string) error {
			paths, globs := split(args)
			if len(globs) > 1 {
				return fmt.Errorf("one pattern at most: %q exist neither as files nor as one pattern "+
					"(quote it)", globs)
			}
			glob := ""
			if len(globs) == 1 {
				if glob = globs[0]; strings.ContainsRune(glob, os.PathSeparator) {
					return fmt.Errorf("%s: %w", glob, fs.ErrNotExist)
				}
				if _, err := path.Match(glob, ""); err != nil {
					return fmt.Errorf("%q is not a pattern: %w", glob, err)
				}
			}
			sources, err := e.open(paths)
			if err != nil {
				return err
			}
			unit := currencyOf(sources)
			var shown progress
			shown.watch(sources)
			out := newSheet(cmd.OutOrStdout(), e.output, "journal", "account", "credits", "currency")
			var debits, credits market.Credits
			for _, s := range sources {
				b, err := book(cmd.Context(), s)
				if err != nil {
					return err
				}
				for _, x := range b.Balances(glob) {
					if x.Amount == 0 && !zero {
						continue
					}
					out.add(s.Name, x.Account, x.Amount, unit)
					if err := cmp.Or(inspect.Add(&debits, max(0, x.Amount)),
						inspect.Add(&credits, min(0, x.Amount))); err != nil {
						return err
					}
				}
			}
			shown.end()
			out.foot = [][]any{{"", "debits", debits, unit}, {"", "credits", credits, unit},
				{"", "both", debits + credits, unit}}
			out.end()
			return nil
		},
	}
	c.Flags().BoolVarP(&zero, "empty", "E", false, "show accounts with nothing in them, too")
	return c
}

// currencyOf returns the currency that journals count in, by the treasury's; "" where that is not among them.
func currencyOf(sources []*inspect.Source) string {
	for _, s := range sources {
		if s.Currency != "" {
			return s.Currency
		}
	}
	return ""
}

func (e *env) roundCommand() *cobra.Command {
	var explain bool
	c := &cobra.Command{
		Use:   "round N [PATH...]",
		Short: "One round: tasks, offers and awards; with --explain, how each price came about",
		Example: `  ledger round 17 --journal math --explain
  ledger round 17 --journal math -O json
  ledger round 17 --explain souk-data/journal/math`,
		Args: console.Takes(1, console.Any),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := strconv.ParseUint(args[0], 10, 64)
			if err != nil || n == 0 {
				return fmt.Errorf("%q is not the number of a round: rounds count from 1", args[0])
			}
			sources, err := e.open(args[1:])
			if err != nil {
				return err
			}
			s, err := only(sources, ledger.RoleHub)
			if err != nil {
				return err
			}
			return showRound(cmd.Context(), cmd.OutOrStdout(), s, n, explain, e.output)
		},
	}
	c.Flags().BoolVar(&explain, "explain", false,
		"say in words why each task was placed or not, and why each slot has its price")
	return c
}

func showRound(ctx context.Context, w io.Writer, s *inspect.Source, n uint64, explain bool,
	format string) error {
	found, err := s.Round(ctx, n)
	if err != nil {
		return err
	}
	if format == "json" || format == "ndjson" {
		writeJSON(w, found)
		return nil
	}
	r, o := &found.Round, &found.Outcome
	if format == "csv" || !explain {
		printRound(w, format, r, o)
		return nil
	}
	x, err := found.Explain()
	if err != nil {
		// It cannot be explained because it is wrong: show what is there.
		printRound(w, format, r, o)
		return violation{fmt.Errorf("%s round %d cannot be explained: %w", s.Name, n, err)}
	}
	var all market.Bill
	awards := 0
	for i := range x.Tasks {
		if a := x.Tasks[i].Award; a != nil {
			all.Add(x.Bill(&x.Tasks[i], a.Cost, a.Premium))
			awards++
		}
	}
	fmt.Fprintf(w, "as quoted, %s would pay %s\n%s", market.Some(awards, "task"), all, x)
	return nil
}

func printRound(w io.Writer, format string, r *market.Round, o *market.Outcome) {
	s := newSheet(w, format, "task", "agent", "seat", "value", "cost", "slot price", "toll", "not charged",
		"fee", "premium")
	awards := o.Awards
	for _, t := range r.Tasks {
		a := market.Award{Task: t.ID, Agent: "-"}
		var toll, own market.Credits
		if len(awards) > 0 && awards[0].Task == t.ID {
			a, awards = awards[0], awards[1:]
			toll, own = -a.Toll-r.Fee, r.Own(a)
		}
		s.add(string(a.Task), string(a.Agent), a.Seat, a.Value, a.Cost, a.SlotPrice, toll, own, r.Fee,
			a.Premium)
	}
	s.end()
}

func (e *env) statsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "stats [PATH...]",
		Short: "What is in each journal: frames, records, rounds, open holds, totals, times",
		RunE: func(cmd *cobra.Command, paths []string) error {
			if _, err := e.open(paths); err != nil { // a copy counts twice
				return err
			}
			sum, err := inspect.Check(cmd.Context(), e.paths(paths),
				inspect.Options{Level: ledger.LevelConservation, Journal: e.journal})
			if err != nil {
				return err
			}
			out := newSheet(cmd.OutOrStdout(), e.output, reportColumns...)
			for i := range sum.Reports {
				out.add(reportCells(&sum.Reports[i])...)
			}
			out.end()
			for _, f := range sum.Findings {
				if f.Damage {
					return fmt.Errorf("%w: %s", journal.ErrDamaged, f)
				}
			}
			return nil
		},
	}
}

// stamp is a moment as commands print it.
func stamp(nanos int64) string {
	if nanos == 0 {
		return "-"
	}
	return time.Unix(0, nanos).UTC().Format("2006-01-02 15:04:05.000Z07:00")
}
