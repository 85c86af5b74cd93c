package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"souk/cmd/console"
	"souk/integration/lab/games"
	"souk/integration/lab/page"
)

func gamesCommand() *cobra.Command {
	var out output
	var only []string
	seeds := uint(5)
	var list strings.Builder
	for _, e := range games.Experiments {
		fmt.Fprintf(&list, "  %-8s %s\n", e.Name, e.Title)
	}
	c := &cobra.Command{
		Use:   "games",
		Short: "Play the experiments of the paper on the price of anarchy",
		Long: `Plays the experiments of "The Price of Anarchy in Disaggregated Inference" in virtual time, with its
router and with the market in front of the same engines:

` + list.String() + `
With --only the others stay on the page in --out as they were made, so it can be made in pieces. The same seed
gives the same figures on any machine.`,
		Example: "  lab games --out integration/results\n  lab games --only 3,4b --seeds 2",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			chosen, err := pick(only, games.Experiments, func(e games.Experiment) string { return e.Name })
			if err != nil {
				return err
			}
			from, err := seedsFrom(1, seeds)
			if err != nil {
				return err
			}
			made := map[string]*games.Made{}
			if out.dir != "" && len(only) > 0 {
				if _, err := page.Load(out.dir, "games", &made); err != nil {
					return err
				}
			}
			for _, e := range chosen {
				began, done := counting(e.Name)
				rows, err := e.Run(c.Context(), from, began, done)
				if err != nil {
					return err
				}
				made[e.Name] = &games.Made{Command: fmt.Sprintf("lab games --only=%s --seeds=%d", e.Name, seeds),
					Seeds: int(seeds), Rows: rows}
			}
			p, err := games.Page(fmt.Sprintf("lab games --seeds=%d", seeds), made)
			if err != nil {
				return err
			}
			return out.put(c, p)
		},
	}
	out.flag(c.Flags(), "games")
	onlyFlag(c.Flags(), &only, "experiments to play")
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
