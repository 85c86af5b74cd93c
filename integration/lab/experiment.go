package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"souk/cmd/console"
	"souk/integration/lab/economics"
)

func experimentCommand() *cobra.Command {
	o := economics.DefaultOptions()
	out := "lab-experiment"
	var list strings.Builder
	for _, e := range economics.Experiments {
		fmt.Fprintf(&list, "  %-10s %s\n", e.Name, e.Title)
	}
	c := &cobra.Command{
		Use:   "experiment NAME... | all",
		Short: "Play the market as a game, and write tables and a page of figures",
		Long: `Plays simulated clients and agents over hundreds of rounds, cleared by the market's own code,
without a network:

` + list.String() + `
Writes every table as CSV and one page, index.html, which opens offline. The same seed gives the same figures,
solve times excepted. --rounds and --markets say how long the longest experiments are; the others take a fixed
share of it.`,
		Example: "  lab experiment all --out results\n  lab experiment truth clusters --rounds 100 " +
			"--markets 4",
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, names []string) error {
			if err := os.MkdirAll(out, 0o755); err != nil {
				return fmt.Errorf("--out: %w", err) // now, and not after minutes of work
			}
			var what string
			var progress *progressbar.ProgressBar
			o.Progress = func(step string, done, total int) {
				if step != what {
					what, progress = step, console.Bar(total, step)
				}
				_ = progress.Set(done)
			}
			results, err := economics.Run(c.Context(), names, o)
			if err != nil {
				return err
			}
			command := fmt.Sprintf("lab experiment %s --seed %d --rounds %d --markets %d --out %s",
				strings.Join(names, " "), o.Seed, o.Rounds, o.Markets, out)
			page, err := economics.Write(out, command, results)
			if err != nil {
				return err
			}
			w := c.OutOrStdout()
			for _, r := range results {
				fmt.Fprintf(w, "%s: %s\n", r.Name, r.Title)
				for _, f := range r.Findings {
					fmt.Fprintf(w, "  %s\n", f)
				}
			}
			fmt.Fprintf(w, "\nfigures: %s\n", page)
			return nil
		},
	}
	c.Flags().StringVar(&out, "out", out, "directory for the page and the CSV files")
	c.Flags().Uint64Var(&o.Seed, "seed", o.Seed, "what everything random is drawn from")
	c.Flags().IntVar(&o.Rounds, "rounds", o.Rounds, "rounds of one simulated market")
	c.Flags().IntVar(&o.Markets, "markets", o.Markets,
		"markets simulated for each case, each from its own seed; means are reported")
	c.AddCommand(forecastCommand(), cachesageCommand(), hintsCommand(), aheadCommand(),
		gamesCommand(), policiesCommand())
	return c
}
