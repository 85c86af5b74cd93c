package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"souk/cmd/console"
	"souk/ledger"
	"souk/ledger/inspect"
	"souk/market"
)

func (e *env) regCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "reg ACCOUNT [PATH...]",
		Short: "Every movement of one account, with its balance after",
		Example: `  ledger reg surplus --journal hub-maths
  ledger reg client:dev:avail -O csv`,
		Args: console.Takes(1, console.Any),
		RunE: func(cmd *cobra.Command, args []string) error {
			out := newSheet(cmd.OutOrStdout(), e.output, "time", "journal", "seq", "kind", "record",
				"credits", "balance")
			balances := map[string]market.Credits{} // by journal
			walk := func(s *inspect.Source, f *ledger.Frame, r *ledger.Record) error {
				for _, l := range r.Legs {
					if l.Account != args[0] {
						continue
					}
					balances[s.Name] += l.Amount
					out.add(stamp(f.Time), s.Name, f.Seq, r.Kind.String(), r.ID, l.Amount, balances[s.Name])
				}
				return nil
			}
			if err := e.each(cmd.Context(), args[1:], walk); err != nil {
				return err
			}
			if len(balances) == 0 {
				return fmt.Errorf("nothing ever moved on an account %q: ledger bal lists them", args[0])
			}
			out.end()
			return nil
		},
	}
}
