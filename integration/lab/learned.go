package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"souk/integration/lab/learned"
)

func learnCommand() *cobra.Command {
	out, seed := "integration/lab/learned/data/routers.weights", uint64(1)
	c := &cobra.Command{
		Use:   "learn",
		Short: "Learn the weights of the routers that are rivals, from recorded answers",
		Long: `Learns the weights of the routers mf, graph, gmt and dual-contrastive from the recorded answers that are built
in, each once for each part of the questions, from the other parts. The same seed gives the same weights, byte
for byte, on one architecture. It takes about a minute of processor time. lab routers says how good they are.`,
		Example: "  lab learn                # in the repository: makes again what is shipped\n" +
			"  lab learn --seed 2 --out /tmp/routers.weights",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			data, err := learned.Recorded()
			if err != nil {
				return err
			}
			weights, err := learned.Train(data, seed)
			if err != nil {
				return err
			}
			if err := os.WriteFile(out, weights, 0o644); err != nil {
				return fmt.Errorf("--out: %w", err)
			}
			fmt.Fprintf(c.OutOrStdout(), "%s: %d bytes\n", out, len(weights))
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&out, "out", out, "weights to write")
	f.Uint64Var(&seed, "seed", seed, "what weights begin as, and the order of the questions")
	return c
}
