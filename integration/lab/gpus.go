package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime/debug"

	"github.com/spf13/cobra"

	"souk/integration/lab/gpus"
)

func gpusCommand() *cobra.Command {
	o := gpus.DefaultOptions()
	var out output
	var only, files []string
	var prices string
	n, speed := uint(len(o.Seeds)), 1.0
	c := &cobra.Command{
		Use:   "gpus",
		Short: "Find the smallest fleet that keeps first tokens and gaps in time, under each rule",
		Long: `Looks for the smallest mixed fleet that keeps 99 of 100 first tokens within a second beyond what their uncached
prompt takes alone, and 99 of 100 later tokens within 50 ms of the one before, in virtual time, on arrivals of Azure's
conversations, of Mooncake and of ServeGen: under the market, two-block, greedy-first, lmetric and dynamo. It says
what the GPUs of each cost an hour. --trace plays anybody's own trace that says when requests came, as lab replay
reads them; --prices FILE has others' prices: lines gpu,dollars behind a line that says so.

The same seeds give the same figures on any machine.`,
		Example: `  lab experiment gpus --out integration/results
  lab experiment gpus --only azure --seeds 2 --prices mine.csv
  lab experiment gpus --trace conversation_trace.jsonl.gz --speed 2`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if o.Seeds, err = seedsFrom(1, n); err != nil {
				return err
			}
			if o.Prices, err = gpus.Published(); prices != "" && err == nil {
				o.Prices, err = gpus.ReadPrices(prices)
				o.Source = filepath.Base(prices)
			}
			if err != nil {
				return fmt.Errorf("--prices: %w", err)
			}
			if len(files) > 0 && len(only) > 0 {
				return errors.New("--only is of the bundled traces, in whose place --trace puts others")
			}
			if o.Worlds, err = playedOn(only, files, speed, c.Flags().Changed("speed")); err != nil {
				return err
			}
			debug.SetGCPercent(400) // a run makes much that it soon forgets
			o.Progress = progressOf("searches")
			results, err := gpus.Play(c.Context(), o)
			if err != nil {
				return err
			}
			return out.put(c, results.Page(made(c)))
		},
	}
	f := c.Flags()
	out.flag(f, "gpus")
	onlyFlag(f, &only, "traces to play")
	f.StringSliceVar(&files, "trace", nil, "files of traces to play instead")
	f.Float64Var(&speed, "speed", speed, "times of the files of --trace, so many times as fast")
	f.StringVar(&prices, "prices", "", "file of dollars an hour for each GPU")
	f.UintVar(&n, "seeds", n, "searches for each rule, from seeds 1, 2, ...")
	f.IntVar(&o.Tasks, "tasks", o.Tasks, "tasks of a run")
	f.IntVar(&o.Most, "most", o.Most, "engines of the largest fleet")
	return c
}

// playedOn are the bundled traces of these names, or those of files.
func playedOn(only, files []string, speed float64, sped bool) (all []*gpus.World, err error) {
	if len(files) == 0 {
		if sped {
			return nil, errors.New("--speed is of the traces of --trace")
		}
		if all, err = gpus.Worlds(); err == nil {
			all, err = pick(only, all, func(w *gpus.World) string { return w.Name })
		}
		return all, err
	}
	if !(speed > 0 && speed <= 1e6) {
		return nil, fmt.Errorf("--speed %v: it is above 0, and at most a million", speed)
	}
	for _, file := range files {
		w, err := gpus.Bring(file, speed)
		if err != nil {
			return nil, fmt.Errorf("--trace: %w", err)
		}
		all = append(all, w)
	}
	return all, nil
}
