package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"souk/cmd/console"
	"souk/integration/lab/hints"
)

func hintsCommand() *cobra.Command {
	o := hints.DefaultOptions()
	out, names := "lab-experiment", []string{}
	var list strings.Builder
	for _, l := range hints.Lies {
		fmt.Fprintf(&list, "  %-14s %s\n", l.Name, l.About)
	}
	c := &cobra.Command{
		Use:   "hints",
		Short: "What a client gains that lies about what comes next",
		Long: `Plays recorded sessions of agents on the real market in virtual time, with a client that lies in one of
its hints and with the same client telling the truth, and writes hints.md and hints.csv. The same seed gives the
same figures on any machine.

Lies:
` + list.String(),
		Example: "  lab experiment hints --out integration/results\n" +
			"  lab experiment hints --lies next-false --turns 100 --seeds 2",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			lies := hints.Lies
			if len(names) > 0 {
				lies = slices.DeleteFunc(slices.Clone(lies),
					func(l hints.Lie) bool { return !slices.Contains(names, l.Name) })
			}
			if len(lies) == 0 || o.Seeds < 1 || o.Turns < 1 || o.Callers < 3 || o.Callers > 200 {
				return fmt.Errorf("--lies %v, --seeds %d, --turns %d, --sessions %d (3 to 200): nothing to play",
					names, o.Seeds, o.Turns, o.Callers)
			}
			if err := os.MkdirAll(out, 0o755); err != nil {
				return fmt.Errorf("--out: %w", err)
			}
			progress := console.Bar(o.Runs(lies), "runs")
			o.Said = func() { _ = progress.Add(1) }
			rows, err := hints.Compare(c.Context(), o, lies)
			if err != nil {
				return err
			}
			command := fmt.Sprintf("lab experiment hints --seeds %d --turns %d --sessions %d --out %s", o.Seeds,
				o.Turns, o.Callers, out)
			if len(names) > 0 {
				command += " --lies " + strings.Join(names, ",")
			}
			for _, r := range rows {
				fmt.Fprintf(c.OutOrStdout(), "%s, %s, always %v: %+.2f ± %.2f %%\n", r.Lie, r.Settle, r.Always, r.Gain, r.Off)
			}
			return hints.Write(out, command, o, rows)
		},
	}
	c.Flags().StringVar(&out, "out", out, "directory for the page and the CSV file")
	c.Flags().StringSliceVar(&names, "lies", nil, "only these")
	c.Flags().IntVar(&o.Turns, "turns", o.Turns, "turns of the liar in each run")
	c.Flags().IntVar(&o.Seeds, "seeds", o.Seeds, "runs of each lie, from seeds 1, 2, ...")
	c.Flags().IntVar(&o.Callers, "sessions", o.Callers, "sessions that are open at a time, two of them the liar's")
	return c
}
