package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"souk/cmd/console"
	"souk/integration/lab/cachesage"
)

func cachesageCommand() *cobra.Command {
	out, names, rules := "lab-experiment", []string{}, []string{}
	seeds, first := uint(5), uint64(1)
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
every rule, and writes cachesage.md, .csv and .json. The same seed gives the same figures on any machine.

Panels, each also by the beginning of its name:
` + list.String(),
		Example: "  lab experiment cachesage --out integration/results\n" +
			"  lab experiment cachesage --panels star,coding-P5 --rules lru,ours,belady --seeds 1",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if len(names) > 0 {
				panels = slices.DeleteFunc(panels, func(p *cachesage.Panel) bool {
					return !slices.ContainsFunc(names,
						func(n string) bool { return strings.HasPrefix(p.Name, n) })
				})
			}
			if len(panels) == 0 || seeds < 1 {
				return fmt.Errorf("--panels %v, --seeds %d: nothing to play", names, seeds)
			}
			if err := os.MkdirAll(out, 0o755); err != nil {
				return fmt.Errorf("--out: %w", err)
			}
			var from []uint64
			for i := range seeds {
				from = append(from, first+uint64(i))
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
			command := fmt.Sprintf("lab experiment cachesage --seeds %d --first %d --out %s", seeds, first, out)
			if len(names) > 0 {
				command += " --panels " + strings.Join(names, ",")
			}
			if len(rules) < len(cachesage.Rules) {
				command += " --rules " + strings.Join(rules, ",")
			}
			if err := cachesage.Write(out, "cachesage", command, panels, rows, len(from)); err != nil {
				return err
			}
			for _, p := range panels {
				gap, ok := cachesage.Gap(rows, p.Name, "ours")
				if ok {
					fmt.Fprintf(c.OutOrStdout(), "%s: ours goes %.2f of the way from lru to belady\n", p.Name,
						gap)
				}
			}
			return nil
		},
	}
	c.Flags().StringVar(&out, "out", out, "directory for the page, the CSV and the JSON file")
	c.Flags().StringSliceVar(&names, "panels", nil, "only panels whose names begin so")
	c.Flags().StringSliceVar(&rules, "rules", rules, "rules to compare")
	c.Flags().UintVar(&seeds, "seeds", seeds, "runs of each rule on each panel, from seeds one after another")
	c.Flags().Uint64Var(&first, "first", first, "the first of the seeds")
	return c
}
