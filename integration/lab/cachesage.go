package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"souk/cmd/console"
	"souk/integration/lab/cachesage"
)

func cachesageCommand() *cobra.Command {
	var out output
	var only, rules []string
	seeds, first := uint(5), uint64(2001)
	var list strings.Builder
	panels := cachesage.Panels()
	for _, p := range panels {
		fmt.Fprintf(&list, "  %-24s %s\n", p.Name, p.About)
	}
	fmt.Fprintln(&list, "\nRules:")
	for _, r := range cachesage.Rules {
		rules = append(rules, r.Name)
		fmt.Fprintf(&list, "  %-24s %s\n", r.Name, r.About)
	}
	c := &cobra.Command{
		Use:   "cachesage",
		Short: "Compare rules by which an engine gives up blocks of its cache",
		Long: `Plays the calls of agents that work together, recorded and drawn, on a simulated cache, once by
every rule. The same seed gives the same figures on any machine.

Panels:
` + list.String(),
		Example: "  lab cachesage --out integration/results\n" +
			"  lab cachesage --only chain,coding-P5,lru,ours,belady --seeds 1",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			panels, rules, err := both(only, panels, func(p *cachesage.Panel) string { return p.Name }, rules)
			if err != nil {
				return err
			}
			from, err := seedsFrom(first, seeds)
			if err != nil {
				return err
			}
			done, total := 0, 0
			for _, p := range panels {
				for _, r := range rules {
					if p.Plays(r) {
						total += len(from)
					}
				}
			}
			progress := console.Bar(total, "runs")
			rows, err := cachesage.Compare(c.Context(), panels, rules, from, func(runs int) {
				done += runs
				_ = progress.Set(done)
			})
			if err != nil {
				return err
			}
			return out.put(c, cachesage.Page(made(c), panels, rows, len(from)))
		},
	}
	out.flag(c.Flags(), "cachesage")
	onlyFlag(c.Flags(), &only, "panels to play and rules to play them by")
	c.Flags().UintVar(&seeds, "seeds", seeds, "runs of each rule on each panel, from seeds one after another")
	c.Flags().Uint64Var(&first, "first", first, "the first of the seeds")
	return c
}
