package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"souk/cmd/console"
	"souk/integration/lab/hints"
)

func hintsCommand() *cobra.Command {
	o := hints.DefaultOptions()
	var out output
	var only []string
	var list strings.Builder
	for _, l := range hints.Lies {
		fmt.Fprintf(&list, "  %-14s %s\n", l.Name, l.About)
	}
	c := &cobra.Command{
		Use:   "hints",
		Short: "What a client gains that lies about what comes next",
		Long: `Plays recorded sessions of agents on the real market in virtual time, with a client that lies in one of
its hints and with the same client telling the truth. The same seed gives the same figures on any machine.

Lies:
` + list.String(),
		Example: "  lab hints --out integration/results\n" +
			"  lab hints --only next-false --turns 100 --seeds 2",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			lies, err := pick(only, hints.Lies, func(l hints.Lie) string { return l.Name })
			if err != nil {
				return err
			}
			if o.Seeds < 1 || o.Turns < 1 || o.Callers < 3 || o.Callers > 200 {
				return fmt.Errorf("--seeds %d, --turns %d, --sessions %d (3 to 200): nothing to play", o.Seeds, o.Turns,
					o.Callers)
			}
			progress := console.Bar(o.Runs(lies), "runs")
			o.Said = func() { _ = progress.Add(1) }
			rows, err := hints.Compare(c.Context(), o, lies)
			if err != nil {
				return err
			}
			return out.put(c, hints.Page(made(c), o, rows))
		},
	}
	out.flag(c.Flags(), "hints")
	onlyFlag(c.Flags(), &only, "lies to tell")
	c.Flags().IntVar(&o.Turns, "turns", o.Turns, "turns of the liar in each run")
	c.Flags().IntVar(&o.Seeds, "seeds", o.Seeds, "runs of each lie, from seeds 1, 2, ...")
	c.Flags().IntVar(&o.Callers, "sessions", o.Callers, "sessions that are open at a time, two of them the liar's")
	return c
}
