package main

import (
	"fmt"
	"strings"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"souk/cmd/console"
	"souk/integration/lab/economics"
)

func economicsCommand() *cobra.Command {
	o := economics.DefaultOptions()
	var out output
	var only []string
	var list strings.Builder
	for _, e := range economics.Experiments {
		fmt.Fprintf(&list, "  %-10s %s\n", e.Name, e.Title)
	}
	c := &cobra.Command{
		Use:   "economics",
		Short: "Play the market as a game",
		Long: `Plays simulated clients and agents over hundreds of rounds, cleared by the market's own code,
without a network:

` + list.String() + `
The same seed gives the same figures. --rounds and --markets say how long the
longest experiments are; the others take a fixed share of it.`,
		Example: "  lab economics --out integration/results\n" +
			"  lab economics --only truth,clusters --rounds 100 --markets 4",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			chosen, err := pick(only, economics.Experiments,
				func(e economics.Experiment) string { return e.Name })
			if err != nil {
				return err
			}
			var what string
			var progress *progressbar.ProgressBar
			o.Progress = func(step string, done, total int) {
				if step != what {
					what, progress = step, console.Bar(total, step)
				}
				_ = progress.Set(done)
			}
			var names []string
			for _, e := range chosen {
				names = append(names, e.Name)
			}
			results, err := economics.Run(c.Context(), names, o)
			if err != nil {
				return err
			}
			return out.put(c, economics.Page(made(c), results))
		},
	}
	f := c.Flags()
	out.flag(f, "economics")
	onlyFlag(f, &only, "experiments to play")
	f.Uint64Var(&o.Seed, "seed", o.Seed, "what everything random is drawn from")
	f.IntVar(&o.Rounds, "rounds", o.Rounds, "rounds of one simulated market")
	f.IntVar(&o.Markets, "markets", o.Markets,
		"markets simulated for each case, each from its own seed; means are reported")
	return c
}
