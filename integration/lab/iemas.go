package main

import (
	"runtime/debug"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"souk/cmd/console"
	"souk/integration/lab/iemas"
)

func experimentCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "experiment",
		Short: "Make the experiments of a paper again, theirs beside ours, and some of this market's own",
		Args:  cobra.NoArgs,
	}
	c.AddCommand(iemasCommand(), papersCommand(), gpusCommand(), thousandCommand(), truthCommand())
	return c
}

func iemasCommand() *cobra.Command {
	o := iemas.DefaultOptions()
	var out output
	n := uint(len(o.Seeds))
	c := &cobra.Command{
		Use:   "iemas",
		Short: "Make Table 1, Fig. 3 and Fig. 4 of the market paper again",
		Long: `Plays three sets of dialogues before engines of three models in virtual time: the routers of the paper's Table 1
and this market; its predictors beside those of a hub, by turn; and welfare over 160 turns. The same seeds give the
same figures on any machine.`,
		Example: "  lab experiment iemas --out integration/results\n  lab experiment iemas --seeds 1 --tasks 400 --stream 400",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if o.Seeds, err = seedsFrom(1, n); err != nil {
				return err
			}
			debug.SetGCPercent(400) // a run makes much that it soon forgets
			var progress *progressbar.ProgressBar
			o.Progress = func(done, total int) {
				if progress == nil {
					progress = console.Bar(total, "runs")
				}
				_ = progress.Set(done)
			}
			results, err := iemas.Play(c.Context(), o)
			if err != nil {
				return err
			}
			return out.put(c, results.Page(made(c)))
		},
	}
	f := c.Flags()
	out.flag(f, "iemas")
	f.UintVar(&n, "seeds", n, "runs of each router and stream, from seeds 1, 2, ...")
	f.IntVar(&o.Tasks, "tasks", o.Tasks, "tasks of a run of a router")
	f.IntVar(&o.Stream, "stream", o.Stream, "tasks of a stream before predictors")
	return c
}
