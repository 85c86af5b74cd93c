package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"souk/cmd/console"
	"souk/ledger"
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
			sources, err := e.open(args[1:])
			if err != nil {
				return err
			}
			w, stop := watch(cmd, sources)
			defer stop()
			out := newSheet(w, e.output, "time", "journal", "seq", "kind", "record", "credits", "balance")
			moved := false
			for _, s := range sources {
				var balance market.Credits
				err := s.Records(cmd.Context(), func(f *ledger.Frame, r *ledger.Record) error {
					for _, l := range r.Legs {
						if l.Account != args[0] {
							continue
						}
						balance += l.Amount
						moved = true
						if err := out.add(stamp(f.Time), s.Name, f.Seq, r.Kind.String(), r.ID, l.Amount,
							balance); err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil {
					return err
				}
			}
			if !moved {
				return fmt.Errorf("nothing ever moved on an account %q: ledger bal lists them", args[0])
			}
			return out.end()
		},
	}
}
