package main

import (
	"context"

	"github.com/spf13/cobra"

	"souk/cmd/console"
	"souk/integration/lab/page"
	"souk/integration/lab/policies"
)

func policiesCommand() *cobra.Command {
	return seeded("policies", policies.Runs(), policies.Page, &cobra.Command{
		Short: "Compare runtime policies, on against off",
		Long: `Plays a market in virtual time that one client floods, with the policy fair and without; one on whose
engines prompts are computed apart, with pd and without; an engine of many adapters, with the policy next and
without; and looks at recorded calls and answers as memo and guard do. The same seeds give the same figures on
any machine.`})
}

func hedgeCommand() *cobra.Command {
	return seeded("hedge", len(policies.HedgeRules), policies.HedgePage, &cobra.Command{
		Short: "Compare the policy hedge, on against off, by the clock",
		Long: `Plays a market by the clock of which an engine falls silent, with the policy hedge and without. The
figures differ from run to run.`})
}

// seeded is a command whose page is made of so many runs from each seed.
func seeded(name string, runs int, make func(ctx context.Context, command string, seeds []uint64,
	said func(runs int)) (*page.Page, error), c *cobra.Command) *cobra.Command {
	var out output
	seeds := uint(5)
	c.Use, c.Args = name, cobra.NoArgs
	c.Example = "  lab " + name + " --out integration/results"
	c.RunE = func(c *cobra.Command, _ []string) error {
		from, err := seedsFrom(1, seeds)
		if err != nil {
			return err
		}
		done := 0
		progress := console.Bar(runs*len(from), "runs")
		p, err := make(c.Context(), made(c), from, func(runs int) {
			done += runs
			_ = progress.Set(done)
		})
		if err != nil {
			return err
		}
		return out.put(c, p)
	}
	out.flag(c.Flags(), name)
	c.Flags().UintVar(&seeds, "seeds", seeds, "runs of each row, from seeds 1, 2, ...")
	return c
}
