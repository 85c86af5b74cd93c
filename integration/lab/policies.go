package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"souk/cmd/console"
	"souk/integration/lab/policies"
)

func policiesCommand() *cobra.Command {
	out, seeds := "lab-experiment", uint(5)
	c := &cobra.Command{
		Use:   "policies",
		Short: "Compare runtime policies, on against off",
		Long: `Plays a market in virtual time that one client floods, with the policy fair and without; one on whose
engines prompts are computed apart, with pd and without; an engine of many adapters, with the policy next and
without; and looks at recorded calls and answers as memo and guard do. Writes policies.md. The same seeds give
the same figures on any machine, but for hedge, on against off: a market by the clock of which an engine falls
silent.`,
		Example: "  lab experiment policies --out integration/results",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if seeds < 1 {
				return fmt.Errorf("--seeds %d: nothing to play", seeds)
			}
			if err := os.MkdirAll(out, 0o755); err != nil {
				return fmt.Errorf("--out: %w", err)
			}
			var from []uint64
			for i := range seeds {
				from = append(from, uint64(i+1))
			}
			done := 0
			progress := console.Bar(policies.Runs()*len(from), "runs")
			page, err := policies.Page(c.Context(), fmt.Sprintf("lab experiment policies --seeds %d --out %s", seeds, out),
				from, func(runs int) {
					done += runs
					_ = progress.Set(done)
				})
			if err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(out, "policies.md"), []byte(page), 0o644)
		},
	}
	c.Flags().StringVar(&out, "out", out, "directory for the page")
	c.Flags().UintVar(&seeds, "seeds", seeds, "runs of each row, from seeds 1, 2, ...")
	return c
}
