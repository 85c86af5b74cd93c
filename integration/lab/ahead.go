package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"souk/cmd/console"
	"souk/integration/lab/ahead"
)

func aheadCommand() *cobra.Command {
	o, out := ahead.DefaultOptions(), "lab-experiment"
	c := &cobra.Command{
		Use:   "ahead",
		Short: "What it is worth to compute answers ahead where templates drop reasoning",
		Long: `Plays recorded sessions on the real market in virtual time, whose answers begin with reasoning that later
prompts leave out, without the policy ahead and with it, and writes ahead.md and ahead.csv. The same seed gives the
same figures on any machine.`,
		Example: "  lab experiment ahead --out integration/results",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.Seeds < 1 || o.Tasks < 10 || o.Callers < 1 || o.Thought < 0 {
				return fmt.Errorf("--seeds %d, --turns %d, --sessions %d, --thought %d: nothing to play", o.Seeds, o.Tasks,
					o.Callers, o.Thought)
			}
			if err := os.MkdirAll(out, 0o755); err != nil {
				return fmt.Errorf("--out: %w", err)
			}
			progress := console.Bar(o.Runs(), "runs")
			o.Said = func() { _ = progress.Add(1) }
			rows, err := ahead.Compare(o)
			if err != nil {
				return err
			}
			for _, r := range rows {
				fmt.Fprintf(c.OutOrStdout(), "%s, keep %q: TTFT %.1f ms, %+.1f ± %.1f %%\n", r.Trace, r.Policy, r.Mean.TTFT,
					r.Gain, r.GainOff)
			}
			command := fmt.Sprintf("lab experiment ahead --seeds %d --turns %d --sessions %d --thought %d --out %s", o.Seeds,
				o.Tasks, o.Callers, o.Thought, out)
			return ahead.Write(out, command, o, rows)
		},
	}
	c.Flags().StringVar(&out, "out", out, "directory for the page and the CSV file")
	c.Flags().IntVar(&o.Tasks, "turns", o.Tasks, "turns of each run")
	c.Flags().IntVar(&o.Seeds, "seeds", o.Seeds, "runs of each, from seeds 1, 2, ...")
	c.Flags().IntVar(&o.Callers, "sessions", o.Callers, "sessions that are open at a time")
	c.Flags().IntVar(&o.Thought, "thought", o.Thought, "tokens of reasoning before each answer")
	return c
}
