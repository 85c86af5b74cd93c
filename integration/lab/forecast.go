package main

import (
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"souk/cmd/console"
	"souk/integration/lab/forecast"
)

func forecastCommand() *cobra.Command {
	o := forecast.DefaultOptions()
	var seeds []uint
	for _, s := range o.Seeds {
		seeds = append(seeds, uint(s))
	}
	var out output
	var only []string
	var jsonFile, python string
	var list strings.Builder
	for _, s := range forecast.Streams {
		fmt.Fprintf(&list, "  %-10s %s\n", s.Name, s.About)
	}
	fmt.Fprintln(&list, "\nWays:")
	for _, w := range forecast.Ways {
		fmt.Fprintf(&list, "  %-10s %s\n", w.Name, w.About)
	}
	c := &cobra.Command{
		Use:   "forecast",
		Short: "Judge ways to expect first tokens and costs on streams of tasks, in virtual time",
		Long: `Plays streams of tasks on simulated engines, and has every way to forecast expect what comes: NMAE of the
time to the first token and of cost, how many of its 90 % intervals cover it, how often gates opened, and how
much more is promised of agents that a way chose itself. The trees of the river library take part where --python
names a Python that has it.

Streams:
` + list.String(),
		Example: "  lab forecast --out integration/results\n" +
			"  lab forecast --only short --seeds 1 --gap=false",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			streams, err := pick(only, forecast.Streams, func(s forecast.Stream) string { return s.Name })
			if err != nil {
				return err
			}
			o.Streams = nil
			for _, s := range streams {
				o.Streams = append(o.Streams, s.Name)
			}
			o.Seeds = nil
			for _, s := range seeds {
				o.Seeds = append(o.Seeds, uint64(s))
			}
			if python != "" {
				if o.Python, err = forecast.FindRiver(c.Context(), python); err != nil {
					return fmt.Errorf("--python: %w", err)
				}
			}
			debug.SetGCPercent(400) // a run makes much that it soon forgets
			var progress *progressbar.ProgressBar
			o.Progress = func(done, total int) {
				if progress == nil {
					progress = console.Bar(total, "streams")
				}
				_ = progress.Set(done)
			}
			p := forecast.Said{Options: o}
			if p.Results, err = forecast.Judge(c.Context(), o); err != nil {
				return err
			}
			if jsonFile != "" {
				if err := writeJSON(jsonFile, p.Results); err != nil {
					return err
				}
			}
			return out.put(c, p.Page(made(c)))
		},
	}
	f := c.Flags()
	out.flag(f, "forecast")
	onlyFlag(f, &only, "streams to serve")
	f.UintSliceVar(&seeds, "seeds", seeds, "each stream is made from each of these")
	f.IntVar(&o.Tasks, "tasks", o.Tasks, "tasks of a stream")
	f.IntVar(&o.Agents, "agents", o.Agents, "engines, all alike")
	f.Float64Var(&o.Explore, "explore", o.Explore, "share of tasks that go to an agent by lot")
	f.BoolVar(&o.Gap, "gap", o.Gap, "play each stream again, placed by the ways whose gap is shown")
	f.StringVar(&python, "python", "", "a Python that has river; its trees then take part")
	f.StringVar(&o.Script, "script", o.Script, "that runs river's trees")
	f.StringVar(&jsonFile, "json", "", "also write all figures to this file")
	return c
}
