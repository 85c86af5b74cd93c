package main

import (
	"runtime/debug"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"souk/cmd/console"
	"souk/integration/lab/truth"
)

func truthCommand() *cobra.Command {
	o := truth.DefaultOptions()
	var out output
	n := uint(len(o.Seeds))
	c := &cobra.Command{
		Use:   "truth",
		Short: "Measure what lies cost, beside rules that believe what they are told",
		Long: `Plays callers and owners of engines who learn which lies pay them, before the market under several pricings and
before the rules that believe what they are told, in virtual time. The same seeds give the same figures on any machine.`,
		Example: "  lab experiment truth --out integration/results\n  lab experiment truth --seeds 1 --epochs 200 --loads 1",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if o.Seeds, err = seedsFrom(1, n); err != nil {
				return err
			}
			debug.SetGCPercent(400) // a run makes much that it soon forgets
			var progress *progressbar.ProgressBar
			before := 0
			o.Progress = func(done, total int) {
				if progress == nil || total != before {
					progress, before = console.Bar(total, "plays"), total
				}
				_ = progress.Set(done)
			}
			results, err := truth.Play(c.Context(), o)
			if err != nil {
				return err
			}
			return out.put(c, results.Page(made(c)))
		},
	}
	f := c.Flags()
	out.flag(f, "truth")
	f.UintVar(&n, "seeds", n, "plays of each way, from seeds 1, 2, ...")
	f.IntVar(&o.Epochs, "epochs", o.Epochs, "epochs of learning")
	f.Float64SliceVar(&o.Loads, "loads", o.Loads, "parts of what the fleet can serve")
	return c
}
