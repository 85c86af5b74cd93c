package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"souk/cmd/console"
	"souk/integration/lab/games"
)

func gamesCommand() *cobra.Command {
	out, seeds := "lab-experiment", uint(5)
	var names []string
	var list strings.Builder
	for _, e := range games.Experiments {
		fmt.Fprintf(&list, "  %-8s %s\n", e.Name, e.Title)
	}
	c := &cobra.Command{
		Use:   "games",
		Short: "Play the experiments of the paper on the price of anarchy, and write a page",
		Long: `Plays the experiments of "The Price of Anarchy in Disaggregated Inference" in virtual time, with its
router and with the market in front of the same engines, and writes games.md beside a JSON and a CSV file for
each:

` + list.String() + `
The page is made anew of all files that lie in the directory, so it can be made in pieces. The same seed gives
the same figures on any machine.`,
		Example: "  lab experiment games --out integration/results\n  lab experiment games --only 3,4b --seeds 2",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if seeds < 1 {
				return fmt.Errorf("--seeds %d: nothing to play", seeds)
			}
			for _, name := range names {
				if !slices.ContainsFunc(games.Experiments,
					func(e games.Experiment) bool { return e.Name == name }) {
					return fmt.Errorf("--only %s: there is no such experiment: see --help", name)
				}
			}
			if err := os.MkdirAll(out, 0o755); err != nil {
				return fmt.Errorf("--out: %w", err)
			}
			var from []uint64
			for i := range seeds {
				from = append(from, uint64(i+1))
			}
			for i := range games.Experiments {
				e := &games.Experiments[i]
				if len(names) > 0 && !slices.Contains(names, e.Name) {
					continue
				}
				began, done := counting(e.Name)
				rows, err := e.Run(c.Context(), from, began, done)
				if err != nil {
					return err
				}
				made := games.Made{Command: fmt.Sprintf("lab experiment games --only %s --seeds %d --out %s",
					e.Name, seeds, out), Seeds: int(seeds), Rows: rows}
				if err := games.Write(out, e.Name, made); err != nil {
					return err
				}
			}
			return games.WritePage(out)
		},
	}
	c.Flags().StringVar(&out, "out", out, "directory for the page, and the JSON and CSV files")
	c.Flags().StringSliceVar(&names, "only", nil, "experiments to play; default all")
	c.Flags().UintVar(&seeds, "seeds", seeds, "runs of each case, from seeds 1, 2, ...")
	return c
}

// counting shows how many runs are done.
func counting(what string) (began func(runs int), done func()) {
	n, set := 0, func(int) {}
	return func(runs int) {
			progress := console.Bar(runs, "experiment "+what)
			set = func(n int) { _ = progress.Set(n) }
		}, func() {
			n++
			set(n)
		}
}
