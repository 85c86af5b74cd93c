package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"souk/integration/lab/bench"
)

func benchCommand() *cobra.Command {
	var o bench.Options
	var jsonFile string
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure this market against what it is asked to reach, and print one table",
		Long: `Measures, from the root of the repository: processor time per task and per relayed token (the
whole market in this process, clients included; engines in a process of their own), the time added to the
first token, what a market at rest takes, the classifier, rounds, the audit; and of a market of processes,
whose commands stand beside this one: the same figures, a thousand streams at once, memory, and what clients
see where one engine of eight fails for four seconds.

How long anything takes depends on the machine and on its day. So what a market costs is measured in turn with
a floor, a bare relay that does only what none can avoid, with the same engines, callers and streams; and what
needs the processor alone with a fixed loop. Such rows are judged by their multiple of that. Every figure is
the median of several runs. The exit status is 0 whether or not the bars are reached.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			exe, err := os.Executable()
			if err != nil {
				return err
			}
			if o.Runs < 1 || o.Tasks < 100 {
				return fmt.Errorf("--runs is at least 1, --tasks at least 100")
			}
			o.Bin, o.Progress = filepath.Dir(exe), c.ErrOrStderr()
			bars, err := bench.Run(c.Context(), o)
			if err != nil {
				return err
			}
			if jsonFile != "" {
				f, err := os.Create(jsonFile)
				if err != nil {
					return err
				}
				defer f.Close()
				if err := bench.WriteJSON(f, bars); err != nil {
					return err
				}
			}
			bench.Write(c.OutOrStdout(), bars)
			return nil
		},
	}
	c.Flags().IntVar(&o.Runs, "runs", 3, "runs of everything; medians count")
	c.Flags().DurationVar(&o.Streaming, "streaming", 15*time.Second, "that a thousand streams at once last")
	c.Flags().IntVar(&o.Tasks, "tasks", 4000, "tasks of one run")
	c.Flags().StringVar(&o.Profile, "profile", "",
		"write a CPU profile of the first part of --only, else of tasks, to this file, for go tool pprof; "+
			"-tagignore floor leaves the floor out")
	c.Flags().StringSliceVar(&o.Only, "only", nil, "measure these parts only: "+
		strings.Join(bench.Parts(), ", "))
	c.Flags().StringVar(&jsonFile, "json", "", "also write the figures of every run to this file")
	return c
}
