package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"souk/cmd/console"
	"souk/integration/lab/ahead"
)

func aheadCommand() *cobra.Command {
	o := ahead.DefaultOptions()
	var out output
	c := &cobra.Command{
		Use:   "ahead",
		Short: "What it is worth to compute answers ahead where templates drop reasoning",
		Long: `Plays recorded sessions on the real market in virtual time, whose answers begin with reasoning that later
prompts leave out, without the policy ahead and with it. The same seed gives the same figures on any machine.`,
		Example: "  lab ahead --out integration/results",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.Seeds < 1 || o.Tasks < 10 || o.Callers < 1 || o.Thought < 0 {
				return fmt.Errorf("--seeds %d, --turns %d, --sessions %d, --thought %d: nothing to play", o.Seeds, o.Tasks,
					o.Callers, o.Thought)
			}
			progress := console.Bar(o.Runs(), "runs")
			o.Said = func() { _ = progress.Add(1) }
			rows, err := ahead.Compare(o)
			if err != nil {
				return err
			}
			return out.put(c, ahead.Page(made(c), o, rows))
		},
	}
	out.flag(c.Flags(), "ahead")
	c.Flags().IntVar(&o.Tasks, "turns", o.Tasks, "turns of each run")
	c.Flags().IntVar(&o.Seeds, "seeds", o.Seeds, "runs of each, from seeds 1, 2, ...")
	c.Flags().IntVar(&o.Callers, "sessions", o.Callers, "sessions that are open at a time")
	c.Flags().IntVar(&o.Thought, "thought", o.Thought, "tokens of reasoning before each answer")
	return c
}
