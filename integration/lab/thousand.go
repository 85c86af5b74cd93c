package main

import (
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"souk/cmd/console"
	"souk/integration/lab/page"
	"souk/integration/lab/thousand"
)

func thousandCommand() *cobra.Command {
	o := thousand.DefaultOptions()
	var out output
	var only []string
	c := &cobra.Command{
		Use:   "thousand",
		Short: "Play a thousand engines: one market, several hubs, and rules",
		Long: `Plays ten minutes of virtual time before a thousand engines of three models: one market, the engines divided among
several hubs, and rules. Every round is audited as it is recorded. The same seed gives the same figures on any
machine, but for what rounds take of a processor. With --only the others stay on the page in --out as they were
made, so it can be made in pieces; all of it takes an hour or two of processor time.`,
		Example: "  lab experiment thousand --out integration/results\n" +
			"  lab experiment thousand --engines 100 --length 1m --only 1-hub,greedy",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if o.Plays, err = pick(only, thousand.Plays, func(p string) string { return p }); err != nil {
				return err
			}
			debug.SetGCPercent(400) // a run makes much that it soon forgets
			progress := console.Bar(len(o.Plays), "plays")
			o.Progress = func(done int) { _ = progress.Set(done) }
			o.Clock = processor
			results, err := thousand.Play(c.Context(), o)
			if err != nil {
				return err
			}
			if out.dir != "" && len(only) > 0 {
				var before thousand.Results
				if _, err := page.Load(out.dir, "thousand", &before); err != nil {
					return err
				}
				results.Keep(&before)
			}
			command := slices.DeleteFunc(strings.Fields(made(c)),
				func(s string) bool { return strings.HasPrefix(s, "--only") })
			return out.put(c, results.Page(strings.Join(command, " ")))
		},
	}
	f := c.Flags()
	out.flag(f, "thousand")
	onlyFlag(f, &only, "what to play")
	f.IntVar(&o.Engines, "engines", o.Engines, "engines, each with four slots")
	f.Float64Var(&o.Load, "load", o.Load, "of what they can serve")
	f.DurationVar(&o.Length, "length", o.Length, "of virtual time")
	f.IntVar(&o.Thought, "thought", o.Thought, "tokens of reasoning before each answer")
	f.Uint64Var(&o.Seed, "seed", o.Seed, "of dialogues and arrivals")
	return c
}
